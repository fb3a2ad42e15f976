// io/poll/progress_owner.cc
#include "io/poll/progress_owner.h"

#include <algorithm>

#include "io/shard/clock.h"

namespace brdma::io {
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
  const Thread state = thread();
  if (state == Thread::kStandingBy) return keep_later(deadline);
  if (state == Thread::kBlocked && deadline && wake_ups_.oversleeps(*deadline)) wake_ups_.set_timer(*deadline);
}

// Most deadlines move before they come. A thread that stands by is not woken for each.
void ProgressOwner::keep_later(std::optional<Instant> deadline) {
  deadline_ns_.store(deadline ? deadline->ns() : kNoDeadline, std::memory_order_relaxed);
  if (!deadline || !wake_ups_.oversleeps(*deadline) || (checks_ && slack_ == kStandBySlackMax)) return;
  const Instant later = std::max(*deadline, monotonic_now() + slack_);
  if (wake_ups_.oversleeps(later)) wake_ups_.set_timer(later);
}

void ProgressOwner::attend() {
  if (!distrust_.holds() || distrust_.ends(monotonic_now())) attended_.store(true, std::memory_order_relaxed);
}

void ProgressOwner::distrust(Instant now) {
  distrust_.begin(now);
  attended_.store(false, std::memory_order_relaxed);
}

void ProgressOwner::on_deadline(bool due) { slack_ = due ? kStandBySlackMin : std::min(slack_ * 2, kStandBySlackMax); }

void ProgressOwner::block_until(std::optional<Instant> deadline) {
  wake_ups_.sleeps_until(deadline);
  set_thread(Thread::kBlocked);
}

void ProgressOwner::stand_by(std::optional<Instant> deadline, bool checks) {
  block_until(std::nullopt);
  checks_ = checks;
  set_thread(Thread::kStandingBy);
  keep_later(deadline);
}

}  // namespace brdma::io
