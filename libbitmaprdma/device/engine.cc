// Construction of the engine, and the end of every call: touched queue pairs become ready to send, get another
// deadline, and may have notifications.
#include "device/engine.h"

#include <algorithm>

#include "base/check.h"
#include "device/engine_impl.h"

namespace brdma {
namespace {

Notification::Kind kind_of(int async_event) {
  switch (async_event) {
    case qp::kEventQpRequestError:
      return Notification::Kind::kQpRequestError;
    case qp::kEventQpAccessError:
      return Notification::Kind::kQpAccessError;
    case qp::kEventCommEstablished:
      return Notification::Kind::kCommEstablished;
    case qp::kEventSqDrained:
      return Notification::Kind::kSqDrained;
    case qp::kEventLastWqeReached:
      return Notification::Kind::kLastWqeReached;
    default:
      return Notification::Kind::kQpFatal;
  }
}

}  // namespace

Engine::Impl::Impl(const EngineConfig& given, Statistics& statistics, trace::Sink* sink)
    : settings(given),
      memory(SecretRandom(given.seed, "memory keys")),
      environment{.config = settings.config, .memory = memory, .telemetry = {.statistics = statistics, .sink = sink}},
      queue_pairs(given.slot, given.slot_bits, SecretRandom(given.own_seed(), "queue pair numbers")),
      schedule(given) {
  BRDMA_CHECK(!settings.config.source_ports.empty());
}

Engine::Engine(const EngineConfig& config, Statistics& statistics, trace::Sink* sink)
    : impl_(std::make_unique<Impl>(config, statistics, sink)) {}
Engine::~Engine() = default;

void Engine::Impl::settle() {
  for (QueuePair* qp : touched_pairs) {
    qp->is_touched = false;
    const registry::ReadyQueue queue = qp->wanted_queue();
    const bool is_idle = queue == registry::ReadyQueue::kNone;
    BRDMA_CHECK_SLOW(!is_idle || qp->interest(now) == TransmitInterest::kNone);
    if (!is_idle) schedule.add(qp, queue == registry::ReadyQueue::kLarge);
    note_changes(qp);
    qp->known_idle = is_idle;
  }
  touched_pairs.clear();
}

void Engine::Impl::take_events(QueuePair* qp) {
  for (int event = qp->events().take(); event >= 0; event = qp->events().take()) {
    notifications.push_back({kind_of(event), qp->identity().user});
  }
}

std::optional<WriteArrival> Engine::poll_write_arrival() {
  Ring<WriteArrival>& waiting = impl_->environment.notices.arrivals;
  if (waiting.empty()) return std::nullopt;
  const WriteArrival arrival = waiting.front();
  waiting.pop_front();
  return arrival;
}

void Engine::Impl::collect_notices() {
  while (!environment.notices.completions.empty()) {
    const qp::CompletionNotice notice = environment.notices.completions.front();
    environment.notices.completions.pop_front();
    const auto kind = notice.overrun ? Notification::Kind::kCqError : Notification::Kind::kCompletion;
    notifications.push_back({kind, notice.cq->user()});
  }
  while (!environment.notices.low_queues.empty()) [[unlikely]] {
      notifications.push_back({Notification::Kind::kSrqLimitReached, environment.notices.low_queues.front()->user()});
      environment.notices.low_queues.pop_front();
    }
}

void Engine::Impl::refresh_timers() {
  settle();
  timers.refresh();
}

std::optional<Instant> Engine::next_timeout() const {
  impl_->refresh_timers();
  const auto first = impl_->timers.earliest();
  if (impl_->managed.empty() && impl_->queues.moderated().empty()) [[likely]]
    return first;
  const auto earlier = [](std::optional<Instant> a, std::optional<Instant> b) { return !b || (a && *a < *b) ? a : b; };
  const auto visit = impl_->managed.empty() ? std::nullopt : impl_->managed.next_visit();
  return earlier(earlier(first, visit), impl_->queues.next_notification());
}

void Engine::handle_timeout(Instant now) {
  Impl& me = *impl_;
  me.now = now;
  me.refresh_timers();
  while (QueuePair* const qp = me.timers.take_due(now)) {
    qp->handle_timeout(now);
    me.touched(qp);  // its next deadline is read later: one turn a call, even if that lies in the past
  }
  me.settle();
  for (CompletionQueue* cq : me.queues.moderated()) {
    if (cq->expire(now)) me.notifications.push_back({Notification::Kind::kCompletion, cq->user()});
  }
  if (!me.managed.empty()) [[unlikely]]
    me.visit_managed();
}

// Those of touched queue pairs become notifications in settle().
bool Engine::has_notifications() const {
  const Impl& me = *impl_;
  if (me.environment.has_notices() || !me.notifications.empty() || !me.environment.notices.arrivals.empty())
    return true;
  for (QueuePair* qp : me.touched_pairs) {
    if (qp->events().any()) return true;
  }
  return false;
}

std::optional<Notification> Engine::poll_notification() {
  impl_->settle();
  Ring<Notification>& waiting = impl_->notifications;
  if (waiting.empty()) return std::nullopt;
  const Notification notification = waiting.front();
  waiting.pop_front();
  return notification;
}

}  // namespace brdma
