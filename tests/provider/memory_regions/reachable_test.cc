// Memory that a process may read and write, as registration determines it: with the kernel's list of mappings, and
// without.
#include "memory_regions/reachable.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace brdma::provider {
namespace {

const auto kPage = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));

class Mapped {
 public:
  Mapped(std::size_t bytes, int protection, int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, int fd = -1)
      : bytes_(bytes), at_(static_cast<std::byte*>(::mmap(nullptr, bytes, protection, flags, fd, 0))) {
    EXPECT_NE(at_, MAP_FAILED);
  }
  ~Mapped() { ::munmap(at_, bytes_); }
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;
  [[nodiscard]] std::byte* at(std::size_t offset = 0) const { return at_ + offset; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] std::size_t present_pages() const {
    std::vector<unsigned char> pages(bytes_ / kPage);
    EXPECT_EQ(::mincore(at_, bytes_, pages.data()), 0);
    std::size_t count = 0;
    for (const unsigned char page : pages) count += page & 1;
    return count;
  }

 private:
  std::size_t bytes_;
  std::byte* at_;
};

// true: no file can be opened, so that the kernel's list is not available.
class Reachable : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
    const rlimit none{.rlim_cur = 0, .rlim_max = before_.rlim_max};
    if (GetParam()) {
      ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
    }
  }
  void TearDown() override { ::setrlimit(RLIMIT_NOFILE, &before_); }
  static bool reads(const void* at, std::size_t bytes) { return is_reachable(at, bytes, Access::kRead, kPages); }
  static bool writes(const void* at, std::size_t bytes) { return is_reachable(at, bytes, Access::kWrite, kPages); }
  static constexpr Pages kPages = Pages::kMayBeMade;

 private:
  rlimit before_{};
};

TEST_P(Reachable, WhatTheProtectionAllows) {
  const Mapped none(4 * kPage, PROT_NONE), read(4 * kPage, PROT_READ), both(4 * kPage, PROT_READ | PROT_WRITE);
  EXPECT_FALSE(reads(none.at(), none.bytes()));
  EXPECT_FALSE(writes(none.at(), none.bytes()));
  EXPECT_TRUE(reads(read.at(), read.bytes()));
  EXPECT_FALSE(writes(read.at(), read.bytes()));
  EXPECT_TRUE(reads(both.at(), both.bytes()));
  EXPECT_TRUE(writes(both.at(), both.bytes()));
}

TEST_P(Reachable, EveryPageOfTheRangeCounts) {
  for (std::size_t page = 0; page < 5; ++page) {
    const Mapped memory(5 * kPage, PROT_READ | PROT_WRITE);
    ASSERT_EQ(::mprotect(memory.at(page * kPage), kPage, PROT_READ), 0);
    EXPECT_TRUE(reads(memory.at(), memory.bytes()));
    EXPECT_FALSE(writes(memory.at(), memory.bytes())) << page;
    ASSERT_EQ(::munmap(memory.at(page * kPage), kPage), 0);
    EXPECT_FALSE(reads(memory.at(), memory.bytes())) << page;
  }
}

TEST_P(Reachable, TheEndsAreThoseOfTheRange) {
  const Mapped memory(3 * kPage, PROT_READ | PROT_WRITE);
  ASSERT_EQ(::mprotect(memory.at(), kPage, PROT_NONE), 0);
  ASSERT_EQ(::mprotect(memory.at(2 * kPage), kPage, PROT_NONE), 0);
  EXPECT_TRUE(writes(memory.at(kPage), kPage));
  EXPECT_TRUE(writes(memory.at(2 * kPage - 1), 1));
  EXPECT_FALSE(writes(memory.at(kPage - 1), 1));
  EXPECT_FALSE(writes(memory.at(kPage), kPage + 1));
  EXPECT_FALSE(reads(memory.at(2 * kPage), 1));
  EXPECT_TRUE(reads(memory.at(), 0));
  EXPECT_FALSE(reads(memory.at(), ~std::size_t{0}));
  EXPECT_FALSE(reads(reinterpret_cast<void*>(~std::uintptr_t{0}), 1));
  EXPECT_FALSE(reads(reinterpret_cast<void*>(std::uintptr_t{1} << 63), kPage));  // no address at all on x86-64
}

TEST_P(Reachable, ContentsStayAndErrnoToo) {
  const Mapped memory(2 * kPage, PROT_READ | PROT_WRITE);
  std::memset(memory.at(), 0x5A, kPage);
  errno = ENOTTY;
  EXPECT_TRUE(writes(memory.at(), memory.bytes()));
  EXPECT_FALSE(writes(reinterpret_cast<void*>(kPage), 1));
  EXPECT_EQ(errno, ENOTTY);
  for (std::size_t i = 0; i < kPage; ++i) ASSERT_EQ(memory.at()[i], std::byte{0x5A});
  for (std::size_t i = kPage; i < 2 * kPage; ++i) ASSERT_EQ(memory.at()[i], std::byte{});
}

TEST_P(Reachable, WhatIsLargeAndEmptyStaysEmpty) {
  const Mapped memory(std::size_t{4} << 30, PROT_READ | PROT_WRITE);
  EXPECT_TRUE(is_reachable(memory.at(), memory.bytes(), Access::kWrite, Pages::kAsTheyAre));
  EXPECT_EQ(memory.present_pages(), 0u);
  EXPECT_TRUE(writes(memory.at(), memory.bytes()));
  EXPECT_LE(memory.present_pages() * kPage, std::size_t{64} << 20);  // a touched page may be a huge one
}

INSTANTIATE_TEST_SUITE_P(, Reachable, testing::Bool(),
                         [](const auto& info) { return info.param ? "BySamples" : "ByTheListOfMappings"; });

// A file is opened while that is possible.
TEST(ReachableFile, NothingBehindTheEndOfAFile) {
  char name[] = "/tmp/brdma-reachable-XXXXXX";
  const int file = ::mkstemp(name);
  ASSERT_GE(file, 0);
  ::unlink(name);
  ASSERT_EQ(::ftruncate(file, static_cast<off_t>(kPage)), 0);
  const Mapped memory(2 * kPage, PROT_READ | PROT_WRITE, MAP_SHARED, file);
  EXPECT_TRUE(is_reachable(memory.at(), kPage, Access::kWrite, Pages::kMayBeMade));
  EXPECT_FALSE(is_reachable(memory.at(), 2 * kPage, Access::kWrite, Pages::kMayBeMade));
  EXPECT_FALSE(is_reachable(memory.at(), 2 * kPage, Access::kRead, Pages::kMayBeMade));
  ::close(file);
}

}  // namespace
}  // namespace brdma::provider
