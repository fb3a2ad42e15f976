// Whether a lab needs a user namespace, and what is advised where namespaces are refused: by capabilities, not by user.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/capability.h>

#include <cerrno>

#include "rights/rights.h"

namespace brdma {
namespace {

constexpr std::uint64_t set_of(std::initializer_list<int> capabilities) {
  std::uint64_t set = 0;
  for (const int one : capabilities) set |= std::uint64_t{1} << one;
  return set;
}

constexpr std::uint64_t kAll = set_of({CAP_SYS_ADMIN, CAP_NET_ADMIN, CAP_NET_RAW});

TEST(Rights, ALabIsMadeDirectlyWithAllThreeCapabilities) {
  EXPECT_TRUE(can_make_lab_directly({.effective = kAll}, true));
  EXPECT_TRUE(can_make_lab_directly({.effective = ~0ull}, true));
  // Root of a container: SYS_ADMIN alone makes namespaces, in which it may then make no link.
  EXPECT_FALSE(can_make_lab_directly({.effective = set_of({CAP_SYS_ADMIN})}, true));
  EXPECT_FALSE(can_make_lab_directly({.effective = set_of({CAP_SYS_ADMIN, CAP_NET_ADMIN})}, true));
  EXPECT_FALSE(can_make_lab_directly({.effective = set_of({CAP_NET_ADMIN, CAP_NET_RAW})}, true));
  EXPECT_FALSE(can_make_lab_directly({}, true));
}

TEST(Rights, AUserNeedsThemForTheProgramsToo) {
  EXPECT_FALSE(can_make_lab_directly({.effective = kAll}, false));
  EXPECT_FALSE(can_make_lab_directly({.effective = kAll, .ambient = set_of({CAP_SYS_ADMIN})}, false));
  EXPECT_TRUE(can_make_lab_directly({.effective = kAll, .ambient = kAll}, false));
}

TEST(Rights, RootNeedsACapabilityToMapItself) {
  EXPECT_TRUE(can_map_itself({.effective = set_of({CAP_SETFCAP})}, true));
  EXPECT_FALSE(can_map_itself({.effective = kAll}, true));
  EXPECT_TRUE(can_map_itself({}, false));
  EXPECT_THAT(cure_for_no_map(false), testing::HasSubstr("--user"));
  EXPECT_THAT(cure_for_no_map(true), testing::Not(testing::HasSubstr("SETFCAP")));
}

TEST(Rights, TheAdviceFollowsFromWhatForbids) {
  using testing::HasSubstr;
  EXPECT_THAT(cure_for_no_namespaces(NamespaceFacts{.error = EPERM, .forbidding = "sysctl a.b=1"}),
              HasSubstr("'sysctl a.b=1'"));
  EXPECT_THAT(cure_for_no_namespaces(NamespaceFacts{.error = ENOSPC}), HasSubstr("user.max_net_namespaces"));
  EXPECT_THAT(cure_for_no_namespaces(NamespaceFacts{.error = EPERM, .filtered = true}),
              testing::AllOf(HasSubstr("seccomp=unconfined"), HasSubstr("--cap-add SYS_ADMIN")));
  EXPECT_THAT(cure_for_no_namespaces(NamespaceFacts{.error = EPERM}), HasSubstr("CAP_SYS_ADMIN"));
}

}  // namespace
}  // namespace brdma
