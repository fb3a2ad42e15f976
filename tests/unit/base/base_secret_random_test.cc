// Random numbers that a peer may see.
#include <gtest/gtest.h>

#include <array>
#include <set>

#include "base/config.h"
#include "base/secret_random.h"

namespace brdma {
namespace {

TEST(SecretRandom, SameSeedSameNumbers) {
  SecretRandom a{1, "tokens"}, b{1, "tokens"}, other{1, "numbers"}, another{2, "tokens"};
  for (int i = 0; i < 100; ++i) {
    const std::uint64_t next = a.next();
    EXPECT_EQ(next, b.next());
    EXPECT_NE(next, other.next());
    EXPECT_NE(next, another.next());
  }
}

// From another implementation of SipHash, which reproduces the authors' vectors.
TEST(SecretRandom, IsWhatItSays) {
  SecretRandom random{1, "x"};
  EXPECT_EQ(random.next(), 0x0E02'79E3'12E3'19A3u);
  EXPECT_EQ(random.next(), 0x2A8A'97C0'A157'A9ABu);
  EXPECT_EQ(random.next(), 0xFD0D'CD0D'AF83'46E3u);
}

// Both halves of the kernel's bits count; engines of one seed share their keys only.
TEST(SecretRandom, AllBitsOfASeedCount) {
  std::set<std::uint64_t> seen{SecretRandom{{1, 0}, "x"}.next()};
  for (int bit = 0; bit < 64; ++bit) {
    seen.insert(SecretRandom{{1, std::uint64_t{1} << bit}, "x"}.next());
    seen.insert(SecretRandom{{1 ^ (std::uint64_t{2} << bit), 7}, "x"}.next());
  }
  EXPECT_EQ(seen.size(), 129u);

  EngineConfig first, second;
  second.shard = 1;
  EXPECT_NE(SecretRandom(first.own_seed(), "tokens").next(), SecretRandom(second.own_seed(), "tokens").next());
  EXPECT_EQ(SecretRandom(first.seed, "keys").next(), SecretRandom(second.seed, "keys").next());
}

TEST(SecretRandom, BitsAreSetHalfOfTheTime) {
  SecretRandom random{7, "bits"};
  constexpr int kNumbers = 10'000;
  std::array<int, 64> set{};
  std::set<std::uint64_t> seen;
  for (int i = 0; i < kNumbers; ++i) {
    const std::uint64_t next = random.next();
    seen.insert(next);
    for (std::size_t bit = 0; bit < set.size(); ++bit) set[bit] += static_cast<int>(next >> bit & 1);
  }
  EXPECT_EQ(seen.size(), static_cast<std::size_t>(kNumbers));
  for (const int count : set) EXPECT_NEAR(count, kNumbers / 2, 300);
}

TEST(SecretRandom, BelowItsBound) {
  SecretRandom random{7, "bound"};
  for (int i = 0; i < 1000; ++i) EXPECT_LT(random.below(13), 13u);
}

}  // namespace
}  // namespace brdma
