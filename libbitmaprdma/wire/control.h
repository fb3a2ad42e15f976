// wire/control.h - bitmap mode's control packets: BTH (opcode 0xE0..), a body, ICRC. Layouts:
// docs/reference/wire.md#control. All carry the sender's QPN: an observer can match the two directions of a connection.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/bytes.h"
#include "base/local_memory.h"
#include "base/psn.h"
#include "wire/headers.h"

namespace brdma::wire {

// CAPS (0xE0): sent on reaching RTR, answered once. Body 48 bytes, with kCapabilityLocal 40 more.
struct Caps {
  bool reply = false;
  std::uint32_t source_qpn = 0;
  std::uint32_t capabilities = 0;  // bit 0: bitmap mode, 1: reads piggybacked acknowledgements, 2: operations,
                                   // 3: ranges in BitmapAcks, 4: copies of READ requests, 5: inquiries,
                                   // 6: how long packets waited in BitmapAcks,
                                   // 7: data may be fetched from memory; `local` follows
  std::uint8_t version_min = kBitmapVersion, version_max = kBitmapVersion;
  std::uint8_t path_mtu_code = 3;    // enum ibv_mtu; differing sides stay in standard mode
  std::uint8_t paths = 1;            // number of paths that its receiver distinguishes
  std::uint32_t window_packets = 0;  // the receive window
  std::uint32_t credit_packets = 0, credit_bytes = 0;
  std::uint8_t sending_paths = 0;  // number of paths that it sends on; 0: not stated
  // From version 2: the token that the sender expects in each packet, and the receiver's token as the sender knows it
  // (0: none). A peer that returns our token has read our packets.
  std::uint64_t token = 0, echo = 0;
  // With kCapabilityLocal, between addresses of one host: the sender's process, and the state of local transfer.
  LocalClaim local;
  bool local_fetches = false;    // the sender can read the receiver's memory
  bool local_confirmed = false;  // the sender knows that the receiver can read its memory
};
inline constexpr std::uint32_t kCapabilityBitmap = 1, kCapabilityPiggyback = 2, kCapabilityOperations = 4,
                               kCapabilityRanges = 8, kCapabilityReadCopies = 16, kCapabilityLinkState = 32,
                               kCapabilityWaited = 64, kCapabilityLocal = 128;
inline constexpr std::size_t kCapsSize = 48, kCapsLocalSize = 40;
inline constexpr std::size_t kCapsFirstSize = 32;  // of a sender that has only the first version: no tokens

// PSNs that have arrived beyond the bits of a BitmapAck.
struct AckRange {
  Psn start;
  std::uint32_t length = 0;
  friend bool operator==(const AckRange&, const AckRange&) = default;
};

// Bitmap acknowledgement (0xE1). BTH.psn is `base`: all before it has arrived. Body 52 bytes + bitmap + ranges.
struct BitmapAck {
  bool piggybacked = false;  // carried by a data packet; nothing on the wire
  bool responses = false;    // acknowledges READ responses (sent by the requester of the READ), else requests
  std::uint32_t source_qpn = 0;
  std::uint64_t token = 0;               // as Bxth's
  std::uint8_t path = 0;                 // of the packet whose timestamp is echoed
  std::uint32_t msn = 0;                 // 24 bits: messages completed by the responder
  std::uint8_t syndrome = kSyndromeAck;  // as in AETH: a NAK or RNR NAK refers to `base`
  Psn base;
  Psn highest;                       // highest PSN received (base - 1 where nothing lies beyond)
  std::uint32_t credit_packets = 0;  // the sender may have this many packets ...
  std::uint32_t credit_bytes = 0;    // ... and this many payload bytes in flight
  // Number of packets after the base that are judged: those missing among them count as lost. An FFM has reported them,
  // and may have been lost itself.
  std::uint16_t judged = 0;
  bool echo_valid = false;
  std::uint64_t ts_echo = 0;  // timestamp of the packet that caused this, 48 bits
  std::uint64_t tr = 0;       // its arrival, receiver's clock (a switch may add to it: design ER-14)
  std::uint32_t made = 0;     // time of making this packet, the low 32 bits of the same clock
  // Time that the echoed packet waited in the receiver's host before it was read; not part of held(). On the wire if
  // more than 256 ns and the peer has kCapabilityWaited.
  Duration waited{};
  std::uint16_t bit_count = 0;         // bit i: PSN base + i has arrived (bit 0 is never set)
  bool operations_valid = false;       // the next two are valid
  std::uint8_t operations_next = 0;    // all operations before this one are complete ...
  std::uint8_t operations_beyond = 0;  // ... and, of the eight after it, those whose bits are set, lowest number first
  ConstBytes bits;                     // ceil(bit_count / 32) big-endian words, lowest PSN in the most significant bit
  std::uint16_t range_count = 0;       // to a peer that has kCapabilityRanges; the size of the body gives the count
  ConstBytes ranges;                   // range_count * 8 bytes; range(i) decodes
  [[nodiscard]] AckRange range(std::size_t i) const;
  // Time from the arrival of the echoed packet to the making of this one: the round trip is now - echo - held(). A
  // switch's addition to Tr makes it shorter, below zero even, and the round trip longer.
  [[nodiscard]] Duration held() const { return held_between(tr, made); }
};
inline constexpr std::size_t kBitmapAckSize = 52, kAckWaitedSize = 4;  // the latter only where it is valid
inline constexpr std::uint16_t kAckBitsMax = 4096;
inline constexpr std::size_t kAckRangeSize = 8;
inline constexpr std::uint16_t kAckRangesMax = 64;
// The equivalent of a piggybacked ACK.
[[nodiscard]] inline BitmapAck bitmap_ack_of(const Bxth& bxth, const Piggyback& piggyback) {
  BitmapAck ack;
  ack.piggybacked = true;
  ack.source_qpn = bxth.source_qpn;
  ack.path = piggyback.path;
  ack.msn = piggyback.msn;
  ack.syndrome = piggyback.syndrome;
  ack.base = piggyback.base;
  ack.highest = piggyback.base - 1;
  ack.credit_packets = piggyback.credit_packets;
  ack.credit_bytes = piggyback.credit_bytes;
  ack.echo_valid = piggyback.echo_valid;
  ack.ts_echo = piggyback.ts_echo;
  ack.tr = piggyback.tr;
  ack.made = piggyback.made;
  ack.waited = piggyback.waited;
  return ack;
}
// The fixed start of a BitmapAck, up to its bits. Inline: it is read and written for many queue pairs in turn, without
// a detour through memory.
inline constexpr std::uint8_t kAckResponses = 1, kAckEchoValid = 2, kAckOperations = 4, kAckWaited = 8;  // flags
namespace internal {
inline std::uint32_t first_word(std::uint8_t flags, std::uint32_t source_qpn, std::uint8_t version = kBitmapVersion) {
  return (std::uint32_t{version} << 28) | (std::uint32_t{flags} << 24) | (source_qpn & 0xFF'FFFF);
}
inline std::uint32_t byte_and_24(std::uint8_t high, std::uint32_t low) {
  return (std::uint32_t{high} << 24) | (low & 0xFF'FFFF);
}
}  // namespace internal
[[nodiscard]] inline bool syndrome_exists(std::uint8_t syndrome) {
  if (syndrome < 0x40) return true;  // ACK with any credit, RNR NAK with any timer
  return syndrome >= kSyndromeNakSequence && syndrome <= kSyndromeNakRemoteOperation;
}
[[nodiscard]] inline bool has_waited(const std::byte* body) { return (load_u8(body) & kAckWaited) != 0; }
[[nodiscard]] inline Duration parse_ack_waited(const std::byte* body) {
  return waited_of(load_be32(body + kBitmapAckSize) & 0xFF'FFFF);
}
// The first kBitmapAckSize bytes, without checks.
[[nodiscard]] inline BitmapAck parse_bitmap_ack_start(const std::byte* body, Psn bth_psn) {
  const std::uint8_t flags = load_u8(body);
  BitmapAck ack;
  ack.responses = (flags & kAckResponses) != 0;
  ack.echo_valid = (flags & kAckEchoValid) != 0;
  ack.source_qpn = load_be32(body) & 0xFF'FFFF;
  ack.path = load_u8(body + 4);
  ack.msn = load_be32(body + 4) & 0xFF'FFFF;
  ack.syndrome = load_u8(body + 8);
  ack.base = bth_psn;
  ack.highest = Psn{load_be32(body + 8)};
  ack.credit_packets = load_be32(body + 12);
  ack.credit_bytes = load_be32(body + 16);
  ack.made = load_be32(body + 20);
  ack.token = load_be64(body + kTokenOffset);
  ack.judged = load_be16(body + 32);
  ack.ts_echo = load_be64(body + 32) & kTimestampMask;
  ack.tr = load_be64(body + 40);
  ack.bit_count = load_be16(body + 48);
  ack.operations_valid = (flags & kAckOperations) != 0;
  ack.operations_next = load_u8(body + 50);
  ack.operations_beyond = load_u8(body + 51);
  return ack;
}
[[nodiscard]] inline std::size_t bitmap_ack_start_size(const BitmapAck& ack) {
  return kBitmapAckSize + (waited_units(ack.waited) != 0 ? kAckWaitedSize : 0);
}
// Returns its size.
inline std::size_t emit_bitmap_ack_start(const BitmapAck& ack, std::byte* out) {
  const std::uint32_t waited = waited_units(ack.waited);
  const auto flags =
      static_cast<std::uint8_t>((ack.responses ? kAckResponses : 0) | (ack.echo_valid ? kAckEchoValid : 0) |
                                (ack.operations_valid ? kAckOperations : 0) | (waited != 0 ? kAckWaited : 0));
  store_be32(out, internal::first_word(flags, ack.source_qpn));
  store_be32(out + 4, internal::byte_and_24(ack.path, ack.msn));
  store_be32(out + 8, internal::byte_and_24(ack.syndrome, ack.highest.value()));
  store_be32(out + 12, ack.credit_packets);
  store_be32(out + 16, ack.credit_bytes);
  store_be32(out + 20, ack.made);
  store_be64(out + kTokenOffset, ack.token);
  store_be64(out + 32, std::uint64_t{ack.judged} << 48 | (ack.ts_echo & kTimestampMask));
  store_be64(out + 40, ack.tr);
  store_be16(out + 48, ack.bit_count);
  store_u8(out + 50, ack.operations_next);
  store_u8(out + 51, ack.operations_beyond);
  if (waited == 0) return kBitmapAckSize;
  store_be32(out + kBitmapAckSize, waited);
  return kBitmapAckSize + kAckWaitedSize;
}
// True for a whole UDP payload with a plain cumulative ACK: nothing received after its base, no NAK, about requests, no
// operations, an ordinary BTH. Everything else, damaged packets included, is for parse_packet() and parse_bitmap_ack(),
// which name the fault. The ICRC is not checked.
[[nodiscard]] inline bool is_cumulative_ack(ConstBytes udp_payload) {
  constexpr std::size_t kShort = kBthSize + kBitmapAckSize + kIcrcSize;
  if (udp_payload.size() != kShort && udp_payload.size() != kShort + kAckWaitedSize) return false;
  const std::byte* const p = udp_payload.data();
  const std::byte* const body = p + kBthSize;
  const bool waited = udp_payload.size() != kShort;
  // Opcode; pad and version 0; the default partition. Then the control packet's version and flags.
  constexpr std::uint32_t kBthMask = 0xFF3F'FFFF, kBthPlain = 0xE100'0000 | kDefaultPkey;
  const std::uint8_t flags = load_u8(body);
  return (load_be32(p) & kBthMask) == kBthPlain &&
         (flags & ~kAckEchoValid) == (kBitmapVersion << 4 | (waited ? kAckWaited : 0)) &&
         load_u8(body + 8) <= kSyndromeAck && Psn{load_be32(body + 8)} + 1 == Psn{load_be32(p + 8)} &&
         load_be32(body + 48) == 0 && (!waited || (load_be32(body + kBitmapAckSize) & 0xFF'FFFF) != 0);
}
// Precondition: is_cumulative_ack().
[[nodiscard]] inline BitmapAck parse_cumulative_ack(ConstBytes udp_payload) {
  const std::byte* const p = udp_payload.data();
  BitmapAck ack = parse_bitmap_ack_start(p + kBthSize, Psn{load_be32(p + 8)});
  if (has_waited(p + kBthSize)) ack.waited = parse_ack_waited(p + kBthSize);
  return ack;
}
// Bytes of the bitmap after a BitmapAck's fixed part.
[[nodiscard]] constexpr std::size_t bitmap_bytes(std::uint16_t bit_count) {
  return (std::size_t{bit_count} + 31) / 32 * 4;
}

// Fast feedback message (0xE2). BTH.psn is the first gap's start. Body 40 bytes + 8 a gap.
struct FfmGap {
  Psn start;
  std::uint32_t length = 0;
  // Status: the cause of loss (recovery::LossCause; 0: as the first gap's), and the number of earlier reports of this
  // gap (at most 15 on the wire).
  std::uint8_t cause = 0;
  std::uint8_t repeat = 0;
  friend bool operator==(const FfmGap&, const FfmGap&) = default;
};
inline constexpr std::uint8_t kFfmGapRepeatMax = 15;
struct Ffm {
  bool responses = false;
  std::uint32_t source_qpn = 0;
  std::uint64_t token = 0;  // as Bxth's
  std::uint8_t path = 0;
  Psn highest;             // receive boundary
  std::uint8_t cause = 0;  // recovery::LossCause
  Psn base;
  std::uint16_t depth = 0;   // of the first gap, saturating
  std::uint16_t repeat = 0;  // earlier reports of this gap
  std::uint64_t timestamp = 0;
  std::uint32_t serial = 0;  // number of FFMs sent by this QP before this one: identifies duplicates and stale ones
  std::uint16_t gap_count = 0;
  std::uint16_t promoted = 0;  // gaps that this QP has judged lost so far, modulo 2^16
  ConstBytes gaps;             // gap_count * 8 bytes, in any order; gap(i) decodes
  [[nodiscard]] FfmGap gap(std::size_t i) const;
};
inline constexpr std::size_t kFfmSize = 40, kFfmGapSize = 8;
inline constexpr std::uint16_t kFfmGapsMax = 64;

// Bodies (after BTH, before ICRC), as parse_packet() leaves them in `payload`, with the version checked.
// nullopt: impossible contents (DropReason::kBadControl): a wrong size, a gap or a bit outside [base, highest], or a
// syndrome, version range or path MTU that does not exist (docs/reference/wire.md#control).
// `bits` and `gaps` of the result point into `body`.
[[nodiscard]] std::optional<Caps> parse_caps(ConstBytes body);
[[nodiscard]] std::optional<BitmapAck> parse_bitmap_ack(ConstBytes body, Psn bth_psn);
[[nodiscard]] std::optional<Ffm> parse_ffm(ConstBytes body, Psn bth_psn);
// Return the body's size (of CAPS at most kCapsSize + kCapsLocalSize). `bits` / `gaps` are copied after the fixed part
// and must match the counts.
std::size_t emit_caps(const Caps& caps, std::byte* out);
std::size_t emit_bitmap_ack(const BitmapAck& ack, std::byte* out);
std::size_t emit_ffm(const Ffm& ffm, std::byte* out);
void emit_ffm_gap(FfmGap gap, std::byte* out);
void emit_ack_range(AckRange range, std::byte* out);

}  // namespace brdma::wire
