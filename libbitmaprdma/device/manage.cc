// Management while the engine runs: recovery settings and state reports.
//
// A change of settings (device/settings.h) costs a walk over the queue pairs, and nothing on the data path.
#include <algorithm>
#include <cerrno>
#include <utility>

#include "device/engine_impl.h"
#include "qp/state/management.h"

namespace brdma {
namespace {

BitmapReport bitmap_report(std::uint32_t window, const bitmap::WindowUse& use, const RecoveryConfig& config) {
  const bitmap::WindowShape shape = qp::window_shape(config);
  return {.segmented = use.segmented,
          .base = shape.base,
          .extension = shape.extension,
          .segment = shape.segment,
          .window = window,
          .length = use.length,
          .segments = use.segments,
          .bytes = use.bytes};
}

void report_reliable(const QueuePair& qp, QueuePairReport& report, Instant now) {
  const qp::RequesterManagement sending{qp.requester()};
  const auto sender = qp.requester().snapshot();
  const auto receiver = qp.responder().snapshot();
  const RecoveryConfig& recovery = *qp.identity().recovery;
  report.send_base = sender.base;
  report.send_next = sender.next;
  report.unacked = sender.unacked;
  report.pending = sender.pending;
  report.flight_packets = sender.flight_packets;
  report.flight_bytes = sender.flight_bytes;
  report.congestion_bytes = sender.congestion_bytes;
  report.work_requests = sender.work_requests;
  report.rate = sender.rate;
  report.response_rate = sender.response_rate;
  report.srtt = sender.srtt;
  report.base_rtt = sender.base_rtt;
  report.waits_for_receiver = sender.waits_for_receiver;
  report.receive_next = receiver.next;
  report.receive_highest = receiver.highest;
  report.gaps = receiver.gaps;
  report.early_packets = receiver.early_packets;
  report.held_bytes = receiver.held_bytes;
  report.receives = receiver.receives;
  report.limits = qp.responder().limits(now);
  report.response_limits = sending.limits(now);
  report.response_gaps = sending.open_gaps(now).size();
  report.receive_paths = qp.responder().receive_paths(now);
  report.response_paths = sending.receive_paths(now);
  report.send_bitmap = bitmap_report(sender.window, sender.bitmap, recovery);
  report.receive_bitmap = bitmap_report(receiver.window, receiver.bitmap, recovery);
  report.state_bytes = receiver.state_bytes + sender.bitmap.bytes;
  if (std::vector<qp::PathStatus> paths = sending.send_paths(); paths.size() > 1) report.paths = std::move(paths);
}

void report_unreliable(const qp::Unreliable& qp, QueuePairReport& report) {
  report.send_base = report.send_next = qp.sender.next_psn();
  report.work_requests = qp.sender.work_requests();
  report.receive_next = qp.receiver.next_psn();
  report.receive_highest = report.receive_next - 1;
  report.receives = qp.receiver.receives();
}

}  // namespace

// The operator's limits, for all programs of the device together. A refusal is an event, because an errno cannot name
// the limit.
bool Engine::Impl::admits_queue_pair() {
  device_use.set_queue_pairs(queue_pairs.size() + 1);
  const DeviceUse::Sum others = device_use.of_others();
  const auto refused = [this](trace::Limit limit, std::uint64_t most, std::uint64_t used) {
    device_use.set_queue_pairs(queue_pairs.size());
    environment.count(Counter::kQpsRefused);
    environment.note(now, 0, trace::EventType::kLimitReached, static_cast<std::uint64_t>(limit), most, used);
    return false;
  };
  const std::uint64_t pairs_max = settings.config.recovery.qps_max,
                      bytes_max = settings.config.recovery.device_state_bytes_max;
  const std::uint64_t pairs = queue_pairs.size(), bytes = environment.pools.segments.used_bytes();
  const auto sum = [](std::uint64_t own, std::uint64_t all_others, std::uint64_t most) {
    return all_others >= most ? all_others : own + all_others;  // which may be any number
  };
  if (const std::uint64_t used = sum(pairs, others.queue_pairs, pairs_max); used >= pairs_max)
    return refused(trace::Limit::kQueuePairs, pairs_max, used);
  if (const std::uint64_t used = sum(bytes, others.state_bytes, bytes_max); used >= bytes_max)
    return refused(trace::Limit::kDeviceState, bytes_max, used);
  return true;
}

void Engine::share_limits(const DeviceUse& use) {
  impl_->device_use = use;
  impl_->device_use.set_queue_pairs(impl_->queue_pairs.size());
  publish_state_bytes();
}
void Engine::publish_state_bytes() { impl_->device_use.set_state_bytes(state_bytes()); }
void Engine::set_journal(trace::Journal* journal) { impl_->environment.telemetry.journal = journal; }
std::size_t Engine::state_bytes() const { return impl_->environment.pools.segments.used_bytes(); }

Status Engine::change_recovery(std::optional<std::uint32_t> qpn, const RecoveryEditor& editor, Instant now) {
  Impl& me = *impl_;
  me.now = now;
  QueuePair* const only = qpn ? me.queue_pairs.find(*qpn) : nullptr;
  if (qpn && only == nullptr) return Status{ENOENT};
  // Copies first: the device's own settings change below, and most queue pairs point to them.
  std::vector<std::pair<QueuePair*, RecoveryConfig>> wanted;
  me.queue_pairs.for_each([&](QueuePair* qp) {
    wanted.emplace_back(qp, *qp->identity().recovery);
    if (only == nullptr || qp == only) editor.edit(wanted.back().second, /*made=*/true);
  });
  if (only == nullptr) {
    editor.edit(me.settings.config.recovery, /*made=*/false);
    editor.edit_transfers(me.settings.config.transfer);
    me.schedule.set_regular_turns(me.settings.config.transfer.regular_turns);
  }
  for (const auto& [qp, config] : wanted) {
    if (only != nullptr && qp != only) continue;
    qp->manage().set_recovery(me.settings.shared(config), now);
    me.touched(qp);
  }
  me.settings.drop_unused(me.queue_pairs);
  me.environment.note(now, qpn.value_or(0), trace::EventType::kSettingsChanged, only != nullptr ? 1 : wanted.size());
  return Status::success();
}

const RecoveryConfig& Engine::recovery() const { return impl_->settings.config.recovery; }
const Statistics& Engine::statistics() const { return impl_->environment.telemetry.statistics; }
const TransferConfig& Engine::transfer() const { return impl_->settings.config.transfer; }

std::vector<std::uint32_t> Engine::queue_pair_numbers() const {
  std::vector<std::uint32_t> numbers;
  impl_->queue_pairs.for_each([&](const QueuePair* qp) { numbers.push_back(qp->identity().qpn); });
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

std::optional<QueuePairReport> Engine::report(std::uint32_t qpn) const { return report(qpn, impl_->now); }

std::optional<QueuePairReport> Engine::report(std::uint32_t qpn, Instant now) const {
  const QueuePair* const qp = impl_->queue_pairs.find(qpn);
  if (qp == nullptr) return std::nullopt;
  const qp::Identity& identity = qp->identity();
  QueuePairReport report;
  report.qpn = identity.qpn;
  report.peer_qpn = identity.attributes.destination_qpn;
  report.receive_start = identity.attributes.receive_psn;
  report.send_start = identity.attributes.send_psn;
  report.type = identity.type;
  report.xrc = identity.xrc;
  report.state = identity.state;
  report.local = identity.attributes.local_address;
  report.peer = identity.attributes.peer_address;
  report.path_mtu = identity.mtu();
  report.pd = identity.pd->number;
  report.bitmap_agreed = identity.bitmap_agreed;
  report.peer_window = identity.peer_window;
  report.local_memory = identity.local_state;
  report.local_agreed = identity.local != nullptr && identity.local->agreed();
  if (qp->unreliable() != nullptr) {
    report_unreliable(*qp->unreliable(), report);
  } else {
    report_reliable(*qp, report, now);
  }
  report.memory = qp::memory_use(*qp);
  report.recovery = *identity.recovery;
  report.own_recovery = identity.recovery != &impl_->settings.config.recovery;
  report.statistics = qp->statistics();
  return report;
}

std::vector<qp::OpenGap> Engine::open_gaps(std::uint32_t qpn, Instant now) const {
  const QueuePair* const qp = impl_->queue_pairs.find(qpn);
  if (qp == nullptr || qp->unreliable() != nullptr) return {};
  std::vector<qp::OpenGap> open = qp->responder().open_gaps(now);
  const std::vector<qp::OpenGap> responses = qp::RequesterManagement{qp->requester()}.open_gaps(now);
  open.insert(open.end(), responses.begin(), responses.end());
  return open;
}

void Engine::note_query(bool duplicates, std::uint32_t qpn, std::size_t records, Instant now) {
  const auto type = duplicates ? trace::EventType::kDuplicatesQueried : trace::EventType::kGapsQueried;
  impl_->environment.note(now, qpn, type, records);
}

Result<qp::RetransmitRequested, int> Engine::retransmit(std::uint32_t qpn, const Retransmission& which, Instant now) {
  Impl& me = *impl_;
  me.now = now;
  QueuePair* const qp = me.queue_pairs.find(qpn);
  if (qp == nullptr) return ENOENT;
  if (qp->unreliable() != nullptr || !qp->identity().can_receive()) return EINVAL;
  const qp::RetransmitRequested asked =
      which.gaps ? qp->manage().retransmit_gaps(which.psn, now) : qp->manage().retransmit(which.psn, which.count, now);
  if (asked.packets == 0) return ERANGE;
  me.environment.note(now, qpn, trace::EventType::kRetransmitRequested, asked.first.value(), asked.packets, asked.gaps);
  me.touched(qp);
  return asked;
}

std::vector<qp::Duplicate> Engine::duplicates() const {
  const qp::DuplicateLog& log = impl_->environment.duplicates;
  std::vector<qp::Duplicate> last;
  for (std::size_t i = 0; i < log.size(); ++i) last.push_back(log[i]);
  return last;
}

RecoveryStatus Engine::recovery_status() const {
  RecoveryStatus status;
  status.pool_bytes = impl_->environment.pools.free_bytes();
  impl_->queue_pairs.for_each([&](const QueuePair* qp) {
    ++status.queue_pairs;
    if (qp->unreliable() != nullptr) return;
    const auto sender = qp->requester().snapshot();
    const auto receiver = qp->responder().snapshot();
    if (sender.bitmap.segmented || receiver.bitmap.segmented) ++status.segmented;
    status.segments += sender.bitmap.segments + receiver.bitmap.segments;
    status.gaps += receiver.gaps;
    status.state_bytes += sender.bitmap.bytes + receiver.state_bytes;
  });
  return status;
}

std::vector<CompletionQueueReport> Engine::completion_queue_reports() const {
  std::vector<CompletionQueueReport> reports;
  for (const auto& cq : impl_->queues.completion_queues()) {
    reports.push_back({static_cast<std::uint32_t>(reports.size()), cq->capacity(),
                       static_cast<std::uint32_t>(cq->size()), cq->queue_pairs});
  }
  return reports;
}

std::vector<MemoryRegion> Engine::memory_regions() const { return impl_->memory.list(); }

std::vector<ProtectionDomain> Engine::protection_domains() const { return impl_->memory.domains(); }

std::vector<SharedReceiveQueueReport> Engine::shared_receive_queue_reports() const {
  std::vector<SharedReceiveQueueReport> reports;
  for (const auto& srq : impl_->queues.shared_receive_queues()) {
    SharedReceiveQueueReport& report = reports.emplace_back();
    report.number = static_cast<std::uint32_t>(reports.size() - 1);
    report.pd = srq->pd()->number;
    for (const QueuePair* qp : srq->queue_pairs) report.queue_pairs.push_back(qp_num(qp));
    std::sort(report.queue_pairs.begin(), report.queue_pairs.end());
  }
  return reports;
}

}  // namespace brdma
