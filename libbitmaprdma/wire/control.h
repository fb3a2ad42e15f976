// wire/control.h - bitmap mode's control packets: BTH (opcode 0xE0..), a body, ICRC. Layouts: docs/wire.md#control.
// All carry the sender's QPN, so that both directions of a connection can be tied together by who only looks on.
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

// CAPS (0xE0): sent on reaching RTR, answered once. Body 32 bytes, with kCapabilityLocal 40 more.
struct Caps {
  bool reply = false;
  std::uint32_t source_qpn = 0;
  std::uint32_t capabilities = 0;  // bit 0: bitmap mode, 1: reads piggybacked acknowledgements, 2: operations,
                                   // 3: ranges in BitmapAcks, 4: copies of READ requests, 5: inquiries,
                                   // 6: how long packets waited in BitmapAcks,
                                   // 7: data may be fetched from memory; `local` follows
  std::uint8_t version_min = 1, version_max = 1;
  std::uint8_t path_mtu_code = 3;    // enum ibv_mtu; differing sides stay in standard mode
  std::uint8_t paths = 1;            // that it tells apart when it receives
  std::uint32_t window_packets = 0;  // the receive window
  std::uint32_t credit_packets = 0, credit_bytes = 0;
  std::uint8_t sending_paths = 0;  // that it sends on; 0: not said
  // With kCapabilityLocal, to and from addresses of the same host: who the sender is, and what stands between the two.
  LocalClaim local;
  bool local_fetches = false;  // the sender can read the receiver's memory
  bool local_heard = false;    // the sender knows that the receiver can read its memory
};
inline constexpr std::uint32_t kCapabilityBitmap = 1, kCapabilityPiggyback = 2, kCapabilityOperations = 4,
                               kCapabilityRanges = 8, kCapabilityReadCopies = 16, kCapabilityLinkState = 32,
                               kCapabilityWaited = 64, kCapabilityLocal = 128;
inline constexpr std::size_t kCapsSize = 32, kCapsLocalSize = 40;

// PSNs that have arrived beyond the bits of a BitmapAck.
struct AckRange {
  Psn start;
  std::uint32_t length = 0;
  friend bool operator==(const AckRange&, const AckRange&) = default;
};

// Bitmap acknowledgement (0xE1). BTH.psn is `base`: all before it has arrived. Body 44 bytes + bitmap + ranges.
struct BitmapAck {
  bool piggybacked = false;  // came inside a data packet; nothing on the wire
  bool responses = false;    // acknowledges READ responses (sent by the requester of the READ), else requests
  std::uint32_t source_qpn = 0;
  std::uint8_t path = 0;                 // of the packet whose timestamp is echoed
  std::uint32_t msn = 0;                 // 24 bits: messages completed by the responder
  std::uint8_t syndrome = kSyndromeAck;  // as in AETH: a NAK or RNR NAK speaks of `base`
  Psn base;
  Psn highest;                       // highest PSN received (base - 1 where nothing lies beyond)
  std::uint32_t credit_packets = 0;  // the sender may have so many packets ...
  std::uint32_t credit_bytes = 0;    // ... and so many payload bytes in flight
  // Of the packets behind the base, so many have been judged: what is missing of them counts as lost. An FFM said so
  // before, and may have been lost itself.
  std::uint16_t judged = 0;
  bool echo_valid = false;
  std::uint64_t ts_echo = 0;  // timestamp of the packet that caused this, 48 bits
  std::uint64_t tr = 0;       // when it arrived, receiver's clock (a switch may add to it: spec 2)
  std::uint32_t made = 0;     // when this packet was made, the low 32 bits of the same clock
  // How long the echoed packet had lain in the receiver's host when it was taken up, which is not in held(); on the
  // wire where it is more than 256 ns, and to a peer that has kCapabilityWaited.
  Duration waited{};
  std::uint16_t bit_count = 0;         // bit i: PSN base + i has arrived (bit 0 is never set)
  bool operations_valid = false;       // the next two say something
  std::uint8_t operations_next = 0;    // all operations before this one are complete ...
  std::uint8_t operations_beyond = 0;  // ... and of the eight after it those whose bits are set, lowest number first
  ConstBytes bits;                     // ceil(bit_count / 32) big-endian words, lowest PSN in the most significant bit
  std::uint16_t range_count = 0;       // to a peer that has kCapabilityRanges; the size of the body says how many
  ConstBytes ranges;                   // range_count * 8 bytes; range(i) decodes
  [[nodiscard]] AckRange range(std::size_t i) const;
  // How long the receiver had the packet that is echoed before it made this one, so that the round trip is
  // now - echo - held(). What a switch has added to Tr makes it shorter, below zero even, and the round trip longer.
  [[nodiscard]] Duration held() const {
    return Duration::from_ns(static_cast<std::int32_t>(made - static_cast<std::uint32_t>(tr)));
  }
};
inline constexpr std::size_t kBitmapAckSize = 44, kAckWaitedSize = 4;  // the latter where it says something
inline constexpr std::uint16_t kAckBitsMax = 4096;
inline constexpr std::size_t kAckRangeSize = 8;
inline constexpr std::uint16_t kAckRangesMax = 64;
// The same said by an acknowledgement that came inside a data packet.
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
// Bytes of the bitmap behind a BitmapAck's fixed part.
[[nodiscard]] constexpr std::size_t bitmap_bytes(std::uint16_t bit_count) {
  return (std::size_t{bit_count} + 31) / 32 * 4;
}

// Fast feedback message (0xE2). BTH.psn is the first gap's start. Body 32 bytes + 8 a gap.
struct FfmGap {
  Psn start;
  std::uint32_t length = 0;
  // Status: why this gap counts as lost (recovery::LossCause; 0: as the first) and how often it was named before
  // (at most 15 is told).
  std::uint8_t cause = 0;
  std::uint8_t repeat = 0;
  friend bool operator==(const FfmGap&, const FfmGap&) = default;
};
inline constexpr std::uint8_t kFfmGapRepeatMax = 15;
struct Ffm {
  bool responses = false;
  std::uint32_t source_qpn = 0;
  std::uint8_t path = 0;
  Psn highest;             // receive boundary
  std::uint8_t cause = 0;  // recovery::LossCause
  Psn base;
  std::uint16_t depth = 0;   // of the first gap, saturating
  std::uint16_t repeat = 0;  // how often this gap has been reported before
  std::uint64_t timestamp = 0;
  std::uint32_t serial = 0;  // FFMs sent by this QP before this one: tells duplicates and stale ones
  std::uint16_t gap_count = 0;
  std::uint16_t promoted = 0;  // gaps that this QP has judged lost so far, modulo 2^16
  ConstBytes gaps;             // gap_count * 8 bytes, in any order; gap(i) decodes
  [[nodiscard]] FfmGap gap(std::size_t i) const;
};
inline constexpr std::size_t kFfmSize = 32, kFfmGapSize = 8;
inline constexpr std::uint16_t kFfmGapsMax = 64;

// Bodies (after BTH, before ICRC), as parse_packet() leaves them in `payload`: it has checked their version.
// nullopt: impossible contents (DropReason::kBadControl): a size that does not fit, a gap or a bit outside
// [base, highest], a syndrome, version range or path MTU that does not exist (docs/wire.md#control).
// The parsed value's `bits` and `gaps` point into `body`.
[[nodiscard]] std::optional<Caps> parse_caps(ConstBytes body);
[[nodiscard]] std::optional<BitmapAck> parse_bitmap_ack(ConstBytes body, Psn bth_psn);
[[nodiscard]] std::optional<Ffm> parse_ffm(ConstBytes body, Psn bth_psn);
// Answer the body's size (of CAPS at most kCapsSize + kCapsLocalSize). `bits` / `gaps` are copied behind the fixed part
// and must hold what the counts say.
std::size_t emit_caps(const Caps& caps, std::byte* out);
std::size_t emit_bitmap_ack(const BitmapAck& ack, std::byte* out);
std::size_t emit_ffm(const Ffm& ffm, std::byte* out);
void emit_ffm_gap(FfmGap gap, std::byte* out);
void emit_ack_range(AckRange range, std::byte* out);

}  // namespace brdma::wire
