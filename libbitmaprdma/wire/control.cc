#include "wire/control.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace brdma::wire {
namespace {

using internal::byte_and_24;
using internal::first_word;

constexpr std::uint32_t kMask24 = 0xFF'FFFF;
constexpr std::uint8_t kFlagReply = 1;                                  // CAPS
constexpr std::uint8_t kFlagLocalFetches = 1, kFlagLocalConfirmed = 2;  // CAPS, of the local part
constexpr std::uint8_t kFlagResponses = kAckResponses;                  // FFM has it too
constexpr std::uint32_t kPsnsMax = 0x80'0000;  // half the circle: beyond, before and after are one

// No bit may be set for `base` itself, after `highest`, or in the padding of bit_count to words.
bool bits_possible(const BitmapAck& ack) {
  const std::int32_t beyond = distance(ack.highest, ack.base);  // -1: nothing lies beyond the base
  if (beyond < -1) return false;
  const auto bits_max = static_cast<std::uint32_t>(beyond + 1);
  const std::uint32_t end = ack.bit_count < bits_max ? ack.bit_count : bits_max;
  const std::byte* words = ack.bits.data();
  if (end != 0 && (load_u8(words) & 0x80) != 0) return false;
  for (std::uint32_t word = end / 32; word * 32 < ack.bit_count; ++word) {
    const std::uint32_t allowed = word == end / 32 ? ~(0xFFFF'FFFFu >> (end % 32)) : 0;
    if ((load_be32(words + std::size_t{word} * 4) & ~allowed) != 0) return false;
  }
  return true;
}

// A gap is inside the window, and something was received after it.
bool gap_possible(const FfmGap& gap, Psn base, Psn highest) {
  if (gap.length == 0 || gap.length >= kPsnsMax) return false;
  const std::int32_t until_highest = distance(highest, gap.start);
  return distance(gap.start, base) >= 0 && distance(highest, base) >= 0 && until_highest >= 0 &&
         gap.length <= static_cast<std::uint32_t>(until_highest);
}

// After the bits, and up to the highest PSN.
bool range_possible(const AckRange& range, const BitmapAck& ack) {
  if (distance(range.start, ack.base) < static_cast<std::int32_t>(ack.bit_count) || range.length == 0) return false;
  const std::int32_t until_highest = distance(ack.highest, range.start) + 1;
  return until_highest > 0 && range.length <= static_cast<std::uint32_t>(until_highest);
}

}  // namespace

std::optional<Caps> parse_caps(ConstBytes body) {
  if (body.size() < kCapsFirstSize) return std::nullopt;  // a longer body: of a later version, with the same beginning
  const std::byte* p = body.data();
  Caps caps;
  caps.reply = (load_u8(p) & kFlagReply) != 0;
  caps.source_qpn = load_be32(p) & kMask24;
  caps.capabilities = load_be32(p + 4);
  caps.version_min = load_u8(p + 8);
  caps.version_max = load_u8(p + 9);
  caps.path_mtu_code = load_u8(p + 10);
  caps.paths = load_u8(p + 11);
  caps.window_packets = load_be32(p + 12);
  caps.credit_packets = load_be32(p + 16);
  caps.credit_bytes = load_be32(p + 20);
  caps.sending_paths = load_u8(p + 24);
  if (caps.version_max >= kBitmapVersion) {
    if (body.size() < kCapsSize) return std::nullopt;
    caps.token = load_be64(p + 32);
    caps.echo = load_be64(p + 40);
  } else {
    caps.capabilities &= ~kCapabilityLocal;  // neither bitmap mode nor anything else will be agreed on
  }
  if ((caps.capabilities & kCapabilityLocal) != 0) {
    if (body.size() < kCapsSize + kCapsLocalSize) return std::nullopt;
    const std::byte* const local = p + kCapsSize;
    caps.local_fetches = (load_u8(local) & kFlagLocalFetches) != 0;
    caps.local_confirmed = (load_u8(local) & kFlagLocalConfirmed) != 0;
    caps.local = {.pid = load_be32(local + 4),
                  .pid_namespace = load_be64(local + 8),
                  .beacon = load_be64(local + 16),
                  .nonce = {load_be64(local + 24), load_be64(local + 32)}};
  }
  if (caps.version_min == 0 || caps.version_min > caps.version_max) return std::nullopt;
  if (caps.path_mtu_code < 1 || caps.path_mtu_code > 5 || caps.paths == 0) return std::nullopt;
  if (caps.window_packets == 0 || caps.window_packets > kPsnsMax) return std::nullopt;
  return caps;
}

std::optional<BitmapAck> parse_bitmap_ack(ConstBytes body, Psn bth_psn) {
  if (body.size() < kBitmapAckSize) return std::nullopt;
  BitmapAck ack = parse_bitmap_ack_start(body.data(), bth_psn);
  if (ack.bit_count > kAckBitsMax || !syndrome_exists(ack.syndrome)) return std::nullopt;
  std::size_t fixed_size = kBitmapAckSize;
  if (has_waited(body.data())) {
    fixed_size += kAckWaitedSize;
    if (body.size() < fixed_size) return std::nullopt;
    ack.waited = parse_ack_waited(body.data());
    if (ack.waited == Duration{}) return std::nullopt;
  }
  const std::size_t bits_size = bitmap_bytes(ack.bit_count);
  if (body.size() < fixed_size + bits_size) return std::nullopt;
  const std::size_t ranges_size = body.size() - fixed_size - bits_size;
  if (ranges_size % kAckRangeSize != 0 || ranges_size > kAckRangesMax * kAckRangeSize) return std::nullopt;
  ack.range_count = static_cast<std::uint16_t>(ranges_size / kAckRangeSize);
  ack.bits = body.subspan(fixed_size, bits_size);
  ack.ranges = body.subspan(fixed_size + bits_size);
  if (!bits_possible(ack)) return std::nullopt;
  for (std::size_t i = 0; i < ack.range_count; ++i) {
    if (!range_possible(ack.range(i), ack)) return std::nullopt;
  }
  return ack;
}

AckRange BitmapAck::range(std::size_t i) const {
  const std::byte* p = ranges.subspan(i * kAckRangeSize, kAckRangeSize).data();
  return AckRange{.start = Psn{load_be32(p)}, .length = load_be32(p + 4)};
}

FfmGap Ffm::gap(std::size_t i) const {
  const std::byte* p = gaps.subspan(i * kFfmGapSize, kFfmGapSize).data();
  const std::uint8_t status = load_u8(p);
  return FfmGap{.start = Psn{load_be32(p)},
                .length = load_be32(p + 4),
                .cause = static_cast<std::uint8_t>(status & 0x0F),
                .repeat = static_cast<std::uint8_t>(status >> 4)};
}

std::optional<Ffm> parse_ffm(ConstBytes body, Psn bth_psn) {
  if (body.size() < kFfmSize) return std::nullopt;
  const std::byte* p = body.data();
  Ffm ffm;
  ffm.responses = (load_u8(p) & kFlagResponses) != 0;
  ffm.source_qpn = load_be32(p) & kMask24;
  ffm.path = load_u8(p + 4);
  ffm.highest = Psn{load_be32(p + 4)};
  ffm.cause = load_u8(p + 8);
  ffm.base = Psn{load_be32(p + 8)};
  ffm.depth = load_be16(p + 12);
  ffm.repeat = load_be16(p + 14);
  ffm.timestamp = load_be64(p + 16);
  ffm.token = load_be64(p + kTokenOffset);
  ffm.serial = load_be32(p + 32);
  ffm.gap_count = load_be16(p + 36);
  ffm.promoted = load_be16(p + 38);
  ffm.gaps = body.subspan(kFfmSize);
  if (ffm.gap_count == 0 || ffm.gap_count > kFfmGapsMax) return std::nullopt;
  if (ffm.gaps.size() != ffm.gap_count * kFfmGapSize || ffm.gap(0).start != bth_psn) return std::nullopt;
  for (std::size_t i = 0; i < ffm.gap_count; ++i) {
    if (!gap_possible(ffm.gap(i), ffm.base, ffm.highest)) return std::nullopt;
  }
  return ffm;
}

std::size_t emit_caps(const Caps& caps, std::byte* out) {
  store_be32(out, first_word(caps.reply ? kFlagReply : 0, caps.source_qpn, kControlVersion));
  store_be32(out + 4, caps.capabilities);
  store_u8(out + 8, caps.version_min);
  store_u8(out + 9, caps.version_max);
  store_u8(out + 10, caps.path_mtu_code);
  store_u8(out + 11, caps.paths);
  store_be32(out + 12, caps.window_packets);
  store_be32(out + 16, caps.credit_packets);
  store_be32(out + 20, caps.credit_bytes);
  store_be64(out + 24, std::uint64_t{caps.sending_paths} << 56);
  if (caps.version_max < kBitmapVersion) return kCapsFirstSize;
  store_be64(out + 32, caps.token);
  store_be64(out + 40, caps.echo);
  if ((caps.capabilities & kCapabilityLocal) == 0) return kCapsSize;
  const unsigned flags =
      (caps.local_fetches ? kFlagLocalFetches : 0u) | (caps.local_confirmed ? kFlagLocalConfirmed : 0u);
  std::byte* const local = out + kCapsSize;
  store_be32(local, flags << 24);
  store_be32(local + 4, caps.local.pid);
  store_be64(local + 8, caps.local.pid_namespace);
  store_be64(local + 16, caps.local.beacon);
  store_be64(local + 24, caps.local.nonce[0]);
  store_be64(local + 32, caps.local.nonce[1]);
  return kCapsSize + kCapsLocalSize;
}

std::size_t emit_bitmap_ack(const BitmapAck& ack, std::byte* out) {
  const std::size_t bitmap_size = bitmap_bytes(ack.bit_count), ranges_size = ack.range_count * kAckRangeSize;
  BRDMA_CHECK(ack.bit_count <= kAckBitsMax && ack.bits.size() >= bitmap_size);
  BRDMA_CHECK(ack.range_count <= kAckRangesMax && ack.ranges.size() >= ranges_size);
  std::size_t size = emit_bitmap_ack_start(ack, out);
  if (bitmap_size != 0) std::memcpy(out + size, ack.bits.data(), bitmap_size);
  size += bitmap_size;
  if (ranges_size != 0) std::memcpy(out + size, ack.ranges.data(), ranges_size);
  return size + ranges_size;
}

std::size_t emit_ffm(const Ffm& ffm, std::byte* out) {
  const std::size_t gaps_size = ffm.gap_count * kFfmGapSize;
  BRDMA_CHECK(ffm.gap_count > 0 && ffm.gap_count <= kFfmGapsMax && ffm.gaps.size() >= gaps_size);
  store_be32(out, first_word(ffm.responses ? kFlagResponses : 0, ffm.source_qpn));
  store_be32(out + 4, byte_and_24(ffm.path, ffm.highest.value()));
  store_be32(out + 8, byte_and_24(ffm.cause, ffm.base.value()));
  store_be16(out + 12, ffm.depth);
  store_be16(out + 14, ffm.repeat);
  store_be64(out + 16, ffm.timestamp);
  store_be64(out + kTokenOffset, ffm.token);
  store_be32(out + 32, ffm.serial);
  store_be16(out + 36, ffm.gap_count);
  store_be16(out + 38, ffm.promoted);
  std::memcpy(out + kFfmSize, ffm.gaps.data(), gaps_size);
  return kFfmSize + gaps_size;
}

void emit_ffm_gap(FfmGap gap, std::byte* out) {
  const unsigned repeat = std::min(gap.repeat, kFfmGapRepeatMax);
  store_be32(out, byte_and_24(static_cast<std::uint8_t>(repeat << 4 | (gap.cause & 0x0Fu)), gap.start.value()));
  store_be32(out + 4, gap.length);
}

void emit_ack_range(AckRange range, std::byte* out) {
  store_be32(out, range.start.value());
  store_be32(out + 4, range.length);
}

}  // namespace brdma::wire
