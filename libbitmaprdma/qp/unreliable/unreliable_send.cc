#include "qp/unreliable/unreliable_send.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "qp/state/limits.h"

namespace brdma::qp {
namespace {

constexpr std::uint32_t kOwnQkey = 0x8000'0000;  // IBTA 10.2.5: a Q_Key with this bit stands for the queue pair's own

bool is_write(WorkOpcode opcode) { return opcode <= WorkOpcode::kRdmaWriteWithImm; }
bool has_immediate(WorkOpcode opcode) {
  return opcode == WorkOpcode::kSendWithImm || opcode == WorkOpcode::kRdmaWriteWithImm;
}
bool known(QpType type, WorkOpcode opcode) {
  if (opcode == WorkOpcode::kSend || opcode == WorkOpcode::kSendWithImm) return true;
  return type == QpType::kUc && is_write(opcode);
}

wire::RcOp op_of(WorkOpcode opcode, bool first, bool last) {
  unsigned op = static_cast<unsigned>(is_write(opcode) ? wire::RcOp::kWriteFirst : wire::RcOp::kSendFirst);
  if (last) {
    op += (first ? 4u : 2u) + (has_immediate(opcode) ? 1u : 0u);  // Only, Last, each with immediate behind it
  } else if (!first) {
    op += 1;
  }
  return static_cast<wire::RcOp>(op);
}

}  // namespace

UnreliableSender::UnreliableSender(Environment& environment, const Identity& identity)
    : env_(environment), id_(identity), queue_(identity.capabilities) {}

Status UnreliableSender::post(const SendRequest& request) {
  std::uint32_t length = 0;
  if (const Status status = check(request, length); !status.ok()) return status;
  if (queue_.full()) return Status{ENOMEM};
  if (!queue_.push(request, length)) return Status{EFAULT};
  if (id_.type == QpType::kUd) destinations_.push_back({*request.address, request.remote_qpn, request.remote_qkey});
  return Status::success();
}

Status UnreliableSender::check_all(std::span<const SendRequest> requests) const {
  std::uint32_t length = 0;
  for (const SendRequest& request : requests) {
    if (const Status status = check(request, length); !status.ok()) return status;
  }
  return requests.size() > queue_.room() ? Status{ENOMEM} : Status::success();
}

Status UnreliableSender::check(const SendRequest& request, std::uint32_t& length) const {
  constexpr std::uint32_t kFlags = kSendFence | kSendSignaled | kSendSolicited | kSendInline;
  if (!known(id_.type, request.opcode) || (request.flags & ~kFlags) != 0) return Status{EINVAL};
  if (id_.type == QpType::kUd && (request.address == nullptr || request.remote_qpn > 0xFF'FFFF)) return Status{EINVAL};
  // As for RC: the count before anything is read.
  const bool inlined = (request.flags & kSendInline) != 0;
  if (request.sges.size() > (inlined ? kSgesMax : id_.capabilities.send_sge_max)) return Status{EINVAL};
  std::uint64_t sum = 0;
  for (const Sge& sge : request.sges) sum += sge.length;
  if (sum > (inlined ? id_.capabilities.inline_bytes_max : kMessageBytesMax)) return Status{EINVAL};
  length = static_cast<std::uint32_t>(sum);
  return Status::success();
}

void UnreliableSender::start(Psn first) {
  psn_ = first;
  offset_ = 0;
}

void UnreliableSender::reset() {
  queue_.clear();
  destinations_.clear();
  start(Psn{});
  fault_.forget_lost();
  outcome_ = {};
}

void UnreliableSender::flush(Instant now) {
  while (!queue_.empty()) complete_head(CompletionStatus::kFlushed, now);
  queue_.clear();
  offset_ = 0;
}

void UnreliableSender::handed_over(Instant now) {
  while (queue_.head() != queue_.next()) complete_head(CompletionStatus::kSuccess, now);
}

Outcome UnreliableSender::take_outcome() { return std::exchange(outcome_, {}); }

bool UnreliableSender::has_output() const {
  if (id_.state == QpState::kSqd) return offset_ != 0;  // only the message in progress
  return id_.state == QpState::kRts && queue_.next() != queue_.tail();
}

bool UnreliableSender::poll(TransmitBatch& batch, Instant now) {
  handed_over(now);
  if (!has_output()) return false;
  begin(batch);
  // A copy: completing sent requests moves the ring.
  const Destination first = id_.type == QpType::kUd ? destination() : Destination{};
  PayloadCursor cursor{env_.memory, id_.pd, /*access=*/0};
  bool added = false;
  while (has_output() && (!added || same_destination(first)) && add_packet(batch, cursor, now)) added = true;
  return added;
}

void UnreliableSender::begin(TransmitBatch& batch) {
  if (id_.type == QpType::kUd) {
    const AddressHandle& to = destination().address;
    return batch.begin({to.local, to.peer, /*path=*/0, to.traffic_class, to.hop_limit}, flow_);
  }
  const QpAttributes& to = id_.attributes;
  batch.begin({to.local_address, to.peer_address, /*path=*/0, to.traffic_class, to.hop_limit}, flow_);
}

// A batch's first packet selects the receiving socket: one queue pair a batch.
bool UnreliableSender::same_destination(const Destination& first) const {
  if (id_.type != QpType::kUd) return true;
  const Destination& next = destination();
  return next.qpn == first.qpn && next.address.peer == first.address.peer &&
         next.address.local == first.address.local && next.address.traffic_class == first.address.traffic_class &&
         next.address.hop_limit == first.address.hop_limit;
}

// False: the next packet does not fit into the batch, or cannot be sent at all. In that case its error waits until the
// batch in front of it has left.
bool UnreliableSender::add_packet(TransmitBatch& batch, PayloadCursor& cursor, Instant now) {
  const SendWqe& wqe = queue_[queue_.next()];
  const std::uint32_t left = wqe.length - offset_;
  const std::uint32_t bytes = std::min(left, id_.mtu());
  CompletionStatus fault = CompletionStatus::kSuccess;
  if (id_.type == QpType::kUd && left > bytes) fault = CompletionStatus::kLocalLengthError;
  cursor.seek(queue_, queue_.next(), offset_);
  if (fault == CompletionStatus::kSuccess && !cursor.take(bytes)) fault = CompletionStatus::kLocalProtectionError;
  if (fault != CompletionStatus::kSuccess) {
    if (batch.packets() == 0) fail(fault, now);
    return false;
  }
  wire::Packet packet;
  build(packet, left == bytes);
  const std::size_t size = TransmitBatch::packet_bytes(packet, bytes);
  if (!batch.fits(size, cursor.slices().size(), /*bitmap=*/false)) return false;
  batch.add(packet, cursor.slices(), bytes);
  ++psn_;
  offset_ += bytes;
  if (left == bytes) {
    queue_.begin_next();
    offset_ = 0;
  }
  env_.count(Counter::kSentDataPackets);
  if (env_.telemetry.sink != nullptr) [[unlikely]] {
    env_.trace(now, id_.qpn,
               trace::PacketSent{packet.bth.opcode, packet.bth.psn, static_cast<std::uint32_t>(size), false});
  }
  return true;
}

void UnreliableSender::build(wire::Packet& packet, bool last) const {
  const SendWqe& wqe = queue_[queue_.next()];
  const bool first = offset_ == 0, datagram = id_.type == QpType::kUd;
  packet.op = op_of(wqe.opcode, first, last);
  packet.bth.opcode = static_cast<std::uint8_t>(static_cast<unsigned>(packet.op) |
                                                (datagram ? wire::kTransportUd : wire::kTransportUc));
  packet.bth.psn = psn_;
  packet.bth.dest_qpn = id_.attributes.destination_qpn;
  if (datagram) {
    const Destination& to = destination();
    packet.bth.dest_qpn = to.qpn;
    packet.deth = {.qkey = (to.qkey & kOwnQkey) != 0 ? id_.attributes.qkey : to.qkey, .source_qpn = id_.qpn};
  }
  if (first && is_write(wqe.opcode)) packet.reth = {wqe.remote_address, wqe.rkey, wqe.length};
  if (!last) return;
  packet.immediate_be = wqe.immediate_be;
  packet.bth.solicited =
      (wqe.flags & kSendSolicited) != 0 && wqe.opcode != WorkOpcode::kRdmaWrite;  // a WRITE alone takes no receive
}

void UnreliableSender::complete_head(CompletionStatus status, Instant now) {
  if (status == CompletionStatus::kSuccess && is_send(queue_[queue_.head()].opcode)) env_.count(Counter::kSends);
  WorkCompleter{env_, id_, queue_, fault_}.complete(status, now);
  if (fault_.lost()) outcome_.to_error = true;
  if (!destinations_.empty()) destinations_.pop_front();
}

void UnreliableSender::fail(CompletionStatus status, Instant now) {
  queue_.begin_next();
  offset_ = 0;
  complete_head(status, now);
  outcome_.sends_fail = true;
}

std::size_t UnreliableSender::allocated_bytes() const {
  return queue_.allocated_bytes() + destinations_.allocated_bytes();
}

}  // namespace brdma::qp
