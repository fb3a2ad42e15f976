#include "qp/unreliable/unreliable_receive.h"

namespace brdma::qp {

UnreliableReceiver::UnreliableReceiver(Environment& environment, const Identity& identity)
    : env_(environment), id_(identity), receives_(identity) {}

UnreliableReceiver::~UnreliableReceiver() { receives_.clear(); }

void UnreliableReceiver::start(Psn first) {
  expected_ = first;
  message_ = {};
  skipping_ = false;
}

void UnreliableReceiver::reset() {
  receives_.clear();
  start(Psn{});
}

void UnreliableReceiver::flush(Instant now) {
  // Of a shared queue's receives, the one that a message has begun to fill is used up; the others go back.
  std::size_t flushed = id_.srq == nullptr ? receives_.size() : message_.kind == Message::Kind::kSend ? 1 : 0;
  for (; flushed > 0; --flushed) {
    const Completion completion{.wr_id = receives_[0].wr_id,
                                .status = CompletionStatus::kFlushed,
                                .opcode = CompletionOpcode::kReceive,
                                .qp_num = id_.qpn};
    receives_.pop();
    env_.complete(*id_.receive_cq, completion, /*solicited=*/true, now);
  }
  receives_.clear();
  message_ = {};
}

Outcome UnreliableReceiver::handle(const wire::Packet& packet, const Datagram& datagram, Instant now) {
  if (env_.telemetry.sink != nullptr) [[unlikely]] {
    env_.trace(
        now, id_.qpn,
        trace::PacketReceived{packet.bth.opcode, packet.bth.psn, static_cast<std::uint32_t>(packet.payload.size())});
  }
  return id_.type == QpType::kUd ? take_datagram(packet, datagram, now) : take_connected(packet, now);
}

// An unwritable receive is our own program's fault: the queue pair goes to error (IBTA 10.3.1.6).
Outcome UnreliableReceiver::complete(const wire::Packet& packet, Completion completion, Instant now) {
  const bool good = completion.status == CompletionStatus::kSuccess;
  completion.wr_id = receives_[0].wr_id;
  completion.opcode = wire::is_write(packet.op) ? CompletionOpcode::kReceiveRdmaWithImm : CompletionOpcode::kReceive;
  completion.qp_num = id_.qpn;
  if (good && wire::has_immediate(packet.op)) {
    completion.flags |= kCompletionWithImm;
    completion.immediate_be = packet.immediate_be;
  }
  receives_.pop();
  if (!good) message_ = {};  // its receive is used up
  if (good) env_.count(Counter::kReceives);
  const bool kept = env_.complete(*id_.receive_cq, completion, packet.bth.solicited || !good, now);
  return {.to_error = !good || !kept};
}

}  // namespace brdma::qp
