// io/poll/progress_owner.h - the progress owner: the application by its calls, or the progress thread. Holds the few
// words that both sides read without the shard's lock, and the thread's wake-ups.
//
// States of the thread:
//   kAbsent    not started: only calls make progress
//   kParked    the application polls; the thread checks from time to time whether it still does
//   kSpinning  in charge, polling the socket
//   kBlocked   in charge, asleep until a packet, a deadline or a wake-up
//   kStandingBy the application sleeps on the sockets itself (attend()); the thread keeps the deadlines, and checks
//              from time to time whether packets wait unread
#pragma once

#include <sched.h>

#include <atomic>
#include <cstdint>
#include <limits>
#include <optional>

#include "base/units.h"
#include "io/poll/distrust.h"
#include "io/poll/driver.h"
#include "io/poll/empty_polls.h"
#include "io/poll/wake_ups.h"

namespace brdma::io {

class ProgressOwner {
 public:
  using Thread = ThreadState;

  ProgressOwner() = default;  // without its descriptors (none left) the thread is never started
  ProgressOwner(const ProgressOwner&) = delete;
  ProgressOwner& operator=(const ProgressOwner&) = delete;

  // --- the application's calls; the shard's lock is held ---
  void called() {
    calls_.store((calls_.load(std::memory_order_relaxed) + 1) | kInside, std::memory_order_relaxed);
    core_.store(sched_getcpu(), std::memory_order_relaxed);
  }
  // The lock is released; does nothing if called() was not called since it was taken.
  void left() { calls_.store((calls_.load(std::memory_order_relaxed) + 1) & ~kInside, std::memory_order_relaxed); }
  // An empty poll; `looks`: number of checks in it.
  void on_empty_poll(unsigned looks = 1) {
    bump(polls_);
    empty_polls_.on_poll(looks);
  }
  // A poll returned completions. Of a program that sleeps between its polls, completions after a wake-up are no sign of
  // a loop. Else they are: a program whose polls always succeed, because the thread has received for it, would never
  // count as polling, and the two would take turns at the lock for ever.
  void polled_well() {
    if (!sleeps_) bump(polls_);
    empty_polls_.reset();
  }
  // Polls have been empty for some 100 us: the peer's process may be waiting for its core.
  [[nodiscard]] bool should_yield() const { return empty_polls_.should_yield(); }
  [[nodiscard]] bool polls_in_vain() const { return empty_polls_.many(); }  // likewise
  // The application may go to sleep now, it has armed a completion queue: the thread must be in charge, unless packets
  // wake the application itself.
  void request_charge();
  // There is more to do than this call does, and the application may not call again.
  void request_help();
  // Packets wake the application, and its next call takes them; until the thread finds that it does not.
  void attend();
  // It sleeps on completion channels between its calls, until it is seen to poll in a loop.
  void sleeps() { sleeps_ = true; }
  // What is known of both sides.
  [[nodiscard]] Driver driver() {
    const bool spins = application_spins();
    sleeps_ = sleeps_ && !spins;
    return {.thread = thread(), .spins = spins, .sleeps = sleeps_, .attends = attended()};
  }
  // It has armed a completion queue and will sleep; a packet wakes it.
  [[nodiscard]] bool packets_wake() const { return sleeps_ && armed() && attended(); }
  // It has emptied the socket.
  void looked() { bump(looks_); }
  void notified() { armed_.store(false, std::memory_order_relaxed); }
  // After a call: the earliest deadline. A thread that would oversleep it is woken then, not now: most often the
  // application continues to poll.
  void deadline_is(std::optional<Instant> deadline);
  [[nodiscard]] bool take_wake_request() { return wake_ups_.take_request(); }
  void wake() { wake_ups_.wake(); }  // the lock is not held

  // --- the thread's side ---
  // Number of the application's begun and ended calls.
  [[nodiscard]] std::uint64_t calls() const { return calls_.load(std::memory_order_relaxed); }
  // A call was begun or ended since calls() was `seen`, or is still in progress. A post of 256 KiB takes longer than
  // the thread's shortest interval, and it makes progress itself.
  [[nodiscard]] bool called_since(std::uint64_t seen) const {
    const std::uint64_t now = calls();
    return now != seen || (now & kInside) != 0;
  }
  // The application polls in a loop, so it needs no help: it has polled again and again since the thread took charge or
  // was asked to. A program that sleeps on a completion channel has one or two empty polls.
  [[nodiscard]] bool application_spins() const { return polls_.load() >= kLoopPolls; }
  [[nodiscard]] bool armed() const { return armed_.load(std::memory_order_relaxed); }
  [[nodiscard]] bool attended() const { return attended_.load(std::memory_order_relaxed); }
  // Lock held: for a while attend() changes nothing (distrust.h).
  void distrust(Instant now);
  [[nodiscard]] std::uint64_t looks() const { return looks_.load(std::memory_order_relaxed); }
  [[nodiscard]] bool help_wanted() const { return help_wanted_.load(std::memory_order_relaxed); }
  void helps() { help_wanted_.store(false, std::memory_order_relaxed); }  // lock held: the requested help is done next
  void set_thread(Thread state) { thread_.store(state); }
  void take_charge();  // lock held
  // Shard's lock held: from here on deadline_is() compares with `deadline`.
  void block_until(std::optional<Instant> deadline);
  // Likewise; the timer fires then, or later (kStandBySlackMin). `checks`: the thread wakes up within
  // kStandBySlackMax in any case, and asks deadline_has_passed().
  void stand_by(std::optional<Instant> deadline, bool checks);
  // The thread, standing by, was woken for a deadline. `due`: it had not moved meanwhile. While deadlines move they may
  // be kept later, so that fewer wake-ups do nothing.
  void on_deadline(bool due);
  [[nodiscard]] bool deadline_has_passed(Instant now) const {
    return now.ns() >= deadline_ns_.load(std::memory_order_relaxed);
  }

  // Core of the application's last call.
  [[nodiscard]] int core() const { return core_.load(std::memory_order_relaxed); }

  [[nodiscard]] Thread thread() const { return thread_.load(std::memory_order_relaxed); }
  [[nodiscard]] WakeUps& wake_ups() { return wake_ups_; }
  [[nodiscard]] const WakeUps& wake_ups() const { return wake_ups_; }

 private:
  static constexpr std::uint64_t kLoopPolls = 8;
  static constexpr Duration kStandBySlackMin = 200_us, kStandBySlackMax = 800_us;
  static constexpr std::int64_t kNoDeadline = std::numeric_limits<std::int64_t>::max();
  static constexpr std::uint64_t kInside = 1;  // of calls_: odd during a call
  // One writer at a time (the lock's holder): no locked instruction needed.
  static void bump(std::atomic<std::uint64_t>& counter) {
    counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  void keep_later(std::optional<Instant> deadline);
  alignas(64) std::atomic<std::uint64_t> calls_{0};
  std::atomic<std::uint64_t> polls_{0};
  std::atomic<std::uint64_t> looks_{0};
  std::atomic<int> core_{-1};
  alignas(64) std::atomic<Thread> thread_{Thread::kAbsent};
  std::atomic<bool> armed_{false};  // a completion queue was armed since the last notification
  std::atomic<bool> attended_{false}, help_wanted_{false};
  std::atomic<std::int64_t> deadline_ns_{kNoDeadline};  // the last one, while the thread stands by
  WakeUps wake_ups_;
  EmptyPolls empty_polls_;             // guarded by the shard's lock
  bool sleeps_ = false;                // likewise
  bool checks_ = false;                // likewise: of stand_by()
  Duration slack_ = kStandBySlackMin;  // likewise
  Distrust distrust_;                  // likewise
};

}  // namespace brdma::io
