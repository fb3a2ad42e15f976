#include "memory/memory_table.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <limits>
#include <set>
#include <utility>
#include <vector>

namespace brdma::memory {
namespace {

constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint32_t kReadWrite = kAccessLocalWrite | kAccessRemoteWrite | kAccessRemoteRead;

class MemoryTableTest : public testing::Test {
 protected:
  MemoryTable table_{SecretRandom{1, "keys"}};
  ProtectionDomain* pd_ = table_.alloc_pd();
  std::byte* bytes_ = nullptr;
};

TEST_F(MemoryTableTest, ResolvesExactlyTheRegion) {
  const MemoryRegion* region = table_.add(pd_, 0x10'0000, 100, 5000, kReadWrite).value();
  const auto fault = [&](std::uint64_t address, std::uint64_t length) {
    return table_.resolve(Accessor{pd_}, region->key, address, length, 0, &bytes_);
  };
  EXPECT_EQ(fault(5000, 100), Fault::kNone);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(bytes_), 0x10'0000u);
  EXPECT_EQ(fault(5099, 1), Fault::kNone);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(bytes_), 0x10'0063u);
  EXPECT_EQ(fault(5000, 101), Fault::kOutOfBounds);
  EXPECT_EQ(fault(5100, 1), Fault::kOutOfBounds);
  EXPECT_EQ(fault(4999, 1), Fault::kOutOfBounds);
  EXPECT_EQ(fault(4999, 2), Fault::kOutOfBounds);
  EXPECT_EQ(fault(5001, kMax), Fault::kOutOfBounds) << "the sum wraps round";
  EXPECT_EQ(fault(kMax, 2), Fault::kOutOfBounds);
  EXPECT_EQ(bytes_, nullptr);
  EXPECT_EQ(table_.resolve(Accessor{pd_}, 12345, 0, 0, kAccessRemoteWrite, &bytes_), Fault::kNone)
      << "nothing is accessed";
}

TEST_F(MemoryTableTest, ChecksKeyDomainAndPermission) {
  ProtectionDomain* other = table_.alloc_pd();
  MemoryRegion* region = table_.add(pd_, 0x1000, 64, 0x1000, kAccessLocalWrite | kAccessRemoteRead).value();
  const std::uint32_t key = region->key;
  EXPECT_EQ(table_.resolve(Accessor{pd_}, key, 0x1000, 1, kAccessRemoteRead, &bytes_), Fault::kNone);
  EXPECT_EQ(table_.resolve(Accessor{pd_}, key, 0x1000, 1, kAccessLocalWrite, &bytes_), Fault::kNone);
  EXPECT_EQ(table_.resolve(Accessor{pd_}, key, 0x1000, 1, kAccessRemoteWrite, &bytes_), Fault::kNoPermission);
  EXPECT_EQ(table_.resolve(Accessor{pd_}, key, 0x1000, 1, kAccessRemoteAtomic, &bytes_), Fault::kNoPermission);
  EXPECT_EQ(table_.resolve(Accessor{other}, key, 0x1000, 1, 0, &bytes_), Fault::kWrongDomain);
  for (unsigned bit = 0; bit < 32; ++bit) {
    EXPECT_EQ(table_.resolve(Accessor{pd_}, key ^ (1u << bit), 0x1000, 1, 0, &bytes_), Fault::kBadKey) << bit;
  }
  EXPECT_TRUE(table_.remove(region).ok());
  EXPECT_EQ(table_.resolve(Accessor{pd_}, key, 0x1000, 1, 0, &bytes_), Fault::kBadKey);
}

TEST_F(MemoryTableTest, RefusesWhatCannotBe) {
  const auto error = [&](ProtectionDomain* pd, std::uint64_t address, std::uint64_t length, std::uint64_t iova,
                         std::uint32_t access) {
    const auto result = table_.add(pd, address, length, iova, access);
    return result.ok() ? 0 : result.reason().error();
  };
  MemoryTable elsewhere{SecretRandom{2, "keys"}};
  EXPECT_EQ(error(nullptr, 0, 1, 0, 0), EINVAL);
  EXPECT_EQ(error(elsewhere.alloc_pd(), 0, 1, 0, 0), EINVAL);
  EXPECT_EQ(error(pd_, 0, 1, 0, kAccessRemoteWrite), EINVAL) << "needs local write";
  EXPECT_EQ(error(pd_, 0, 1, 0, kAccessRemoteAtomic), EINVAL);
  EXPECT_EQ(error(pd_, 0, 1, 0, kAccessRemoteRead), 0);
  EXPECT_EQ(error(pd_, 0, 1, 0, 1u << 31), EINVAL) << "unknown bit";
  EXPECT_EQ(error(pd_, 0, 1, 0, 1u << 20), 0) << "relaxed ordering is a hint";
  EXPECT_EQ(error(pd_, kMax, 1, 0, 0), 0);
  EXPECT_EQ(error(pd_, kMax, 2, 0, 0), EINVAL);
  EXPECT_EQ(error(pd_, 0, 2, kMax, 0), EINVAL);
  EXPECT_EQ(error(pd_, kMax, 0, kMax, 0), 0) << "an empty region lies anywhere";
  EXPECT_EQ(table_.dealloc_pd(nullptr).error(), EINVAL);
  EXPECT_EQ(table_.dealloc_pd(pd_).error(), EBUSY);
  EXPECT_EQ(table_.remove(nullptr).error(), EINVAL);
  EXPECT_EQ(table_.remove(elsewhere.add(elsewhere.alloc_pd(), 0, 1, 0, 0).value()).error(), EINVAL);
}

TEST_F(MemoryTableTest, KeysAreNotGuessable) {
  std::set<std::uint32_t> keys, high_bytes;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    MemoryTable table{SecretRandom{seed, "keys"}};
    const std::uint32_t key = table.add(table.alloc_pd(), 0, 1, 0, 0).value()->key;
    keys.insert(key);
    high_bytes.insert(key >> 24);
  }
  EXPECT_EQ(keys.size(), 200u);
  EXPECT_GT(high_bytes.size(), 90u) << "the upper bits are as random as the lower";
}

// Refused calls in between change nothing.
TEST_F(MemoryTableTest, TablesOfOneSeedThatSeeTheSameCallsHaveTheSameKeys) {
  MemoryTable other{SecretRandom{1, "keys"}};
  ProtectionDomain* const other_pd = other.alloc_pd();
  Random choice{7};
  std::vector<std::pair<MemoryRegion*, MemoryRegion*>> there;
  for (int i = 0; i < 2000; ++i) {
    if (!there.empty() && choice.below(2) == 0) {
      const std::size_t at = choice.below(there.size());
      ASSERT_TRUE(table_.remove(there[at].first).ok());
      ASSERT_TRUE(other.remove(there[at].second).ok());
      there.erase(there.begin() + static_cast<std::ptrdiff_t>(at));
      continue;
    }
    ASSERT_FALSE(other.add(other_pd, 0, 16, 0, kAccessRemoteWrite).ok());
    there.emplace_back(table_.add(pd_, 0, 16, 0, kReadWrite).value(),
                       other.add(other_pd, 0, 16, 0, kReadWrite).value());
    ASSERT_EQ(there.back().first->key, there.back().second->key);
  }
}

TEST_F(MemoryTableTest, ASlotUsedAgainHasAnotherKey) {
  std::uint32_t last = 0;
  for (int i = 0; i < 20'000; ++i) {
    MemoryRegion* region = table_.add(pd_, 0, 1, 0, 0).value();
    ASSERT_NE(region->key, last);
    ASSERT_NE(region->key, 0u);
    last = region->key;
    ASSERT_TRUE(table_.remove(region).ok());
  }
}

}  // namespace
}  // namespace brdma::memory
