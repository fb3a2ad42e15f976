#include "fabric/switch/rtt_translator.h"

#include <array>
#include <bit>
#include <cstring>

#include "base/check.h"
#include "wire/control.h"
#include "wire/crc/icrc.h"
#include "wire/headers.h"
#include "wire/opcode.h"
#include "wire/packet.h"

namespace brdma::fabric {
namespace {

using wire::OpcodeShape;

// Offsets in the UDP payload (docs/wire.md): of the echo's 48 bits with 16 others before them, and of Tr.
constexpr std::size_t kAckEcho = wire::kBthSize + 32, kAckTr = wire::kBthSize + 40, kAckPath = wire::kBthSize + 4;
constexpr std::size_t kAckSizeMin = wire::kBthSize + wire::kBitmapAckSize + wire::kIcrcSize;
constexpr std::size_t kPiggyback = wire::kBthSize + wire::kBxthSize;
constexpr std::size_t kPiggybackEcho = kPiggyback + 16, kPiggybackTr = kPiggyback + 24;
constexpr std::uint8_t kEchoValid = 2;  // flag of a bitmap acknowledgement

}  // namespace

RttTranslator::RttTranslator(const Config& config) : config_(config), flows_(std::bit_ceil(config.flows_max)) {
  BRDMA_CHECK(config.flows_max > 0 && config.increment.levels >= 2);
}

bool RttTranslator::pass(const IpAddress& source, const IpAddress& destination, MutableBytes payload, bool marked,
                         Instant now) {
  if (payload.size() < wire::kBthSize + wire::kBxthSize + wire::kIcrcSize) {
    counters_.untranslated += marked ? 1 : 0;
    return false;
  }
  const wire::Bth bth = wire::parse_bth(ConstBytes{payload}.first<wire::kBthSize>());
  const std::byte* p = payload.data();
  const OpcodeShape& shape = wire::opcode_shape(bth.opcode);
  const auto returning = [&](std::uint32_t source_qpn, std::uint8_t path, std::size_t echo_at, std::size_t tr_at) {
    Flow* flow = find({destination, source, bth.dest_qpn, source_qpn, path});
    if (flow == nullptr) return;
    ++counters_.returning;
    if (const Duration more = flow->marks.increment(config_.increment); more > Duration{}) {
      rewrite(payload, echo_at, tr_at, more);
    }
  };
  if (bth.opcode == static_cast<std::uint8_t>(wire::Control::kBitmapAck)) {
    const bool echo_valid = (load_u8(p + wire::kBthSize) & kEchoValid) != 0;
    const bool ours = wire::bitmap_version(p + wire::kBthSize) == wire::kBitmapVersion;
    if (ours && payload.size() >= kAckSizeMin && echo_valid) {
      returning(load_be24(p + wire::kBthSize + 1), load_u8(p + kAckPath), kAckEcho, kAckTr);
    }
  } else if (shape.has(OpcodeShape::kBxth) && wire::bitmap_version(p + wire::kBthSize) == wire::kBitmapVersion) {
    const wire::Bxth bxth = wire::parse_bxth(ConstBytes{payload}.subspan<wire::kBthSize, wire::kBxthSize>());
    if (bxth.piggyback && payload.size() >= kPiggyback + wire::kPiggybackSize + wire::kIcrcSize) {
      const wire::Piggyback said =
          wire::parse_piggyback(ConstBytes{payload}.subspan<kPiggyback, wire::kPiggybackSize>());
      if (said.echo_valid) returning(bxth.source_qpn, said.path, kPiggybackEcho, kPiggybackTr);
    }
    if (wire::is_request(static_cast<wire::RcOp>(bth.opcode & 0x1F))) {
      if (Flow* flow = find_or_make({source, destination, bxth.source_qpn, bth.dest_qpn, bxth.path}, now)) {
        flow->seen = now;
        flow->marks.on_packet(marked, config_.increment);
        ++counters_.forward;
        counters_.marked += marked ? 1 : 0;
        return marked;
      }
    }
  }
  counters_.untranslated += marked ? 1 : 0;
  return false;
}

void RttTranslator::rewrite(MutableBytes payload, std::size_t echo_at, std::size_t tr_at, Duration increment) {
  const auto by = static_cast<std::uint64_t>(increment.ns());
  const std::size_t at = config_.rewrite == Rewrite::kTr ? tr_at : echo_at;
  std::byte* const field = &payload[at];
  const std::uint64_t before = load_be64(field);
  std::uint64_t after = before + by;
  if (config_.rewrite == Rewrite::kTs) {
    after = (before & ~wire::kTimestampMask) | ((before - by) & wire::kTimestampMask);
  }
  store_be64(field, after);
  std::array<std::byte, 8> difference;
  store_be64(difference.data(), before ^ after);
  std::byte* const icrc = &payload[payload.size() - wire::kIcrcSize];
  const std::size_t behind = payload.size() - wire::kIcrcSize - at - difference.size();
  store_le32(icrc, load_le32(icrc) ^ wire::icrc_change(difference, behind));
  ++counters_.rewritten;
}

std::size_t RttTranslator::place_of(const Key& key) const {
  constexpr std::uint64_t kOdd = 0x9E3779B97F4A7C15u;
  const auto from = key.source.words(), to = key.destination.words();
  std::uint64_t hash = (from[0] ^ from[1]) * kOdd;
  hash = (hash ^ to[0] ^ to[1]) * kOdd;
  hash = (hash ^ (std::uint64_t{key.source_qpn} << 32 | key.destination_qpn)) * kOdd;
  return static_cast<std::size_t>((hash + key.path * kOdd) >> 20) & (flows_.size() - 1);
}

RttTranslator::Flow* RttTranslator::find(const Key& key) {
  const std::size_t first = place_of(key);
  for (std::size_t i = 0; i < kProbesMax; ++i) {
    Flow& flow = flows_[(first + i) & (flows_.size() - 1)];
    if (flow.used && flow.key == key) return &flow;
  }
  return nullptr;
}

RttTranslator::Flow* RttTranslator::find_or_make(const Key& key, Instant now) {
  if (Flow* flow = find(key)) return flow;
  const std::size_t first = place_of(key);
  for (std::size_t i = 0; i < kProbesMax; ++i) {
    Flow& flow = flows_[(first + i) & (flows_.size() - 1)];
    if (flow.used && now - flow.seen < config_.silence) continue;
    count_ += flow.used ? 0 : 1;
    flow = Flow{key, {}, true, now};
    return &flow;
  }
  ++counters_.table_full;
  return nullptr;
}

}  // namespace brdma::fabric
