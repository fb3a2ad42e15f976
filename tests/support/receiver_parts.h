// tests/support/receiver_parts.h - the parts of a responder that know about gaps among requests, without it: for unit
// tests of libbitmaprdma/qp/gaps. Real parts, wired as in a Responder.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "qp/execute/request_checks.h"
#include "qp/gaps/feedback_sender.h"
#include "qp/gaps/gap_feedback.h"
#include "qp/gaps/gap_tolerance.h"
#include "qp/gaps/out_of_order.h"
#include "qp/gaps/request_gaps.h"
#include "qp/gaps/sequence_nak.h"

namespace brdma::test {

// A peer in bitmap mode, an MTU of 1024, PSN 1000 at the base, 16 s after the clock's start.
struct ReceiverParts {
  static constexpr std::uint32_t kMtu = 1024, kMsn = 7;

  ReceiverParts() {
    identity.recovery = &recovery;
    identity.qpn = 17;
    identity.peer_token = 99;
    identity.attributes.destination_qpn = 18;
    resources.reset(16);
    state.gaps.begin(bitmap::gaps_max(recovery.window_packets));
  }
  ReceiverParts(const ReceiverParts&) = delete;
  ReceiverParts& operator=(const ReceiverParts&) = delete;

  [[nodiscard]] wire::Packet packet(std::uint32_t psn, std::uint8_t path = 0) const {
    wire::Packet packet;
    packet.op = wire::RcOp::kWriteMiddle;
    packet.bitmap = bitmap;
    packet.bth.psn = Psn{psn};
    packet.bxth.path = path;
    return packet;
  }
  [[nodiscard]] wire::Packet retransmission(std::uint32_t psn) const {
    wire::Packet again = packet(psn);
    again.bxth.retransmitted = true;
    return again;
  }

  // --- what a responder does to its parts ---
  // A packet beyond the base comes, and is kept.
  void arrives(const wire::Packet& packet, std::optional<Instant> base_due = {}) {
    const Psn before = window.highest(), psn = packet.bth.psn;
    const std::uint32_t count = qp::psns_of(packet, mtu);
    window.receive_run(psn, count);
    if (tolerance.paths() != nullptr) tolerance.paths()->received(packet.bxth.path, window.base(), psn, count);
    gaps().on_early(packet, before, base_due, now);
  }
  void arrive(std::uint32_t first, std::uint32_t last) {
    for (std::uint32_t psn = first; psn <= last; ++psn) arrives(packet(psn));
  }
  // The packet at the base comes, and is executed with all that are in order now. True: its gap is closed.
  bool executes(const wire::Packet& packet) {
    const bool closed = gaps().fill_base(packet, now);
    do {
      base_packet.advance();
      if (tolerance.paths() != nullptr) tolerance.paths()->forget(window.base(), 1);
      window.advance_over(1);
    } while (window.has(window.base()));
    gaps().on_advance(now, environment.arrived_at(now));
    return closed;
  }
  bool executes(std::uint32_t psn) { return executes(packet(psn)); }
  // The peer sends on so many paths.
  void begin_paths(std::uint32_t count) {
    identity.receiving_paths = count;
    tolerance.on_path(0, environment, identity, now);
  }
  // An operator's request. Returns the first PSNs of the gaps.
  std::vector<std::uint32_t> request_by_hand(std::optional<Psn> psn = {}) {
    std::vector<std::uint32_t> named;
    gaps().request_by_hand(psn, now, [&](const bitmap::GapRecord& gap) { named.push_back(gap.start.value()); });
    return named;
  }
  // An FFM has named the gap just now, `times` times in all.
  void named(std::size_t gap, std::uint16_t times) {
    state.gaps[gap].feedbacks = times;
    state.gaps[gap].last_feedback = now;
  }
  void pass(Duration time) { now = now + time; }

  [[nodiscard]] std::uint64_t count(Counter counter) const { return statistics.get(counter); }
  [[nodiscard]] bool lost(std::size_t gap) const { return state.gaps[gap].state == bitmap::GapState::kPromoted; }

  // --- views ---
  [[nodiscard]] qp::SequenceNak nak() { return qp::SequenceNak{{base_packet, resources, window.base(), kMsn, bitmap}}; }
  [[nodiscard]] qp::RequestGaps gaps() {
    return qp::RequestGaps{
        {environment, identity, window, state, tolerance, feedback, base_packet, ack, nak(), mtu, bitmap}};
  }
  [[nodiscard]] qp::FeedbackSender sender() {
    return qp::FeedbackSender{{environment, identity, window, state, feedback, base_packet, ack_loss, mtu}};
  }

  EngineConfig config;
  memory::MemoryTable memory{SecretRandom{1, "keys"}};
  Statistics statistics;
  qp::Environment environment{.config = config, .memory = memory, .statistics = statistics};
  RecoveryConfig recovery;
  qp::Identity identity;
  bitmap::ReceiveWindow window{Psn{1000}, qp::window_shape(recovery), environment.segments};
  qp::OutOfOrderState state;
  qp::GapTolerance tolerance;
  qp::GapFeedback feedback;
  qp::BasePacket base_packet;
  qp::ResponderResources resources;
  qp::AcknowledgementSchedule ack;
  qp::AcknowledgementLoss ack_loss;
  std::uint32_t mtu = kMtu;
  bool bitmap = true;
  Instant now = Instant{} + 16_s;
};

}  // namespace brdma::test
