// qp/acknowledge/acknowledgement_writer.h - private: acknowledgements are written: ACK (standard), BitmapAck, or
// piggybacked on data. Packets only make one pending (acknowledgement_schedule.h); one leaves after a burst of them,
// on the data of the same batch or behind it.
//
//   piggybacked   the most common one alone: all before the base has arrived, nothing beyond it
//   BitmapAck     the base; with packets beyond it their bits, and ranges beyond the bits (sack_ranges.h)
//   ACK           the base alone, and not before the responses to earlier requests
//
// What leaves for each acknowledgement is inline: there the parts cost nothing.
#pragma once

#include <cstdint>

#include "base/psn.h"
#include "base/units.h"
#include "bitmap/receive_window.h"
#include "qp/acknowledge/acknowledgement_schedule.h"
#include "qp/gaps/out_of_order.h"
#include "qp/queues/transmit_batch.h"
#include "qp/receive/operation_receiver.h"
#include "qp/state/environment.h"
#include "qp/state/identity.h"
#include "wire/control.h"

namespace brdma::qp {

// A view of the responder's parts, made where it is needed.
class AcknowledgementWriter {
 public:
  struct Parts {
    Environment& env;
    const Identity& identity;
    const bitmap::ReceiveWindow& window;
    OutOfOrderState* out_of_order;  // null: nothing has come early
    const ReceivedOperations& operations;
    Acknowledgements& acknowledgements;
    std::uint32_t mtu;
    std::uint32_t msn;  // messages completed
  };
  [[gnu::always_inline]] explicit AcknowledgementWriter(const Parts& parts) : parts_(parts) {}

  // Alone, in bitmap mode or standard. `responses_wait`: to earlier requests. False: it waits for those, or does not
  // fit into the batch. Precondition: it is due.
  bool write(TransmitBatch& batch, bool bitmap, bool responses_wait, Instant now) const;
  // A NAK. `psn`: of the standard form. False: it does not fit.
  bool refuse(TransmitBatch& batch, const wire::Aeth& aeth, Psn psn, bool bitmap, Instant now) const;

  // --- piggybacked ---
  [[nodiscard, gnu::always_inline]] bool may_piggyback() const {
    return parts_.identity.peer_reads_piggybacks && parts_.window.empty();
  }
  // As it is now. Preconditions: may_piggyback(); it is due, or data repeats it.
  [[nodiscard]] wire::Piggyback piggyback(Instant now) const;
  void note_piggybacked(Instant now) const;
  // On the batch's last data packet: one datagram instead of two. False: there is no room.
  bool add_to_data(TransmitBatch& batch, Instant now) const;

 private:
  [[nodiscard]] Psn base() const { return parts_.window.base(); }
  [[nodiscard]] wire::BitmapAck bitmap_ack(const wire::Aeth& aeth, Instant now) const;
  [[nodiscard]] wire::Bth header() const;
  bool write_any(TransmitBatch& batch, const wire::Aeth& aeth, Psn psn, bool bitmap, Instant now) const;
  bool write_bitmap(TransmitBatch& batch, const wire::Aeth& aeth, Instant now) const;
  bool write_with_bits(TransmitBatch& batch, const wire::Aeth& aeth, Instant now) const;
  static bool write_standard(const Identity& identity, TransmitBatch& batch, const wire::Aeth& aeth, Psn psn);
  [[nodiscard]] std::uint16_t judged() const;
  void note_written(std::uint8_t syndrome, Instant now) const;

  Parts parts_;
};

// It is in the batch.
[[gnu::always_inline]] inline void AcknowledgementWriter::note_written(std::uint8_t syndrome, Instant now) const {
  Environment& env = parts_.env;
  parts_.acknowledgements.schedule.on_sent(base());
  env.count(Counter::kAcksSent);
  if (env.telemetry.sink != nullptr) [[unlikely]]
    env.trace(now, parts_.identity.qpn, trace::AckSent{base(), parts_.window.highest(), syndrome});
}

[[gnu::always_inline]] inline wire::Piggyback AcknowledgementWriter::piggyback(Instant now) const {
  const TimestampEcho& echo = parts_.acknowledgements.echo;
  const PeerCredit credit = parts_.env.credit_share();
  return {.path = echo.path(),
          .msn = parts_.msn,
          .syndrome = wire::kSyndromeAck,
          .base = base(),
          .credit_packets = credit.packets,
          .credit_bytes = credit.bytes,
          .echo_valid = echo.valid(),
          .ts_echo = echo.timestamp(),
          .tr = echo.received(),
          .made = echo.made(now),
          .waited = echo.waited()};
}

[[gnu::always_inline]] inline void AcknowledgementWriter::note_piggybacked(Instant now) const {
  parts_.acknowledgements.echo.on_sent();
  parts_.acknowledgements.schedule.on_sent_with_data();
  parts_.env.count(Counter::kAcksPiggybacked);
  note_written(wire::kSyndromeAck, now);
}

[[gnu::always_inline]] inline bool AcknowledgementWriter::add_to_data(TransmitBatch& batch, Instant now) const {
  if (!batch.piggyback(piggyback(now), wire::packet_bytes_max(parts_.mtu))) return false;
  note_piggybacked(now);
  return true;
}

// The common part of all BitmapAcks; nothing beyond the base. Built where it is used: most are encoded at once and
// never lie in memory.
[[gnu::always_inline]] inline wire::BitmapAck AcknowledgementWriter::bitmap_ack(const wire::Aeth& aeth,
                                                                                Instant now) const {
  const Identity& identity = parts_.identity;
  const TimestampEcho& echo = parts_.acknowledgements.echo;
  const PeerCredit credit = parts_.env.credit_share();
  wire::BitmapAck body;
  body.source_qpn = identity.qpn;
  body.token = identity.peer_token;
  body.path = echo.path();
  body.msn = aeth.msn;
  body.syndrome = aeth.syndrome;
  body.base = base();
  body.highest = base() - 1;
  body.credit_packets = credit.packets;
  body.credit_bytes = credit.bytes;
  body.echo_valid = echo.valid();
  body.ts_echo = echo.timestamp();
  body.tr = echo.received();
  body.made = echo.made(now);
  if (identity.peer_reads_waited && echo.valid()) body.waited = echo.waited();
  const registry::ReceiveRegistry& registered = parts_.operations.registered();
  if (registered.used()) [[unlikely]] {
    const auto completed = registered.completed();
    body.operations_valid = true;
    body.operations_next = completed.next;
    body.operations_beyond = completed.beyond;
  }
  return body;
}

[[gnu::always_inline]] inline wire::Bth AcknowledgementWriter::header() const {
  wire::Bth bth;
  bth.opcode = static_cast<std::uint8_t>(wire::Control::kBitmapAck);
  bth.dest_qpn = parts_.identity.attributes.destination_qpn;
  bth.psn = base();
  return bth;
}

[[gnu::always_inline]] inline bool AcknowledgementWriter::write_bitmap(TransmitBatch& batch, const wire::Aeth& aeth,
                                                                       Instant now) const {
  if (parts_.window.empty()) [[likely]] {
    const wire::BitmapAck body = bitmap_ack(aeth, now);
    if (!batch.fits(wire::kBthSize + wire::bitmap_ack_start_size(body) + wire::kIcrcSize, 0, true)) return false;
    if (parts_.out_of_order != nullptr) [[unlikely]]
      parts_.out_of_order->ranges.restart();
    batch.end_control(wire::emit_bitmap_ack_start(body, batch.begin_control(header())));
  } else if (!AcknowledgementWriter{parts_}.write_with_bits(batch, aeth, now)) {  // a copy: else all are in memory
    return false;
  }
  parts_.acknowledgements.schedule.on_sent_alone();
  parts_.acknowledgements.echo.on_sent();
  return true;
}

// A BitmapAck starts at the base, which is a NAK's PSN too.
[[gnu::always_inline]] inline bool AcknowledgementWriter::write_any(TransmitBatch& batch, const wire::Aeth& aeth,
                                                                    Psn psn, bool bitmap, Instant now) const {
  const bool written = bitmap ? write_bitmap(batch, aeth, now) : write_standard(parts_.identity, batch, aeth, psn);
  if (written) note_written(aeth.syndrome, now);
  return written;
}

[[gnu::always_inline]] inline bool AcknowledgementWriter::write(TransmitBatch& batch, bool bitmap, bool responses_wait,
                                                                Instant now) const {
  // An ACK implies that the responses to earlier READs and atomics have been sent (IBTA 9.7.5.1.2): it must not
  // overtake them. A BitmapAck covers requests only.
  if (!bitmap && responses_wait) return false;
  if (!write_any(batch, {wire::kSyndromeAck, parts_.msn}, base() - 1, bitmap, now)) return false;
  parts_.acknowledgements.schedule.continue_copies();
  return true;
}

}  // namespace brdma::qp
