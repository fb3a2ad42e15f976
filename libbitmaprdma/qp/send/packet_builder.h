// qp/send/packet_builder.h - private: a packet's headers from its message and its sequence number. Nothing else enters,
// so a retransmission is built as the first transmission was (and in bitmap mode, once that is agreed, whatever the
// first one was). The caller adds what depends on the moment: acknowledgement request, path.
#pragma once

#include <cstdint>

#include "base/units.h"
#include "qp/loss/scoreboard.h"
#include "qp/queues/message_table.h"
#include "qp/queues/send_queue.h"
#include "qp/state/environment.h"
#include "qp/state/identity.h"
#include "wire/packet.h"

namespace brdma::qp {

// A view, made where it is needed.
class PacketBuilder {
 public:
  PacketBuilder(const Identity& id, const SendQueue& queue, const Scoreboard& scoreboard)
      : id_(id), queue_(queue), scoreboard_(scoreboard) {}

  // The packet at `sequence` of a WRITE or SEND.
  void data(wire::Packet& packet, const Message& message, Sequence sequence, bool again, Instant now) const;
  // The request for `count` responses (or of an operation with one response) from `sequence` on.
  void request(wire::Packet& packet, const Message& message, Sequence sequence, std::uint32_t count, bool again,
               Instant now) const;
  // Bytes that the request carries.
  [[nodiscard]] std::uint32_t request_payload(const Message& message) const {
    return message.kind == MessageKind::kConfirmed ? queue_[message.wqe].length : 0;
  }
  // For whoever watches the trace: `packets` data packets of `bytes` each, from `first` on, have left.
  [[gnu::cold]] void trace_data(Environment& env, const Message& message, Sequence first, std::uint64_t packets,
                                std::size_t bytes, Instant now) const;
  // The number of the segment that `sequence` is in. Precondition: the message leaves in segments.
  [[nodiscard]] static std::uint8_t operation_of(const Message& message, Sequence sequence);

 private:
  const Identity& id_;
  const SendQueue& queue_;
  const Scoreboard& scoreboard_;
};

// A packet of `bytes` is in the batch: for whoever watches the trace.
inline void trace_sent(Environment& env, const Identity& id, const wire::Packet& packet, std::size_t bytes, bool again,
                       Instant now) {
  if (env.telemetry.sink == nullptr) [[likely]]
    return;
  env.trace(now, id.qpn,
            trace::PacketSent{packet.bth.opcode, packet.bth.psn, static_cast<std::uint32_t>(bytes), again});
}

}  // namespace brdma::qp
