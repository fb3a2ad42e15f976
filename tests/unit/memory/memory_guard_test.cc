// Access to memory that is not there gives an error; access to memory that is there does the same as memcpy() and
// std::atomic.
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <vector>

#include "io/system/fault_handler.h"
#include "memory/guard.h"
#include "wire/crc/icrc.h"

namespace brdma::memory {
namespace {

const auto kPage = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));

// Two pages that are there and one behind them that is not.
class Gone {
 public:
  explicit Gone(int protection = PROT_NONE) : bytes_(map()) {
    EXPECT_EQ(::mprotect(bytes_ + 2 * kPage, kPage, protection), 0);
    std::memset(bytes_, 0x11, 2 * kPage);
  }
  ~Gone() { ::munmap(bytes_, 3 * kPage); }
  Gone(const Gone&) = delete;
  Gone& operator=(const Gone&) = delete;
  [[nodiscard]] std::byte* end() const { return bytes_ + 2 * kPage; }
  void unmap() { ASSERT_EQ(::munmap(bytes_, 3 * kPage), 0); }

 private:
  static std::byte* map() {
    void* const at = ::mmap(nullptr, 3 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(at, MAP_FAILED);
    return static_cast<std::byte*>(at);
  }
  std::byte* bytes_;
};

std::vector<std::size_t> sizes() {
  std::vector<std::size_t> all(300);
  std::iota(all.begin(), all.end(), std::size_t{1});
  for (const std::size_t size : {383, 384, 385, 511, 512, 513, 1023, 1024, 1025, 4095, 4096}) all.push_back(size);
  return all;
}

class MemoryGuard : public testing::Test {
 protected:
  MemoryGuard() { io::keep_fault_handler(); }
  ~MemoryGuard() override {
    sigset_t now;
    pthread_sigmask(SIG_SETMASK, nullptr, &now);
    EXPECT_EQ(sigismember(&now, SIGSEGV), 0) << "left as if the handler still ran";
    EXPECT_EQ(own_guard.stack, nullptr);
  }
};

TEST_F(MemoryGuard, CopiesEveryByteAndNoOther) {
  std::vector<std::byte> from(5000), to(5000);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i % 251 + 1);
  for (const std::size_t size : sizes()) {
    for (const std::size_t at : {0, 1, 7, 16, 33}) {
      std::fill(to.begin(), to.end(), std::byte{0});
      ASSERT_TRUE(memory::copy(to.data() + at, from.data() + at / 2, size));
      ASSERT_EQ(std::memcmp(to.data() + at, from.data() + at / 2, size), 0) << size;
      for (std::size_t i = 0; i < at; ++i) ASSERT_EQ(to[i], std::byte{0}) << size;
      for (std::size_t i = at + size; i < to.size(); ++i) ASSERT_EQ(to[i], std::byte{0}) << size;
    }
  }
  EXPECT_TRUE(memory::copy(nullptr, nullptr, 0));
}

TEST_F(MemoryGuard, OfACopyWhoseEndIsNotThereTheAnswerIsFalse) {
  const Gone gone, read_only(PROT_READ);
  std::vector<std::byte> own(5000);
  for (const std::size_t size : sizes()) {
    ASSERT_TRUE(memory::copy(gone.end() - size, own.data(), size)) << size;
    ASSERT_TRUE(memory::copy(own.data(), gone.end() - size, size)) << size;
    for (const std::size_t beyond : {std::size_t{1}, (size + 1) / 2, size}) {
      ASSERT_FALSE(memory::copy(gone.end() + beyond - size, own.data(), size)) << size << " " << beyond;
      ASSERT_FALSE(place(gone.end() + beyond - size, own.data(), size)) << size << " " << beyond;
      ASSERT_FALSE(memory::copy(own.data(), gone.end() + beyond - size, size)) << size << " " << beyond;
      ASSERT_FALSE(memory::copy(read_only.end() + beyond - size, own.data(), size)) << size << " " << beyond;
      ASSERT_TRUE(memory::copy(own.data(), read_only.end() + beyond - size, size)) << size << " " << beyond;
    }
  }
}

TEST_F(MemoryGuard, UnmappedMemoryAndNoAddressAtAll) {
  Gone gone;
  std::byte own[64]{};
  std::byte* const at = gone.end() - 64;
  gone.unmap();
  EXPECT_FALSE(memory::copy(at, own, sizeof own));
  EXPECT_FALSE(memory::copy(own, at, sizeof own));
#if !defined(BRDMA_ADDRESS_SANITIZER)  // which takes it for a mistake before we do
  std::byte* const impossible = reinterpret_cast<std::byte*>(std::uintptr_t{0x8000'0000'0000'0000});
  EXPECT_FALSE(memory::copy(impossible, own, sizeof own));
  EXPECT_FALSE(memory::copy(own, impossible, sizeof own));
#endif
}

TEST_F(MemoryGuard, BehindTheEndOfAFileItIsSigbus) {
  char name[] = "/tmp/brdma-guard-XXXXXX";
  const int file = ::mkstemp(name);
  ASSERT_GE(file, 0);
  ::unlink(name);
  ASSERT_EQ(::ftruncate(file, static_cast<off_t>(kPage)), 0);
  auto* const at = static_cast<std::byte*>(::mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
  ASSERT_NE(at, MAP_FAILED);
  std::byte own[300]{};
  EXPECT_TRUE(memory::copy(at, own, sizeof own));
  ASSERT_EQ(::ftruncate(file, 0), 0);
  EXPECT_FALSE(memory::copy(at, own, sizeof own));
  EXPECT_FALSE(memory::copy(own, at, sizeof own));
  EXPECT_FALSE(can_read(at, 1));
  ::munmap(at, kPage);
  ::close(file);
}

TEST_F(MemoryGuard, WordsInOneStep) {
  const Gone gone;
  std::byte* const word = gone.end() - 8;
  std::uint64_t original = 0, value = 0;
  ASSERT_TRUE(store(word, std::uint64_t{40}));
  ASSERT_TRUE(fetch_add(word, 2, original));
  EXPECT_EQ(original, 40u);
  ASSERT_TRUE(compare_swap(word, 7, 8, original));
  EXPECT_EQ(original, 42u);
  ASSERT_TRUE(compare_swap(word, 42, 8, original));
  EXPECT_EQ(original, 42u);
  std::memcpy(&value, word, sizeof value);
  EXPECT_EQ(value, 8u);
  ASSERT_TRUE(store(gone.end() - 1, std::byte{9}));
  EXPECT_EQ(gone.end()[-1], std::byte{9});
  EXPECT_FALSE(store(gone.end(), std::uint64_t{1}));
  EXPECT_FALSE(store(gone.end(), std::byte{1}));
  EXPECT_FALSE(fetch_add(gone.end(), 1, original));
  EXPECT_FALSE(compare_swap(gone.end(), 0, 1, original));
}

TEST_F(MemoryGuard, ALookChangesNothing) {
  const Gone gone, read_only(PROT_READ);
  EXPECT_TRUE(can_read(gone.end() - 2 * kPage, 2 * kPage));
  EXPECT_TRUE(can_write(gone.end() - 2 * kPage, 2 * kPage));
  EXPECT_FALSE(can_read(gone.end() - 1, 2));
  EXPECT_FALSE(can_write(gone.end() - 1, 2));
  EXPECT_TRUE(can_read(read_only.end(), kPage));
  EXPECT_FALSE(can_write(read_only.end() - 1, 2));
  EXPECT_TRUE(can_read(gone.end(), 0));
  for (std::size_t i = 1; i <= 2 * kPage; ++i) ASSERT_EQ(gone.end()[-static_cast<std::ptrdiff_t>(i)], std::byte{0x11});
}

std::uint32_t icrc_of(ConstBytes payload) {
  static const wire::IcrcPath path{IpAddress::v4(1, 2, 3, 4), IpAddress::v4(1, 2, 3, 5), 1, 4791, 0};
  static const std::array<std::byte, 12> headers{};
  wire::Icrc icrc(path, 4096, headers);
  icrc.update(payload);
  return icrc.finish();
}

// For any code that computes them, by size and machine; registers are preserved.
TEST_F(MemoryGuard, ChecksumsAreLeftInTheMiddle) {
  const Gone gone;
  std::array<std::uint64_t, 8> live;
  for (std::size_t size = 1; size <= 2 * kPage; size = size < 300 ? size + 1 : size + 333) {
    const ConstBytes there{gone.end() - size, size}, beyond{gone.end() - size / 2, size};
    for (std::size_t i = 0; i < live.size(); ++i) live[i] = size * (i + 3);
    double kept = static_cast<double>(size) * 0.5;
    std::uint32_t sum = 0;
    ASSERT_TRUE(guarded(there, [&] { sum = icrc_of(there); }));
    ASSERT_EQ(sum, icrc_of(there));
    ASSERT_FALSE(guarded(beyond, [&] { sum = icrc_of(beyond); })) << size;
    ASSERT_EQ(static_cast<std::uint32_t>(guarded_sum(wire::extend_icrc, 7, there).value),
              wire::extend_icrc(7, there.data(), size));
    ASSERT_EQ(guarded_sum(wire::extend_icrc, 7, beyond).there, 0u) << size;
    for (std::size_t i = 0; i < live.size(); ++i) ASSERT_EQ(live[i], size * (i + 3));
    ASSERT_EQ(kept, static_cast<double>(size) * 0.5);
  }
}

TEST_F(MemoryGuard, OnASmallStack) {
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, PTHREAD_STACK_MIN), 0);
  Gone gone;
  const auto work = [](void* given) -> void* {
    const ConstBytes beyond{static_cast<std::byte*>(given) - 8, 64};
    std::byte own[64];
    volatile std::byte seen{};
    const bool copied = memory::copy(own, beyond.data(), sizeof own);
    const bool done = guarded(beyond, [&] { seen = beyond[63]; });
    return copied || done ? nullptr : given;
  };
  pthread_t thread{};
  ASSERT_EQ(pthread_create(&thread, &attributes, work, gone.end()), 0);
  void* good = nullptr;
  ASSERT_EQ(pthread_join(thread, &good), 0);
  EXPECT_EQ(good, gone.end());
  pthread_attr_destroy(&attributes);
}

using MemoryGuardDeathTest = MemoryGuard;

// A fault of the program's handler during our access to other memory is not ours.
TEST_F(MemoryGuardDeathTest, OtherFaultsAreNotSwallowed) {
  const Gone gone;
  const auto wild = [&] {
    const ConstBytes there{gone.end() - 64, 64};
    const bool done = guarded(there, [&] { *const_cast<volatile std::byte*>(gone.end()) = std::byte{1}; });
    ::_exit(done ? 1 : 2);
  };
#if defined(BRDMA_ADDRESS_SANITIZER)
  EXPECT_DEATH(wild(), "SEGV");
#else
  EXPECT_EXIT(wild(), testing::KilledBySignal(SIGSEGV), "");
#endif
}

}  // namespace
}  // namespace brdma::memory
