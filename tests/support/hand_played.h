// tests/support/hand_played.h - an engine that sends to a peer whose packets the test builds by hand.
#pragma once

#include <gmock/gmock.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "support/two_engines.h"
#include "wire/control.h"

namespace brdma::test {

// Side 0 sends; side 1 is paused and its packets are built here.
struct HandPlayed {
  explicit HandPlayed(PairOptions options = {}) : pair(options) {
    pair.paused[1] = true;
    pair.wire.clear();
  }
  wire::Bth bth(wire::Control which, std::uint32_t psn) const {
    wire::Bth made;
    made.opcode = static_cast<std::uint8_t>(which);
    made.dest_qpn = pair.side[0].engine->qp_num(pair.side[0].qp);
    made.psn = Psn{psn};
    return made;
  }
  std::uint32_t peer_qpn() const { return pair.side[1].engine->qp_num(pair.side[1].qp); }
  void control(const wire::Bth& header, ConstBytes body) {
    std::vector<std::byte> bytes(wire::kBthSize + body.size() + wire::kIcrcSize);
    wire::emit_bth(header, bytes.data());
    std::copy(body.begin(), body.end(), bytes.begin() + wire::kBthSize);
    pair.sign(1, bytes);
    pair.inject(0, bytes);
  }
  struct Gap {
    std::uint32_t start, length;
  };
  void ffm(std::uint32_t serial, std::uint32_t base, std::uint32_t highest, const std::vector<Gap>& gaps) {
    std::vector<std::byte> listed(gaps.size() * wire::kFfmGapSize);
    for (std::size_t i = 0; i < gaps.size(); ++i) {
      wire::emit_ffm_gap({Psn{gaps[i].start}, gaps[i].length}, listed.data() + i * wire::kFfmGapSize);
    }
    wire::Ffm body;
    body.source_qpn = peer_qpn();
    body.highest = Psn{highest};
    body.cause = 1;
    body.base = Psn{base};
    body.serial = serial;
    body.gap_count = static_cast<std::uint16_t>(gaps.size());
    body.gaps = listed;
    std::byte out[1024];
    const std::size_t size = wire::emit_ffm(body, out);
    control(bth(wire::Control::kFfm, gaps[0].start), ConstBytes{out, size});
  }
  struct AckFields {
    std::uint32_t base;
    std::vector<std::uint32_t> arrived = {};  // PSNs beyond the base
    std::uint8_t syndrome = wire::kSyndromeAck;
    std::uint32_t credit_packets = 256, credit_bytes = 1u << 20;
    std::optional<Instant> echo = {};
    std::uint16_t judged = 0;
    std::vector<wire::AckRange> ranges = {};  // behind the bits; then there are 32 of them at least
  };
  void ack(const AckFields& fields) {
    wire::BitmapAck body;
    body.source_qpn = peer_qpn();
    body.base = Psn{fields.base};
    body.highest = Psn{fields.arrived.empty() ? fields.base - 1 : fields.arrived.back()};
    body.syndrome = fields.syndrome;
    body.credit_packets = fields.credit_packets;
    body.credit_bytes = fields.credit_bytes;
    if (fields.echo) {
      body.echo_valid = true;
      body.ts_echo = wire::timestamp_of(*fields.echo);
    }
    body.judged = fields.judged;
    std::vector<std::byte> bits(512);
    if (!fields.arrived.empty()) {
      body.bit_count = static_cast<std::uint16_t>(fields.arrived.back() - fields.base + 1);
      for (const std::uint32_t psn : fields.arrived) {
        const std::uint32_t bit = psn - fields.base;
        bits[bit / 8] |= std::byte(0x80 >> (bit % 8));
      }
    }
    std::vector<std::byte> ranges(fields.ranges.size() * wire::kAckRangeSize);
    if (!fields.ranges.empty()) {
      body.bit_count = std::max<std::uint16_t>(body.bit_count, 32);
      body.highest = fields.ranges.back().start + (fields.ranges.back().length - 1);
      body.range_count = static_cast<std::uint16_t>(fields.ranges.size());
      for (std::size_t i = 0; i < fields.ranges.size(); ++i)
        wire::emit_ack_range(fields.ranges[i], ranges.data() + i * wire::kAckRangeSize);
      body.ranges = ranges;
    }
    body.bits = ConstBytes{bits}.first(wire::bitmap_bytes(body.bit_count));
    std::byte out[1024];
    const std::size_t size = wire::emit_bitmap_ack(body, out);
    control(bth(wire::Control::kBitmapAck, fields.base), ConstBytes{out, size});
  }
  void aeth(std::uint32_t psn, std::uint8_t syndrome) {
    wire::Packet packet;
    packet.op = wire::RcOp::kAcknowledge;
    packet.bth = bth(wire::Control::kCaps, psn);
    packet.bth.opcode = wire::opcode_of(packet.op, false);
    packet.aeth.syndrome = syndrome;
    pair.inject(0, pair.make(1, packet));
  }
  // PSNs that side 0 has sent since the last call.
  std::vector<std::uint32_t> sent() {
    std::vector<std::uint32_t> psns;
    for (const Sent& each : pair.wire) {
      if (each.from == 0 && each.data()) psns.push_back(each.psn());
    }
    pair.wire.clear();
    return psns;
  }
  // Sends `packets` full packets of one WRITE: PSN 1000 ...
  void send(std::uint32_t packets, std::uint64_t wr_id = 1) {
    ASSERT_TRUE(pair.post(0, pair.write(0, 0, packets * 1024, wr_id)).ok());
    pair.round();
  }
  [[nodiscard]] std::uint64_t count(Counter counter) const { return pair.side[0].count(counter); }

  TwoEngines pair;
};

}  // namespace brdma::test
