// io/poll/poll_policy.h - decides whether a poll returns, looks at the socket again, or stays a moment for what the
// peer is expected to send. Pure: it receives nothing and reads no clock. The driver (io/shard/shard.h) reports what
// happens, asks, and carries out. No poll lasts longer than `stay_max` after it had a completion or found nothing.
//
// Looking again. A packet that comes between two looks waits for the second one, and the end of one call and the start
// of the next lie between them. A program that only polls for its reply gets it sooner if a call looks several times. A
// program that works between its polls would get it later. So a poll looks again only if the call before, also empty,
// ended less than kAtOnceMax ago. It does not after delivered completions without a post since: a program that polls
// for more may post once there are none. Nor does it for a program that sleeps between its polls: packets wake that.
//
// Staying. A poll that returns the completion of a WRITE may be the program's last call for a while: it may wait in
// memory for what the peer sends next. Then only the progress thread receives; it must first notice that, and needs a
// core, often the program's. A poll that stays until the message has come receives it instead. It stays for
//   the start of a message   where a request completes as soon as it has left (UC): the peer cannot have answered
//   the rest of a message    where some of its packets are here, and nothing of the program's own is in flight (RC).
//                            Shorter messages carry the acknowledgement in their last packets
//                            (QueuePair::acknowledgement_waits).
// The cost, for a program with other work, is a completion that comes later. Such a program cannot be distinguished
// from one that waits in memory. So the past decides, by a score in [-8, 8]. The thread had to receive after a poll
// that returned at once: +1; the program called before that: -2, from 2 at most, since it comes back by itself; what
// the poll stayed for came: +1; it did not: -4. A poll stays from 2 on, except once after each kStaysPerTrial in all,
// so that a change of the program is noticed. One miss (a peer that lost its core) does not end it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "base/units.h"
#include "device/engine.h"
#include "io/poll/driver.h"

namespace brdma::io {

class PollPolicy {
 public:
  static constexpr Duration kAtOnceMax = 500_ns;
  // The maximum of Intake::looks_max() looks takes less; no deadline falls into it.
  static constexpr Duration kLooksLast = 8_us;
  // Without a packet. A message starts later where the peer's progress thread must wake up (40 us). A peer that has
  // lost its core in the middle of a message is back by then.
  static constexpr Duration kStartSilenceMax = 100_us, kRestSilenceMax = 5_ms;
  // Returning at once where staying is right costs up to 0.7 ms, until the thread notices: 3 % of this.
  static constexpr Duration kStaysPerTrial = 20_ms;

  // `stay_max`: control::DatapathConfig::poll_stay_max; 0: no poll stays or looks again.
  explicit PollPolicy(Duration stay_max) : stay_max_(stay_max) {}

  // --- events ---
  // The program posted; `load`: of the queue pair; `write`: the last request is a WRITE.
  void on_post(const QueuePair* qp, const Engine::Load& load, bool write) {
    came_back();
    delivered_ = false;
    between_ = true;
    posted_ = write ? qp : nullptr;
    awaits_start_ = load.unacknowledged;
  }
  // A poll begins.
  void on_poll() { came_back(); }
  // It returns completions.
  void on_completions() { delivered_ = between_ = true; }
  // It returns none.
  void on_empty(Instant now) { ended_ = now; }
  // The progress thread received something.
  void on_thread_received() {
    if (!returned_) return;
    returned_ = false;
    add(1);
  }
  // Queue pairs may be destroyed.
  void forget() { posted_ = nullptr; }

  // --- looking again ---
  // A poll has looked at the socket once, found nothing, and nothing else is to be done. True: look again, as often as
  // kLooksLast allows. `deadline`: the next one.
  [[nodiscard]] bool looks_again(const Driver& driver, std::optional<Instant> deadline, Instant now) {
    // The interval before a poll that returned the reply does not count.
    if (!between_) at_once_ = now - ended_ < kAtOnceMax;
    const bool again = at_once_ && !delivered_;
    delivered_ = between_ = false;
    return again && !driver.sleeps && stay_max_ >= kLooksLast && (!deadline || *deadline - now > kLooksLast);
  }

  // --- staying ---
  // A poll has completions. The queue pair over which the program posted a WRITE before: it stays(), or returns. Null:
  // it returns.
  [[nodiscard]] const QueuePair* take_posted(const Driver& driver) {
    const QueuePair* const qp = posted_;
    posted_ = nullptr;
    return driver.sleeps ? nullptr : qp;  // its core is the thread's, which receives as well
  }
  // `load`: of that queue pair.
  [[nodiscard]] bool stays(const Engine::Load& load);
  void on_stay_begins(Instant now) { began_ = last_packet_ = now; }
  void on_stay_packet(Instant now) {
    last_packet_ = now;
    start_came_ = true;
  }
  [[nodiscard]] bool goes_on(const Engine::Load& load, Instant now) const {
    const Duration silence_max = awaits_start_ ? kStartSilenceMax : kRestSilenceMax;
    return expects(load) && now - began_ < stay_max_ && now - last_packet_ < silence_max;
  }
  // goes_on() was false, or another thread waits for the lock.
  void on_stay_ends(const Engine::Load& load, Instant now) {
    if (!expects(load)) {
      add(1);
    } else if (!goes_on(load, now)) {
      add(-4);
    }
    stayed_ = stayed_ + (now - began_);
  }

 private:
  static constexpr int kScoreMax = 8, kScoreToStay = 2;
  void add(int points) { score_ = std::clamp(score_ + points, -kScoreMax, kScoreMax); }
  // The program calls, without a packet that the thread had to take.
  void came_back() {
    if (!returned_) [[likely]]
      return;
    returned_ = false;
    score_ = std::min(score_, kScoreToStay);
    add(-2);
  }
  // What the poll stays for is still to come.
  [[nodiscard]] bool expects(const Engine::Load& load) const {
    return awaits_start_ ? !start_came_ : load.receiving && !load.requests;
  }

  Duration stay_max_;
  // Looking again.
  Instant ended_;         // the last empty poll
  bool at_once_ = false;  // the program polls in a loop and does little else in it
  bool delivered_ = false, between_ = false;
  // Staying.
  const QueuePair* posted_ = nullptr;  // a WRITE, no poll with completions since
  bool awaits_start_ = false;          // it completes without acknowledgement; else the rest is awaited
  bool start_came_ = false;
  bool returned_ = false;  // such a poll did not stay, and neither the program nor the thread came since
  int score_ = 0;
  Duration stayed_{};  // since the last trial
  Instant began_, last_packet_;
};

}  // namespace brdma::io
