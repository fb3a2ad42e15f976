// io/poll/progress_owner.cc
#include "io/poll/progress_owner.h"

#include <algorithm>

#include "io/shard/clock.h"

namespace brdma::io {
namespace {

constexpr Duration kStandBySlack = 200_us;

}  // namespace

// The thread stores kParked and then asks application_spins(); here the count returns to 0 and then the state is read
// (all sequentially consistent): one of the two sees the other.
void ProgressOwner::request_charge() {
  armed_.store(true, std::memory_order_relaxed);
  polls_.store(0);
  if (thread_.load() == Thread::kParked) wake_ups_.request();
}

void ProgressOwner::request_help() {
  polls_.store(0);
  if (help_wanted_.exchange(true)) return;
  const Thread thread = thread_.load();
  if (thread == Thread::kParked || thread == Thread::kStandingBy) wake_ups_.request();
}

void ProgressOwner::take_charge() {
  polls_.store(0);
  set_thread(Thread::kSpinning);
}

void ProgressOwner::deadline_is(std::optional<Instant> deadline) {
  if ((thread() != Thread::kBlocked && thread() != Thread::kStandingBy) || !deadline) return;
  if (!wake_ups_.oversleeps(*deadline)) return;
  // Most deadlines move before they come. A thread that stands by is not woken for each.
  if (thread() == Thread::kStandingBy) {
    deadline = std::max(*deadline, monotonic_now() + kStandBySlack);
    if (!wake_ups_.oversleeps(*deadline)) return;
  }
  wake_ups_.set_timer(*deadline);
}

void ProgressOwner::block_until(std::optional<Instant> deadline) {
  wake_ups_.sleeps_until(deadline);
  set_thread(Thread::kBlocked);
}

void ProgressOwner::stand_by(std::optional<Instant> deadline) {
  block_until(std::nullopt);
  set_thread(Thread::kStandingBy);
  deadline_is(deadline);
}

}  // namespace brdma::io
