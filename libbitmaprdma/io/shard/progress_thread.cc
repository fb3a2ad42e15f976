// io/shard/progress_thread.cc
#include "io/shard/progress_thread.h"

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

#include "io/shard/clock.h"
#include "io/shard/start_thread.h"
#include "io/system/poll_open.h"

namespace brdma::io {
namespace {

using State = ProgressOwner::Thread;

// A deadline nearer than this is awaited spinning: sleeping and waking up takes about as long.
constexpr Duration kSleepMin = 20_us;
// The application spins on its memory and will reply: on another core it does so within a microsecond; else it needs
// this one.
constexpr Duration kReplyWait = 3_us;
constexpr int kRelaxBetweenRounds = 8;  // gives the application's thread a chance to take the lock
// Limits while standing by: checks of a quiet connection before the thread also sleeps on the sockets, time that a
// packet is left to the application (longer to one that has come each time: it may be waiting for a core), cost of each
// help in trust, and the maximum of trust.
constexpr unsigned kQuietLooks = 4;
constexpr Duration kAnswerWait = 50_us, kAnswerWaitTrusted = 400_us;
constexpr int kHelpCosts = 8, kTrustMax = 64;

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
  shard_.progress_owner().wake();
  thread_.join();
  shard_.progress_owner().set_thread(State::kAbsent);
}

bool ProgressThread::start() {
  if (!shard_.progress_owner().wake_ups().usable()) return false;
  thread_ = start_thread([this] { run(); });
  return started();
}

void ProgressThread::run() {
  pthread_setname_np(pthread_self(), "brdma-progress");
  prctl(PR_SET_TIMERSLACK, 1UL);
  while (!stopping()) {
    be_in_charge();
    stop_spinning();
    if (shard_.progress_owner().application_spins()) {
      stay_parked();
    } else {
      stand_by();
    }
  }
}

// The lock's holder makes progress: a few tries. But it may have lost its core, even to us.
void ProgressThread::take_lock() {
  constexpr int kTries = 16;
  for (int i = 0; i < kTries; ++i) {
    if (shard_.lock().try_lock()) return;
    relax();
  }
  shard_.lock().lock();
}

// Time to continue polling the socket after the last packet.
Duration ProgressThread::spin_time(Instant now) {
  const ProgressOwner& progress_owner = shard_.progress_owner();
  if (progress_owner.calls() != calls_seen_) {
    calls_seen_ = progress_owner.calls();
    last_call_ = now;
  }
  if (shard_.awaits_reply()) return std::min(kReplyWait, options_.spin);
  // The application runs, though it does not poll, and needs this core to check its memory.
  const bool runs = now - last_call_ < options_.park_interval_max && !progress_owner.armed();
  if (runs && progress_owner.core() == sched_getcpu()) return Duration{};
  return options_.spin;
}

bool ProgressThread::may_spin() {
  if (options_.spin_permits == nullptr || has_permit_) return true;
  return has_permit_ = options_.spin_permits->take();
}

void ProgressThread::stop_spinning() {
  if (std::exchange(has_permit_, false)) options_.spin_permits->give_back();
}

// Its own sockets wake it, and it has come since.
bool ProgressThread::application_attends(std::uint64_t looks_seen) const {
  const ProgressOwner& progress_owner = shard_.progress_owner();
  return progress_owner.attended() && !progress_owner.help_wanted() && progress_owner.looks() != looks_seen;
}

// The application itself spins, or takes its packets.
bool ProgressThread::is_relieved(const Charge& charge) const {
  if (charge.first) return false;
  return shard_.progress_owner().application_spins() || (!charge.owes && application_attends(charge.looks));
}

// With the lock held. The time at its end.
Instant ProgressThread::make_round(Charge& charge) {
  ProgressOwner& progress_owner = shard_.progress_owner();
  if (charge.first) {
    progress_owner.take_charge();
  } else {
    progress_owner.set_thread(State::kSpinning);
  }
  progress_owner.helps();
  const Shard::Round round = shard_.make_progress();
  charge.owes = shard_.has_pending_output();
  if (std::exchange(charge.first, false) && round.received > 0) park_interval_.helped();
  const Instant now = monotonic_now();
  if (round.busy) charge.last_busy = now;
  return now;
}

void ProgressThread::be_in_charge() {
  ProgressOwner& progress_owner = shard_.progress_owner();
  Charge charge{.looks = progress_owner.looks(), .last_busy = monotonic_now()};
  for (; !stopping() && !is_relieved(charge); relax()) {
    take_lock();
    std::unique_lock held{shard_.lock(), std::adopt_lock};
    const Instant now = make_round(charge);
    const auto deadline = shard_.next_deadline();
    const Duration left = deadline ? *deadline - now : Duration{};
    const bool spins = now - charge.last_busy < spin_time(now) && may_spin();
    if (spins || (deadline && left < kSleepMin)) continue;
    stop_spinning();
    progress_owner.block_until(deadline);
    const int writable_fd = shard_.sender().blocked_fd();
    shard_.count_drops();
    held.unlock();
    sleep(true, writable_fd, left, deadline.has_value());
  }
}

void ProgressThread::stay_parked() {
  ProgressOwner& progress_owner = shard_.progress_owner();
  progress_owner.set_thread(State::kParked);
  // It may have armed a completion queue before these polls, and will sleep when it gives up polling.
  if (progress_owner.armed()) park_interval_.alert();
  while (!stopping() && progress_owner.application_spins()) {
    const std::uint64_t calls = progress_owner.calls();
    sleep(false, -1, park_interval_.interval(), true);
    if (!progress_owner.called_since(calls)) return;
    park_interval_.present();
  }
}

// Returns when packets wait unread, or no longer wake the application.
void ProgressThread::stand_by() {
  ProgressOwner& progress_owner = shard_.progress_owner();
  stand_by_from_now(true);
  for (unsigned quiet = 0; !stopping() && progress_owner.attended() && !progress_owner.help_wanted();) {
    if (progress_owner.application_spins()) return;
    const std::uint64_t looks = progress_owner.looks();
    const bool deep = quiet >= kQuietLooks;
    const bool by_timer = sleep_beside(looks, deep);
    const bool comes = progress_owner.looks() != looks;
    if (by_timer || progress_owner.deadline_has_passed(monotonic_now())) keep_deadline(!deep || comes);
    if (comes) {
      on_present(deep && !by_timer);
      quiet = 0;
    } else if (packets_wait()) {
      return on_absent();
    } else if (!deep && !by_timer && ++quiet == kQuietLooks) {
      stand_by_from_now(false);
    }
  }
}

// Beside the application. True: a deadline woke it.
bool ProgressThread::sleep_beside(std::uint64_t looks_seen, bool deep) {
  (void)sleep(deep, -1, park_interval_.interval(), !deep);
  if (shard_.progress_owner().looks() == looks_seen && packets_wait()) sleep(false, -1, answer_wait(), true);
  return std::exchange(timer_fired_, false);
}

// The application has looked. `again`: its checks had ended.
void ProgressThread::on_present(bool again) {
  if (again) stand_by_from_now(true);
  trust_ = std::min(trust_ + 1, kTrustMax);
  park_interval_.present();
}

// `checks`: as ProgressOwner::stand_by().
void ProgressThread::stand_by_from_now(bool checks) {
  take_lock();
  const std::lock_guard held{shard_.lock(), std::adopt_lock};
  shard_.progress_owner().stand_by(shard_.next_deadline(), checks);
}

// Packets wait that the application should have taken.
void ProgressThread::on_absent() {
  trust_ -= kHelpCosts;
  take_lock();
  const std::lock_guard held{shard_.lock(), std::adopt_lock};
  shard_.count_help();
  if (trust_ >= -kTrustMax) return;
  trust_ = 0;
  shard_.progress_owner().distrust(monotonic_now());
}

Duration ProgressThread::answer_wait() const { return trust_ > 0 ? kAnswerWaitTrusted : kAnswerWait; }

// A deadline has come, or the timer has fired for one that has moved since: handles it where it is due, and sets the
// timer again.
void ProgressThread::keep_deadline(bool checks) {
  ProgressOwner& progress_owner = shard_.progress_owner();
  take_lock();
  const std::lock_guard held{shard_.lock(), std::adopt_lock};
  const auto deadline = shard_.next_deadline();
  const bool due = deadline && *deadline <= monotonic_now();
  if (due) (void)shard_.make_progress();
  progress_owner.on_deadline(due);
  progress_owner.stand_by(shard_.next_deadline(), checks);
}

bool ProgressThread::packets_wait() const {
  const std::array<int, 2> packets = shard_.receive_fds();
  std::array<pollfd, 2> fds{pollfd{packets[0], POLLIN, 0}, pollfd{packets[1], POLLIN, 0}};
  return poll_open(fds, 0) > 0;
}

// True: packets are there.
bool ProgressThread::sleep(bool on_packets, int writable_fd, Duration at_most, bool bounded) {
  constexpr std::int64_t kNsPerSecond = 1'000'000'000;
  const ProgressOwner& progress_owner = shard_.progress_owner();
  const std::array<int, 2> packets = on_packets ? shard_.receive_fds() : std::array{-1, -1};
  std::array<pollfd, 6> fds{pollfd{options_.watched_fd, POLLRDHUP, 0},
                            pollfd{progress_owner.wake_ups().wake_fd(), POLLIN, 0},
                            pollfd{progress_owner.wake_ups().timer_fd(), POLLIN, 0},
                            pollfd{packets[0], POLLIN, 0},
                            pollfd{packets[1], POLLIN, 0},
                            pollfd{writable_fd, POLLOUT, 0}};
  const timespec timeout{at_most.ns() / kNsPerSecond, at_most.ns() % kNsPerSecond};
  if (ppoll(fds.data(), fds.size(), bounded ? &timeout : nullptr, nullptr) <= 0) return false;
  if (fds[1].revents != 0) shard_.progress_owner().wake_ups().clear_wake();
  if (fds[2].revents != 0) timer_fired_ |= shard_.progress_owner().wake_ups().take_timer();
  if (fds[0].revents != 0) {
    options_.watched_fd = -1;
    const std::lock_guard held{shard_.lock()};
    if (options_.on_hangup) options_.on_hangup();
  }
  return (fds[3].revents | fds[4].revents) != 0;
}

}  // namespace brdma::io
