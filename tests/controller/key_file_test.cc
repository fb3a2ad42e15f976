// The choice of a member's key in a file.
#include "controller-session/key_file.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace brdma::session {
namespace {

Key key(unsigned char first) {
  Key key{};
  key[0] = first;
  return key;
}

TEST(KeyOf, AMemberHasTheKeyOfItsName) {
  const Keys named{{"h1", key(1)}, {"s1", key(2)}};
  EXPECT_EQ(key_of(named, "s1"), (Keys{{"s1", key(2)}}));
  EXPECT_THROW((void)key_of(named, "h2"), std::runtime_error);
  EXPECT_THROW((void)key_of(named, ""), std::runtime_error) << "which?";
  EXPECT_EQ(key_of({{"h1", key(1)}}, ""), (Keys{{"h1", key(1)}}));
}

TEST(KeyOf, WithoutItsOwnAMemberTakesTheSharedOne) {
  const Keys keys{{"*", key(3)}, {"s1", key(2)}};
  EXPECT_EQ(key_of(keys, "s1"), (Keys{{"s1", key(2)}}));
  EXPECT_EQ(key_of(keys, "h1"), (Keys{{"*", key(3)}}));
}

}  // namespace
}  // namespace brdma::session
