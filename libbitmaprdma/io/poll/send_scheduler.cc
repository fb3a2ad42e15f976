// io/poll/send_scheduler.cc
#include "io/poll/send_scheduler.h"

namespace brdma::io {

std::uint64_t SendScheduler::plan(Occasion occasion, const Engine::Interest& interest, const Engine::Load& load,
                                  const Driver& driver, Instant now) {
  if (!possible_) return 0;
  if (occasion == Occasion::kPoll && rest_waits(load, now) && only_gathered(interest)) return 0;
  if (occasion == Occasion::kPost && driver.polls_in_loop() && !cut_short_) {
    const std::uint64_t full = posts_.full(load.per_batch, load.in_flight);
    if (full > 0 && only_gathered(interest)) {
      posts_.sent(full, now);
      return full;
    }
  }
  cut_short_ = false;
  posts_.clear();
  const bool deferrable = interest.level == TransmitInterest::kDeferrable;
  if (deferrable && may_hold(occasion, load) && keeps_hold(driver) && acks_.hold_back(now, hold_max(driver))) return 0;
  acks_.sent(!deferrable);
  return kAllPackets;
}

// Only posts of the gathering queue pair could leave, and no peer waits for anything beyond them but an acknowledgement
// that may wait.
bool SendScheduler::only_gathered(const Engine::Interest& interest) const {
  if (interest.level == TransmitInterest::kNone) return true;
  return interest.level == TransmitInterest::kNewData && interest.only == posts_.from();
}

// Holding back is for calls in quick succession, or for a thread that keeps the deadline. A blocked thread would have
// to be woken for it, which costs more than the acknowledgement. Exception: the program polls in a loop again and the
// thread has not noticed yet. The first separate acknowledgement would make the peer wait for its own thread, which
// then blocks in turn: two programs that poll their memory would never get in step again. A program that sleeps on
// completion channels and takes its packets itself holds back until it has replied, or goes to sleep again; the thread,
// which stands by, has the deadline.
bool SendScheduler::keeps_hold(const Driver& driver) {
  if (driver.sleeps) return driver.attends && driver.thread == ThreadState::kStandingBy;
  return driver.thread != ThreadState::kBlocked || driver.spins;
}

}  // namespace brdma::io
