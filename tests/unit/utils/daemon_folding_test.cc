// The counters of a lease that ended are added to the totals exactly once, wherever the worker that adds them is
// killed: it runs instruction by instruction, and the next worker starts from the memory after each.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <memory>

#include "lease/shared_state.h"

namespace brdma::daemon {
namespace {

constexpr std::uint32_t kSlot = 7;
constexpr std::uint64_t kBefore = 100, kCounted = 11;

class FoldingTest : public testing::Test {
 protected:
  void SetUp() override {
    void* const memory =
        ::mmap(nullptr, sizeof(SharedState), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    state_ = static_cast<SharedState*>(memory);
    counted_.add(Counter::kSentPackets, kCounted);
    counted_.add(Counter::kRetransmittedFfm, 1);
  }
  void TearDown() override { ::munmap(state_, sizeof(SharedState)); }

  // An earlier lease of the device.
  void end_one_before() {
    io::put_text(state_->slots[3].device, "brdma_a");
    Statistics before;
    before.add(Counter::kSentPackets, kBefore);
    fold_ended(*state_, 3, before);
  }

  // Continues as the next worker does.
  void expect_once_after(const SharedState& left, std::uint64_t before) {
    const auto next = std::make_unique<SharedState>(left);
    finish_folding(*next);
    fold_ended(*next, kSlot, counted_);
    ASSERT_EQ(next->device_count, 1u);
    ASSERT_EQ(io::get_text(next->devices[0].device), "brdma_a");
    ASSERT_EQ(next->devices[0].ended.get(Counter::kSentPackets), before + kCounted);
    ASSERT_EQ(next->devices[0].ended.get(Counter::kRetransmittedFfm), 1u);
    ASSERT_TRUE(next->slots[kSlot].folded);
  }

  // A worker that folds, stopped after each instruction. Returns their number; 0: it cannot be traced here.
  int step_through(std::uint64_t before) {
    io::put_text(state_->slots[kSlot].device, "brdma_a");
    const pid_t worker = ::fork();
    if (worker == 0) {
      if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) ::_exit(1);
      ::raise(SIGSTOP);
      fold_ended(*state_, kSlot, counted_);
      ::_exit(0);
    }
    int steps = 0, status = 0;
    auto seen = std::make_unique<SharedState>(*state_);
    while (::waitpid(worker, &status, 0) == worker && WIFSTOPPED(status)) {
      if (std::memcmp(seen.get(), state_, sizeof *seen) != 0) {  // most instructions change nothing
        *seen = *state_;
        expect_once_after(*seen, before);
      }
      if (HasFatalFailure() || ::ptrace(PTRACE_SINGLESTEP, worker, nullptr, nullptr) != 0) {
        ::kill(worker, SIGKILL);
        ::waitpid(worker, &status, 0);
        break;
      }
      ++steps;
    }
    expect_once_after(*state_, before);
    return steps;
  }

  SharedState* state_ = nullptr;
  Statistics counted_;
};

TEST_F(FoldingTest, OfALeaseOfANewDevice) {
  if (step_through(0) == 0) GTEST_SKIP() << "no process can be traced here";
}

TEST_F(FoldingTest, OfALeaseOfAKnownDevice) {
  end_one_before();
  if (step_through(kBefore) == 0) GTEST_SKIP() << "no process can be traced here";
}

TEST_F(FoldingTest, ASlotThatIsLeasedAgainIsFoldedAgain) {
  io::put_text(state_->slots[kSlot].device, "brdma_a");
  fold_ended(*state_, kSlot, counted_);
  fold_ended(*state_, kSlot, counted_);
  EXPECT_EQ(state_->devices[0].ended.get(Counter::kSentPackets), kCounted);
  state_->slots[kSlot].folded = false;
  fold_ended(*state_, kSlot, counted_);
  EXPECT_EQ(state_->devices[0].ended.get(Counter::kSentPackets), 2 * kCounted);
}

}  // namespace
}  // namespace brdma::daemon
