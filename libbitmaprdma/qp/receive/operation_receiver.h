// qp/receive/operation_receiver.h - private: operations of large transfers as they arrive (design RR-10 to RR-14).
// Division of labour:
//   receive window   which PSNs are here, acknowledgements, order of execution: the rules of RC
//   registry         where a packet of a registered operation goes, whether it is a duplicate, when the operation is
//                    whole
//   escape channel   packets before their operation's start: kept, counted as missing in every acknowledgement, and
//                    so free to be dropped when the start does not come in time
// The start registers an operation whether it comes in order or early; in-order packets are entered as they are
// executed, early ones as they are kept.
//
// ReceivedOperations is what a queue pair keeps; OperationReceiver is a view of the responder's parts, made where it is
// needed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/function_ref.h"
#include "base/lazy.h"
#include "base/units.h"
#include "bitmap/receive_window.h"
#include "qp/acknowledge/acknowledgement_schedule.h"
#include "qp/execute/request_checks.h"
#include "qp/gaps/out_of_order.h"
#include "qp/queues/receive_queue.h"
#include "qp/state/environment.h"
#include "qp/state/identity.h"
#include "registry/escape_channel.h"
#include "registry/receive_registry.h"
#include "trace/drop_reason.h"
#include "wire/packet.h"

namespace brdma::qp {

// Part of an operation of a large transfer?
[[nodiscard]] inline bool in_operation(const wire::Packet& packet) {
  return packet.bxth.operation_packets != 0 && (wire::is_write(packet.op) || wire::is_send(packet.op));
}

class ReceivedOperations {
 public:
  // --- registered ---
  [[nodiscard]] const registry::ReceiveRegistry& registered() const { return *registered_; }
  // The packet among the operations; sets no bit.
  [[nodiscard]] registry::Match look(const wire::Packet& packet, std::uint32_t mtu) const {
    return registered_->look(packet.bxth.operation, target_of(packet, mtu), packet.bxth.operation_packets);
  }
  // Place of a packet of a registered WRITE operation, if still valid; else null.
  [[nodiscard]] std::byte* place_of(const wire::Packet& packet, const memory::MemoryTable& memory) const;
  // Executed in order. The last packet of an operation ends it. A start is registered first (OperationReceiver::begin).
  void executed(const wire::Packet& packet, std::uint32_t mtu, Environment& env, const Identity& identity, Instant now);

  // --- in the escape channel ---
  [[nodiscard]] const registry::EscapeChannel& escape() const { return *escape_; }
  // When the oldest one is to be dropped. `round_trip`: of an FFM and the packet that it requests.
  [[nodiscard]] std::optional<Instant> next_expiry(const TransferConfig& config, Duration round_trip) const {
    return escape_->next_deadline(escape_time(config, round_trip));
  }
  // The packet at the base has been executed.
  void forget_escaped(Psn base) {
    if (!escape_->empty()) escape_.if_made()->forget(base);
  }
  // Acknowledgements leave these out: they may be dropped yet. They do not count as lost either. `bits`: of an
  // acknowledgement, from `base` on.
  void hide_escaped(Psn base, std::uint32_t bit_count, std::byte* bits) const;
  // End of the PSNs before `end` without an escaped packet.
  [[nodiscard]] Psn before_escaped(Psn end) const;

  // A new connection.
  void clear();
  [[nodiscard]] std::size_t allocated_bytes() const {
    return registered_.allocated_bytes() + escape_.allocated_bytes();
  }

 private:
  friend class OperationReceiver;
  static constexpr std::int64_t kEscapeRtts = 4;  // the start is resent a round trip after an FFM has requested it

  // Target address for the registry: a SEND's receive buffer begins at 0.
  [[nodiscard]] static std::uint64_t target_of(const wire::Packet& packet, std::uint32_t mtu) {
    return wire::is_write(packet.op) ? packet.reth.address : std::uint64_t{packet.bxth.packet_index} * mtu;
  }
  [[nodiscard]] static Duration escape_time(const TransferConfig& config, Duration round_trip) {
    return std::max(config.escape_time, round_trip * kEscapeRtts);
  }

  Lazy<registry::ReceiveRegistry> registered_;
  Lazy<registry::EscapeChannel> escape_;
};

class OperationReceiver {
 public:
  struct Parts {
    Environment& env;
    const Identity& identity;
    bitmap::ReceiveWindow& window;
    OutOfOrderState* out_of_order;  // null: nothing has come early
    ReceiveQueue& receives;
    AcknowledgementSchedule& ack;
    ReceivedOperations& operations;
    std::uint32_t mtu;
    std::uint32_t rsn;  // receives completed
  };
  explicit OperationReceiver(const Parts& parts) : parts_(parts) {}
  [[nodiscard]] const Parts& parts() const { return parts_; }

  // The start has come, and has passed the checks of every packet. Escaped packets of its operation are placed.
  void begin(const wire::Packet& packet, Instant now) const;
  // An early packet of an operation, well-formed. Nothing: it is kept. `place`: places or holds a packet whose
  // operation is known, as one without an operation; nothing where it has.
  using Place = FunctionRef<std::optional<DropReason>(const wire::Packet&)>;
  std::optional<DropReason> keep(const wire::Packet& packet, Place place, Instant now) const;
  // Packets whose start did not come in time are dropped with their data. They were not acknowledged, so they are
  // missing again, and requested like any other. The newest of all stays until a packet beyond it arrives: before that,
  // no gap could be seen in its place. True: there are new gaps to judge.
  [[nodiscard]] bool expire(Duration round_trip, Instant now) const;

 private:
  [[nodiscard]] EarlyChecks checks() const {
    return EarlyChecks{{parts_.env.memory, parts_.identity, parts_.window, parts_.out_of_order, parts_.receives,
                        parts_.mtu, parts_.rsn}};
  }
  [[nodiscard]] std::uint64_t target_of(const wire::Packet& packet) const {
    return ReceivedOperations::target_of(packet, parts_.mtu);
  }
  // Bytes of its message before this packet.
  [[nodiscard]] std::uint64_t bytes_before(const wire::Packet& packet) const {
    return std::uint64_t{packet.bxth.packet_index} * parts_.mtu;
  }
  [[nodiscard]] registry::OperationStart start_of(const wire::Packet& packet) const;
  void enter(const wire::Packet& packet, Instant now) const;
  std::optional<DropReason> keep_in_escape(const wire::Packet& packet, Instant now) const;
  void release(std::uint8_t number, Instant now) const;
  void settle(const wire::Packet& packet) const;

  Parts parts_;
};

}  // namespace brdma::qp
