// Input: one byte that chooses the kind, three of BTH.psn, then a control packet's body, or an ICMP message. Accepted
// ones obey the limits of docs/reference/wire.md (checked here a second time, in another way) and encode to the same
// bytes.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "wire/control.h"
#include "wire/edn.h"
#include "wire/link_state.h"
#include "wire/stopped_peer.h"

namespace {

using namespace brdma;  // a test's entry point, no header

bool within(Psn psn, Psn base, Psn highest) {
  return distance(psn, base) >= 0 && distance(psn, base) <= distance(highest, base);
}

// Reserved flags and fields differ at most: parsed again, the emitted body gives the same bytes.
template <class Emit>
std::vector<std::byte> emitted(std::size_t size, Emit emit) {
  std::vector<std::byte> out(size, std::byte{0xEE});
  BRDMA_CHECK(emit(out.data()) == size);
  return out;
}

void check_caps(ConstBytes body) {
  const auto caps = wire::parse_caps(body);
  if (!caps) return;
  const bool first = caps->version_max < wire::kBitmapVersion;
  BRDMA_CHECK(body.size() >= (first ? wire::kCapsFirstSize : wire::kCapsSize));
  BRDMA_CHECK(caps->version_min >= 1 && caps->version_min <= caps->version_max);
  BRDMA_CHECK(caps->path_mtu_code >= 1 && caps->path_mtu_code <= 5 && caps->paths >= 1);
  BRDMA_CHECK(caps->window_packets >= 1 && caps->window_packets <= 0x80'0000);
  const auto emit = [](const wire::Caps& value) {
    const bool local = (value.capabilities & wire::kCapabilityLocal) != 0;
    const std::size_t size = value.version_max < wire::kBitmapVersion ? wire::kCapsFirstSize : wire::kCapsSize;
    return emitted(size + (local ? wire::kCapsLocalSize : 0),
                   [&](std::byte* out) { return wire::emit_caps(value, out); });
  };
  const auto once = emit(*caps);
  BRDMA_CHECK(caps->capabilities == (load_be32(&body[4]) & (first ? ~wire::kCapabilityLocal : ~0u)));
  BRDMA_CHECK(std::equal(once.begin() + 8, once.begin() + 24, body.begin() + 8));
  BRDMA_CHECK(first || std::equal(once.begin() + 32, once.begin() + 48, body.begin() + 32));
  const auto again = wire::parse_caps(once);
  BRDMA_CHECK(again && emit(*again) == once);
}

void check_ack(ConstBytes body, Psn psn) {
  const auto ack = wire::parse_bitmap_ack(body, psn);
  if (!ack) return;
  BRDMA_CHECK(ack->base == psn && distance(ack->highest, psn) >= -1);
  for (std::uint32_t i = 0; i < ack->bits.size() * 8; ++i) {
    const bool set = (std::to_integer<unsigned>(ack->bits[i / 8]) >> (7 - i % 8) & 1) != 0;
    if (!set) continue;
    BRDMA_CHECK(i > 0 && i < ack->bit_count && within(psn + i, psn, ack->highest));
  }
  const auto emit = [](const wire::BitmapAck& value) {
    const std::size_t waited = value.waited > Duration{} ? wire::kAckWaitedSize : 0;
    return emitted(wire::kBitmapAckSize + waited + value.bits.size() + value.ranges.size(),
                   [&](std::byte* out) { return wire::emit_bitmap_ack(value, out); });
  };
  const auto once = emit(*ack);
  BRDMA_CHECK(once.size() == body.size() && std::equal(once.begin() + 4, once.begin() + 50, body.begin() + 4));
  const auto again = wire::parse_bitmap_ack(once, psn);
  BRDMA_CHECK(again && emit(*again) == once);
}

void check_ffm(ConstBytes body, Psn psn) {
  const auto ffm = wire::parse_ffm(body, psn);
  if (!ffm) return;
  BRDMA_CHECK(ffm->gap_count >= 1 && ffm->gap_count <= wire::kFfmGapsMax && ffm->gap(0).start == psn);
  std::vector<std::byte> gaps(ffm->gap_count * wire::kFfmGapSize);
  for (std::size_t i = 0; i < ffm->gap_count; ++i) {
    const wire::FfmGap gap = ffm->gap(i);
    BRDMA_CHECK(gap.length >= 1 && within(gap.start, ffm->base, ffm->highest));
    BRDMA_CHECK(within(gap.start + gap.length, ffm->base, ffm->highest));  // behind the gap something has arrived
    wire::emit_ffm_gap(gap, gaps.data() + i * wire::kFfmGapSize);
  }
  wire::Ffm copy = *ffm;
  copy.gaps = gaps;
  const auto emit = [](const wire::Ffm& value) {
    return emitted(wire::kFfmSize + value.gaps.size(), [&](std::byte* out) { return wire::emit_ffm(value, out); });
  };
  const auto once = emit(copy);
  BRDMA_CHECK(once.size() == body.size() && std::equal(once.begin() + 4, once.begin() + 38, body.begin() + 4));
  const auto again = wire::parse_ffm(once, psn);
  BRDMA_CHECK(again && emit(*again) == once);
}

void check_inquiry(ConstBytes body) {
  const auto inquiry = wire::parse_link_state_inquiry(body);
  if (!inquiry) return;
  BRDMA_CHECK(body.size() >= wire::kLinkStateInquirySize && inquiry->hop <= inquiry->hop_limit);
  const auto once = emitted(wire::kLinkStateInquirySize,
                            [&](std::byte* out) { return wire::emit_link_state_inquiry(*inquiry, out); });
  BRDMA_CHECK(std::equal(once.begin() + 4, once.begin() + 6, body.begin() + 4));
  BRDMA_CHECK(std::equal(once.begin() + 8, once.begin() + 16, body.begin() + 8));
}

void check_feedback(ConstBytes body) {
  const auto feedback = wire::parse_link_state_feedback(body);
  if (!feedback) return;
  BRDMA_CHECK(body.size() >= wire::kLinkStateFeedbackSize);
  BRDMA_CHECK(feedback->link_rate == 0 || feedback->speed <= feedback->link_rate);
  BRDMA_CHECK(feedback->queue_limit == 0 || feedback->queue <= feedback->queue_limit);
  const auto once = emitted(wire::kLinkStateFeedbackSize,
                            [&](std::byte* out) { return wire::emit_link_state_feedback(*feedback, out); });
  BRDMA_CHECK(std::equal(once.begin() + 8, once.begin() + 64, body.begin() + 8));
  BRDMA_CHECK(wire::parse_link_state_feedback(once) == feedback);
}

void check_stopped_query(ConstBytes body) {
  const auto query = wire::parse_stopped_query(body);
  if (!query) return;
  const auto once =
      emitted(wire::kStoppedQuerySize, [&](std::byte* out) { return wire::emit_stopped_query(*query, out); });
  BRDMA_CHECK(wire::parse_stopped_query(once) == query);
}

void check_stopped_reply(ConstBytes body) {
  const auto reply = wire::parse_stopped_reply(body);
  if (!reply) return;
  const auto once =
      emitted(wire::kStoppedReplySize, [&](std::byte* out) { return wire::emit_stopped_reply(*reply, out); });
  BRDMA_CHECK(wire::parse_stopped_reply(once) == reply);
}

void check_range(const wire::Edn& edn) {
  BRDMA_CHECK(distance(edn.last, edn.first) >= 0 && edn.drain >= Duration{});
  BRDMA_CHECK(!(edn.responses && edn.acknowledgement));
}

void check_edn(ConstBytes body, Psn psn) {
  const auto edn = wire::parse_edn(body, psn);
  if (!edn) return;
  check_range(*edn);
  BRDMA_CHECK(edn->first == psn);
  const auto emit = [](const wire::Edn& value) {
    return emitted(wire::kEdnSize, [&](std::byte* out) { return wire::emit_edn(value, out); });
  };
  const auto once = emit(*edn);
  BRDMA_CHECK(std::equal(once.begin() + 1, once.begin() + 12, body.begin() + 1));
  BRDMA_CHECK(std::equal(once.begin() + wire::kTokenOffset, once.end(), body.begin() + wire::kTokenOffset));
  const auto again = wire::parse_edn(once, psn);
  BRDMA_CHECK(again && emit(*again) == once);
}

// The checksum is corrected: else nearly no input would get past it.
void check_source_quench(ConstBytes input) {
  (void)wire::parse_icmp_edn(input);
  if (input.size() < wire::kIcmpHeaderSize) return;
  std::array<std::byte, wire::kIcmpHeaderSize + wire::kQuoteMax> message;
  const ConstBytes quote = input.subspan(wire::kIcmpHeaderSize);
  const std::uint32_t count = load_be16(input.data() + 4) + 1u;
  const Duration drain = 1_us * std::int64_t{load_be16(input.data() + 6)};
  const std::size_t size = wire::emit_icmp_edn(quote, count, drain, message.data());
  BRDMA_CHECK(size <= message.size());
  const auto said = wire::parse_icmp_edn(ConstBytes{message}.first(size));
  if (!said) return;
  BRDMA_CHECK(said->source.is_v4() && said->destination.is_v4());
  BRDMA_CHECK(said->edn.last == said->edn.first + (count - 1) && said->edn.drain == drain);
  BRDMA_CHECK(!(said->edn.responses && said->edn.acknowledgement));
  message[4] ^= std::byte{1};
  BRDMA_CHECK(!wire::parse_icmp_edn(ConstBytes{message}.first(size)));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 4) return 0;
  const ConstBytes input{reinterpret_cast<const std::byte*>(data), size};
  const Psn psn{load_be24(input.data() + 1)};
  const ConstBytes body = input.subspan(4);
  switch (data[0] % 9) {
    case 0:
      check_caps(body);
      break;
    case 1:
      check_ack(body, psn);
      break;
    case 2:
      check_ffm(body, psn);
      break;
    case 3:
      check_inquiry(body);
      break;
    case 4:
      check_feedback(body);
      break;
    case 5:
      check_edn(body, psn);
      break;
    case 7:
      check_stopped_query(body);
      break;
    case 8:
      check_stopped_reply(body);
      break;
    default:
      check_source_quench(body);
      break;
  }
  return 0;
}
