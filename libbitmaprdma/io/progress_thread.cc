// io/progress_thread.cc
#include "io/progress_thread.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <mutex>
#include <system_error>
#include <utility>

#include "io/clock.h"
#include "io/start_thread.h"

namespace brdma::io {
namespace {

using State = Attendance::Thread;

// A deadline nearer than this is awaited spinning: going to sleep and waking up takes about as long.
constexpr Duration kSleepMin = 20_us;
// The application spins on its memory and is to reply: on another core it does so within a microsecond; else it needs
// this one.
constexpr Duration kReplyWait = 3_us;
constexpr int kRelaxBetweenRounds = 8;  // leaves the application's thread a moment to take the lock

void relax() {
  for (int i = 0; i < kRelaxBetweenRounds; ++i) cpu_relax();
}

}  // namespace

ProgressThread::ProgressThread(Shard& shard, Options options)
    : shard_(shard),
      options_(std::move(options)),
      park_interval_(options_.park_interval_min, options_.park_interval_max) {}

ProgressThread::~ProgressThread() {
  if (!started()) return;
  stop_.store(true);
  shard_.attendance().wake();
  thread_.join();
  shard_.attendance().set_thread(State::kAbsent);
}

bool ProgressThread::start() {
  if (!shard_.attendance().usable()) return false;
  thread_ = start_thread([this] { run(); });
  return started();
}

void ProgressThread::run() {
  pthread_setname_np(pthread_self(), "brdma-progress");
  prctl(PR_SET_TIMERSLACK, 1UL);
  while (!stopping()) {
    be_in_charge();
    stop_spinning();
    stay_parked();
  }
}

// Whoever holds the lock makes progress: a few tries. But he may have lost his core, to us even.
void ProgressThread::take_lock() {
  constexpr int kTries = 16;
  for (int i = 0; i < kTries; ++i) {
    if (shard_.lock().try_lock()) return;
    relax();
  }
  shard_.lock().lock();
}

// How long to go on polling the socket after the last packet.
Duration ProgressThread::spin_time(Instant now) {
  const Attendance& attendance = shard_.attendance();
  if (attendance.calls() != calls_seen_) {
    calls_seen_ = attendance.calls();
    last_call_ = now;
  }
  if (shard_.awaits_reply()) return std::min(kReplyWait, options_.spin);
  // The application runs, though it does not poll, and needs this core to look at its memory.
  const bool runs = now - last_call_ < options_.park_interval_max && !attendance.armed();
  if (runs && attendance.core() == sched_getcpu()) return Duration{};
  return options_.spin;
}

bool ProgressThread::may_spin() {
  if (options_.spin_permits == nullptr || has_permit_) return true;
  return has_permit_ = options_.spin_permits->take();
}

void ProgressThread::stop_spinning() {
  if (std::exchange(has_permit_, false)) options_.spin_permits->give_back();
}

// Returns when the application spins itself.
void ProgressThread::be_in_charge() {
  Attendance& attendance = shard_.attendance();
  bool first = true;
  Instant last_busy = monotonic_now();
  for (; !stopping(); relax()) {
    if (!first && attendance.application_spins()) return;
    take_lock();
    std::unique_lock held{shard_.lock(), std::adopt_lock};
    if (first) {
      attendance.take_charge();
    } else {
      attendance.set_thread(State::kSpinning);
    }
    const Shard::Round round = shard_.make_progress();
    if (std::exchange(first, false) && round.received > 0) park_interval_.helped();
    const Instant now = monotonic_now();
    if (round.busy) last_busy = now;
    const auto deadline = shard_.next_deadline();
    const Duration left = deadline ? *deadline - now : Duration{};
    const bool spins = now - last_busy < spin_time(now) && may_spin();
    if (spins || (deadline && left < kSleepMin)) continue;
    stop_spinning();
    attendance.block_until(deadline);
    const int writable_fd = shard_.blocked_fd();
    shard_.count_drops();
    held.unlock();
    sleep(true, writable_fd, left, deadline.has_value());
  }
}

void ProgressThread::stay_parked() {
  Attendance& attendance = shard_.attendance();
  attendance.set_thread(State::kParked);
  // It may have armed a completion queue before it polled so often, and will sleep when it has had enough of that.
  if (attendance.armed()) park_interval_.alert();
  while (!stopping() && attendance.application_spins()) {
    const std::uint64_t calls = attendance.calls();
    sleep(false, -1, park_interval_.interval(), true);
    if (!attendance.called_since(calls)) return;
    park_interval_.present();
  }
}

void ProgressThread::sleep(bool on_packets, int writable_fd, Duration at_most, bool bounded) {
  constexpr std::int64_t kNsPerSecond = 1'000'000'000;
  const Attendance& attendance = shard_.attendance();
  const std::array<int, 2> packets = on_packets ? shard_.receive_fds() : std::array{-1, -1};
  std::array<pollfd, 6> fds{pollfd{options_.watched_fd, POLLRDHUP, 0},
                            pollfd{attendance.wake_fd(), POLLIN, 0},
                            pollfd{attendance.timer_fd(), POLLIN, 0},
                            pollfd{packets[0], POLLIN, 0},
                            pollfd{packets[1], POLLIN, 0},
                            pollfd{writable_fd, POLLOUT, 0}};
  const timespec timeout{at_most.ns() / kNsPerSecond, at_most.ns() % kNsPerSecond};
  if (ppoll(fds.data(), fds.size(), bounded ? &timeout : nullptr, nullptr) <= 0) return;
  if ((fds[1].revents | fds[2].revents) != 0) shard_.attendance().clear_wake();
  if (fds[0].revents != 0) {
    options_.watched_fd = -1;
    const std::lock_guard held{shard_.lock()};
    if (options_.on_hangup) options_.on_hangup();
  }
}

}  // namespace brdma::io
