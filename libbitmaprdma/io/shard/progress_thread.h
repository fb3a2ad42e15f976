// io/shard/progress_thread.h - makes progress for a shard while its application does not
// (docs/explanation/datapath.md).
//
//   parked     the application polls. Sleeps, and checks about every millisecond whether calls still come; if not,
//              takes charge.
//   in charge  receives, fires timeouts, sends. Spins until ~50 us after the last packet (a sleeping receiver costs
//              some 20 us a packet), then sleeps on the socket, the wake descriptor and the engine's next deadline.
//              Parks again when the application polls in a loop: the two would only take turns at the lock. An
//              application that arms a completion queue puts the thread in charge at once.
//   stands by  the application sleeps on the sockets itself (Shard::attend()). Keeps the deadlines; checks about every
//              millisecond for unread packets, and takes charge then until the application comes again. After some
//              checks of a quiet connection it sleeps on the sockets, too, and leaves the first packet to the
//              application for a moment. If it must help again and again, it stops trusting the application to come for
//              a while.
//
// A program may spin on its memory and seldom call us (ib_write_lat): then packets wait for a parked thread. The number
// of such waits sets its interval (park_interval.h): 50 us to 0.7 ms.
//
// Not all threads of one device (Context::open_shards) may spin at a time (spin_permits.h): a thread without a permit
// sleeps at once, unless a deadline is within 20 us.
//
// All signals are blocked in it and its timer slack is 1 ns. fork(): the child has no such thread, and must not use the
// context.
#pragma once

#include <atomic>
#include <functional>
#include <thread>

#include "base/units.h"
#include "io/poll/park_interval.h"
#include "io/shard/shard.h"
#include "io/shard/spin_permits.h"

namespace brdma::io {

class ProgressThread {
 public:
  struct Options {
    Duration spin = 50_us;                // after the last packet
    Duration park_interval_max = 700_us;  // the application counts as absent after one to two of these
    Duration park_interval_min = 50_us;
    SpinPermits* spin_permits = nullptr;  // shared with other threads, outlives them; null: spinning is not limited
    int watched_fd = -1;  // the daemon's connection: `on_hangup` is called once when its other end closes
    std::function<void()> on_hangup = nullptr;  // with the shard's lock held
  };

  // `shard` outlives this.
  ProgressThread(Shard& shard, Options options);
  ~ProgressThread();
  ProgressThread(const ProgressThread&) = delete;
  ProgressThread& operator=(const ProgressThread&) = delete;

  // False: the system gives no thread (or no descriptor); only the application's calls make progress then.
  bool start();
  [[nodiscard]] bool started() const { return thread_.joinable(); }
  // In a forked child there is nothing to join.
  void forget() { thread_.detach(); }

 private:
  // A time in charge.
  struct Charge {
    std::uint64_t looks = 0;  // the application's, at its beginning
    bool first = true;        // no round yet
    bool owes = false;        // the last round left output
    Instant last_busy;
  };

  void run();
  void be_in_charge();
  [[nodiscard]] bool is_relieved(const Charge& charge) const;
  Instant make_round(Charge& charge);
  void take_lock();
  [[nodiscard]] Duration spin_time(Instant now);
  [[nodiscard]] bool may_spin();
  void stop_spinning();
  void stay_parked();
  void stand_by();
  [[nodiscard]] bool sleep_beside(std::uint64_t looks_seen, bool deep);
  void on_present(bool again);
  void on_absent();
  [[nodiscard]] Duration answer_wait() const;
  void stand_by_from_now(bool checks);
  void keep_deadline(bool checks);
  [[nodiscard]] bool packets_wait() const;
  [[nodiscard]] bool application_attends(std::uint64_t looks_seen) const;
  bool sleep(bool on_packets, int writable_fd, Duration at_most, bool bounded);
  [[nodiscard]] bool stopping() const { return stop_.load(std::memory_order_relaxed); }

  Shard& shard_;
  Options options_;
  ParkInterval park_interval_;
  std::uint64_t calls_seen_ = 0;  // unchanged since:
  Instant last_call_;
  int trust_ = 0;  // in an application that attends: checks that found it present, less those that found it absent
  bool has_permit_ = false;   // one of spin_permits
  bool timer_fired_ = false;  // due deadlines are not handled yet
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace brdma::io
