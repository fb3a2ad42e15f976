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

// Offsets in the UDP payload (docs/reference/wire.md): of the echo's 48 bits with 16 others before them, and of Tr.
constexpr std::size_t kAckEcho = wire::kBthSize + 32, kAckTr = wire::kBthSize + 40, kAckPath = wire::kBthSize + 4;
constexpr std::size_t kAckSizeMin = wire::kBthSize + wire::kBitmapAckSize + wire::kIcrcSize;
constexpr std::size_t kPiggyback = wire::kBthSize + wire::kBxthSize;
constexpr std::size_t kPiggybackEcho = kPiggyback + 16, kPiggybackTr = kPiggyback + 24;
constexpr std::uint8_t kEchoValid = 2;  // flag of a bitmap acknowledgement
constexpr std::size_t kSizeMin = wire::kBthSize + wire::kBxthSize + wire::kIcrcSize;

// Of the BXTH, or of a bitmap acknowledgement.
bool is_bitmap_version(ConstBytes payload) {
  return wire::bitmap_version(payload.data() + wire::kBthSize) == wire::kBitmapVersion;
}

}  // namespace

RttTranslator::RttTranslator(const Config& config) : config_(config), flows_(std::bit_ceil(config.flows_max)) {
  BRDMA_CHECK(config.flows_max > 0);
  configure(config.increment, config.rewrite);
}

void RttTranslator::configure(const IncrementConfig& increment, Rewrite rewrite) {
  BRDMA_CHECK(increment.levels >= 2 && increment.window >= 1);
  if (!count_alike(increment, config_.increment)) {
    for (Flow& flow : flows_) flow.marks = {};
  }
  config_.increment = increment;
  config_.rewrite = rewrite;
}

bool RttTranslator::pass(const IpAddress& source, const IpAddress& destination, MutableBytes payload, bool marked,
                         Instant now) {
  if (payload.size() >= kSizeMin && take(source, destination, payload, marked, now)) return marked;
  counters_.untranslated += marked ? 1 : 0;
  return false;
}

bool RttTranslator::take(const IpAddress& source, const IpAddress& destination, MutableBytes payload, bool marked,
                         Instant now) {
  const wire::Bth bth = wire::parse_bth(ConstBytes{payload}.first<wire::kBthSize>());
  if (bth.opcode == static_cast<std::uint8_t>(wire::Control::kBitmapAck)) {
    if (const auto echo = echo_of_bitmap_ack(payload))
      take_returning({destination, source, bth.dest_qpn, echo->source_qpn, echo->path}, payload, echo->at);
    return false;
  }
  if (!wire::opcode_shape(bth.opcode).has(OpcodeShape::kBxth) || !is_bitmap_version(payload)) return false;
  const wire::Bxth bxth = wire::parse_bxth(ConstBytes{payload}.subspan<wire::kBthSize, wire::kBxthSize>());
  if (bxth.piggyback) {
    if (const auto echo = echo_of_piggyback(payload, bxth.source_qpn))
      take_returning({destination, source, bth.dest_qpn, echo->source_qpn, echo->path}, payload, echo->at);
  }
  if (!wire::is_request(static_cast<wire::RcOp>(bth.opcode & 0x1F))) return false;
  return take_forward({source, destination, bxth.source_qpn, bth.dest_qpn, bxth.path}, marked, now);
}

std::optional<RttTranslator::Echo> RttTranslator::echo_of_bitmap_ack(ConstBytes payload) {
  const std::byte* const ack = payload.data() + wire::kBthSize;
  const bool echo_valid = (load_u8(ack) & kEchoValid) != 0;
  if (!is_bitmap_version(payload) || payload.size() < kAckSizeMin || !echo_valid) return std::nullopt;
  return Echo{load_be24(ack + 1), load_u8(payload.data() + kAckPath), {kAckEcho, kAckTr}};
}

std::optional<RttTranslator::Echo> RttTranslator::echo_of_piggyback(ConstBytes payload, std::uint32_t source_qpn) {
  if (payload.size() < kPiggyback + wire::kPiggybackSize + wire::kIcrcSize) return std::nullopt;
  const wire::Piggyback piggyback = wire::parse_piggyback(payload.subspan<kPiggyback, wire::kPiggybackSize>());
  if (!piggyback.echo_valid) return std::nullopt;
  return Echo{source_qpn, piggyback.path, {kPiggybackEcho, kPiggybackTr}};
}

bool RttTranslator::take_forward(const Key& key, bool marked, Instant now) {
  Flow* const flow = find_or_make(key, now);
  if (flow == nullptr) return false;
  flow->seen = now;
  flow->marks.on_packet(marked, config_.increment);
  ++counters_.forward;
  counters_.marked += marked ? 1 : 0;
  return true;
}

void RttTranslator::take_returning(const Key& key, MutableBytes payload, EchoOffsets at) {
  Flow* const flow = find(key);
  if (flow == nullptr) return;
  ++counters_.returning;
  if (const Duration more = flow->marks.increment(config_.increment); more > Duration{}) rewrite(payload, at, more);
}

void RttTranslator::rewrite(MutableBytes payload, EchoOffsets offsets, Duration increment) {
  const auto by = static_cast<std::uint64_t>(increment.ns());
  const std::size_t at = config_.rewrite == Rewrite::kTr ? offsets.tr : offsets.echo;
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
