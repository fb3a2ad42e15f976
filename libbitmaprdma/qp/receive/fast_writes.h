// qp/receive/fast_writes.h - private: fast paths of packets in order, while nothing is missing: a WRITE of one packet
// (most packets are of this kind with many queue pairs used in turn, and in ping-pong programs), and MIDDLE packets of
// a long WRITE. They do the same as receive_request.cc and execute/request_execution.h, without checks of other cases;
// those files take everything else.
#pragma once

#include <cstddef>

#include "base/psn.h"
#include "base/units.h"
#include "bitmap/receive_window.h"
#include "qp/acknowledge/acknowledgement_schedule.h"
#include "qp/execute/received_messages.h"
#include "qp/execute/request_execution.h"
#include "qp/gaps/gap_tolerance.h"
#include "qp/gaps/out_of_order.h"
#include "qp/receive/base_packet.h"
#include "qp/receive/connection.h"
#include "qp/receive/operation_receiver.h"
#include "qp/state/environment.h"
#include "qp/state/identity.h"
#include "wire/packet.h"
#include "wire/single_write.h"

namespace brdma::qp {

// A view of the responder's parts, made where it is needed. All of it is inline: the parts cost nothing.
class FastWrites {
 public:
  struct Parts {
    Environment& env;
    const Identity& identity;
    bitmap::ReceiveWindow& window;
    const PooledOutOfOrder& out_of_order;
    const GapTolerance& tolerance;
    const ReceivedOperations& operations;
    ReceivedMessages& messages;
    Connection& connection;
    BasePacket& base_packet;
    Acknowledgements& acknowledgements;
  };
  [[gnu::always_inline]] explicit FastWrites(const Parts& parts) : parts_(parts) {}

  // Where the data of a WRITE of one packet goes. Null: it takes the general path. Nothing has happened.
  [[nodiscard]] std::byte* place_of(const wire::SingleWrite& write) const;
  // Then it is executed. False: its memory is not mapped: it is to be refused.
  [[nodiscard]] bool take(const wire::SingleWrite& write, std::byte* to, Instant now) const;

  // A MIDDLE packet is executed. False: it takes the general path, or its memory is not writable, or not mapped (any
  // more); nothing has happened. Precondition: the connection serves.
  [[nodiscard]] bool take_middle(const wire::Packet& packet, Instant now) const;

 private:
  using Kind = ReceivedMessages::Kind;

  [[nodiscard]] bool is_next(Psn psn) const;
  [[nodiscard]] bool is_middle(const wire::Packet& packet) const;
  void note_bitmap(std::uint8_t path, std::uint64_t timestamp, Instant now) const;
  void advance(bool asked, bool bitmap, Instant now) const;

  Parts parts_;
};

// Of an established connection: in order, and nothing is missing.
[[gnu::always_inline]] inline bool FastWrites::is_next(Psn psn) const {
  return parts_.connection.established && psn == parts_.window.base() && parts_.window.empty() &&
         !parts_.out_of_order && parts_.operations.escape().empty() && parts_.tolerance.paths() == nullptr;
}

[[gnu::always_inline]] inline void FastWrites::note_bitmap(std::uint8_t path, std::uint64_t timestamp,
                                                           Instant now) const {
  parts_.connection.bitmap_seen = true;
  parts_.acknowledgements.echo.note(path, timestamp, parts_.env.waited, now);
}

// It was executed. `bitmap`: the peer reads bitmap-mode packets.
[[gnu::always_inline]] inline void FastWrites::advance(bool asked, bool bitmap, Instant now) const {
  parts_.acknowledgements.schedule.on_packet(asked, bitmap, now);
  parts_.base_packet.advance();
  parts_.window.advance_over(1);
}

[[gnu::always_inline]] inline std::byte* FastWrites::place_of(const wire::SingleWrite& write) const {
  const Identity& identity = parts_.identity;
  if (!parts_.connection.serves() || !is_next(write.psn) || parts_.messages.in_progress()) return nullptr;
  if (write.payload.size() > parts_.connection.mtu || (identity.attributes.access & kAccessRemoteWrite) == 0)
    return nullptr;
  std::byte* to = nullptr;
  (void)parts_.env.memory.resolve(identity.accessor(), write.reth.rkey, write.reth.address, write.reth.length,
                                  kAccessRemoteWrite, &to);
  return to;
}

[[gnu::always_inline]] inline bool FastWrites::take(const wire::SingleWrite& write, std::byte* to, Instant now) const {
  note_bitmap(write.path, write.timestamp, now);
  parts_.env.count(Counter::kWriteRequests);
  if (!copy_end_last(to, write.payload)) [[unlikely]]
    return false;
  end_write(parts_.env, parts_.identity, write.reth);
  parts_.messages.count();
  advance(write.ack_request, /*bitmap=*/true, now);
  return true;
}

[[gnu::always_inline]] inline bool FastWrites::is_middle(const wire::Packet& packet) const {
  const ReceivedMessages& messages = parts_.messages;
  const std::uint32_t mtu = parts_.connection.mtu;
  if (packet.op != wire::RcOp::kWriteMiddle || !messages.is_inside(Kind::kWrite)) return false;
  if (!is_next(packet.bth.psn) || parts_.identity.receiving_paths > 1) return false;
  if (packet.payload.size() != mtu || messages.bytes() + mtu >= messages.reth().length) return false;
  if (!packet.bitmap) return true;
  return packet.bxth.operation == 0 && packet.bxth.operation_packets == 0 && messages.is_next_of_write(packet.reth);
}

[[gnu::always_inline]] inline bool FastWrites::take_middle(const wire::Packet& packet, Instant now) const {
  if (!is_middle(packet)) return false;
  ReceivedMessages& messages = parts_.messages;
  const std::uint32_t mtu = parts_.connection.mtu;
  std::byte* to = nullptr;
  if (parts_.env.memory.resolve(parts_.identity.accessor(), messages.reth().rkey, messages.next_address(), mtu,
                                kAccessRemoteWrite, &to) != memory::Fault::kNone) {
    return false;
  }
  if (!copy_end_last(to, packet.payload)) return false;
  if (packet.bitmap) note_bitmap(packet.bxth.path, packet.bxth.timestamp, now);
  messages.go_on(Kind::kWrite, messages.bytes() + mtu);
  advance(packet.bth.ack_request, parts_.identity.bitmap_agreed || parts_.connection.bitmap_seen, now);
  return true;
}

}  // namespace brdma::qp
