// io/poll/progress_owner.cc
#include "io/poll/progress_owner.h"

#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>

#include "io/shard/clock.h"

namespace brdma::io {
namespace {

constexpr Duration kStandBySlack = 200_us;

}  // namespace

ProgressOwner::ProgressOwner()
    : wake_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      timer_fd_(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)) {}

ProgressOwner::~ProgressOwner() {
  if (wake_fd_ >= 0) close(wake_fd_);
  if (timer_fd_ >= 0) close(timer_fd_);
}

// The thread stores kParked and then asks application_spins(); here the count returns to 0 and then the state is read
// (all sequentially consistent): one of the two sees the other.
void ProgressOwner::request_charge() {
  armed_.store(true, std::memory_order_relaxed);
  polls_.store(0);
  if (thread_.load() == Thread::kParked) wake_requested_ = true;
}

void ProgressOwner::request_help() {
  polls_.store(0);
  if (help_wanted_.exchange(true)) return;
  const Thread thread = thread_.load();
  if (thread == Thread::kParked || thread == Thread::kStandingBy) wake_requested_ = true;
}

void ProgressOwner::take_charge() {
  polls_.store(0);
  set_thread(Thread::kSpinning);
}

void ProgressOwner::deadline_is(std::optional<Instant> deadline) {
  if ((thread() != Thread::kBlocked && thread() != Thread::kStandingBy) || !deadline) return;
  if (blocked_until_ && *blocked_until_ <= *deadline) return;
  // Most deadlines move before they come. A thread that stands by is not woken for each.
  if (thread() == Thread::kStandingBy) {
    deadline = std::max(*deadline, monotonic_now() + kStandBySlack);
    if (blocked_until_ && *blocked_until_ <= *deadline) return;
  }
  blocked_until_ = deadline;
  constexpr std::int64_t kNsPerSecond = 1'000'000'000;
  const std::int64_t ns = std::max<std::int64_t>(deadline->ns(), 1);  // 0 would switch it off
  itimerspec when{};
  when.it_value = {ns / kNsPerSecond, ns % kNsPerSecond};
  timerfd_settime(timer_fd_, TFD_TIMER_ABSTIME, &when, nullptr);
}

void ProgressOwner::block_until(std::optional<Instant> deadline) {
  blocked_until_ = deadline;
  set_thread(Thread::kBlocked);
}

void ProgressOwner::stand_by(std::optional<Instant> deadline) {
  block_until(std::nullopt);
  set_thread(Thread::kStandingBy);
  deadline_is(deadline);
}

void ProgressOwner::wake() {
  const std::uint64_t one = 1;
  (void)!write(wake_fd_, &one, sizeof(one));  // can fail only by overflow, and then the thread is awake anyway
}

void ProgressOwner::clear_wake() {
  std::uint64_t count;
  (void)!read(wake_fd_, &count, sizeof(count));
}

bool ProgressOwner::take_timer() {
  std::uint64_t count;
  return read(timer_fd_, &count, sizeof(count)) > 0;
}

}  // namespace brdma::io
