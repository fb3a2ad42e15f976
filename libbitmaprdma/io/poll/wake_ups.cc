#include "io/poll/wake_ups.h"

#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

namespace brdma::io {

WakeUps::WakeUps()
    : wake_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      timer_fd_(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)) {}

WakeUps::~WakeUps() {
  if (wake_fd_ >= 0) close(wake_fd_);
  if (timer_fd_ >= 0) close(timer_fd_);
}

void WakeUps::set_timer(Instant deadline) {
  sleeps_until_ = deadline;
  constexpr std::int64_t kNsPerSecond = 1'000'000'000;
  const std::int64_t ns = std::max<std::int64_t>(deadline.ns(), 1);  // 0 would switch it off
  itimerspec when{};
  when.it_value = {ns / kNsPerSecond, ns % kNsPerSecond};
  timerfd_settime(timer_fd_, TFD_TIMER_ABSTIME, &when, nullptr);
}

void WakeUps::wake() {
  const std::uint64_t one = 1;
  (void)!write(wake_fd_, &one, sizeof(one));  // can fail only by overflow, and then the thread is awake anyway
}

void WakeUps::clear_wake() {
  std::uint64_t count;
  (void)!read(wake_fd_, &count, sizeof(count));
}

bool WakeUps::take_timer() {
  std::uint64_t count;
  return read(timer_fd_, &count, sizeof(count)) > 0;
}

}  // namespace brdma::io
