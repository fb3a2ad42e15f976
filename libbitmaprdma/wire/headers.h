// wire/headers.h - the headers of a RoCEv2 packet as values, each with its size, decoder and encoder side by side.
// Offsets are bytes from the header's own start; docs/reference/wire.md has the whole packet. Multi-byte fields are big
// endian on the wire, host order here, but for `immediate_be`, which is passed through untouched. Decoders take spans
// of fixed size: the caller has checked the length, no field can be out of bounds. They check no contents
// (wire/packet.h does); reserved bits are ignored. Encoders write every byte, reserved bits as zero.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "base/psn.h"
#include "base/units.h"

namespace brdma::wire {

inline constexpr std::size_t kBthSize = 12, kBxthSize = 32, kPiggybackSize = 40, kRethSize = 16, kAethSize = 4,
                             kAtomicEthSize = 28, kAtomicAckSize = 8, kImmediateSize = 4, kInvalidateSize = 4,
                             kXrcethSize = 4, kDethSize = 8, kFethSize = 4, kCnpReservedSize = 16, kIcrcSize = 4;
inline constexpr std::size_t kIpv4Size = 20, kIpv6Size = 40, kUdpSize = 8;
inline constexpr std::uint16_t kDefaultPkey = 0xFFFF;

// The largest overhead of a packet with a full payload, IP header included: a bitmap-mode WRITE with immediate over
// IPv6. A netdev of MTU m carries a path MTU p in every mode when p + kOverheadMax <= m
// (docs/reference/wire.md#path-mtu).
inline constexpr std::size_t kOverheadMax =
    kIpv6Size + kUdpSize + kBthSize + kBxthSize + kRethSize + kImmediateSize + kIcrcSize;
static_assert(kOverheadMax == 116);
// The largest UDP payload (BTH .. ICRC) at a path MTU, and so of a packet with a piggybacked ACK.
[[nodiscard]] constexpr std::size_t packet_bytes_max(std::size_t path_mtu) {
  return path_mtu + kOverheadMax - kIpv6Size - kUdpSize;
}

template <std::size_t kSize>
using Field = std::span<const std::byte, kSize>;

// Base transport header (IBTA 9.2).
//   0 opcode | 1 solicited, migrated, pad (2 bits), version (4 bits, 0) | 2 P_Key | 4 FECN, BECN, 6 reserved |
//   5 destination QPN | 8 AckReq, 7 reserved | 9 PSN
struct Bth {
  std::uint8_t opcode = 0;
  bool solicited = false;
  bool migrated = false;
  std::uint8_t pad = 0;  // 0..3
  std::uint16_t pkey = kDefaultPkey;
  bool fecn = false, becn = false;
  std::uint32_t dest_qpn = 0;
  bool ack_request = false;
  Psn psn;
};

[[nodiscard]] inline Bth parse_bth(Field<kBthSize> bytes) {
  const std::byte* p = bytes.data();
  const std::uint8_t flags = load_u8(p + 1), congestion = load_u8(p + 4);
  Bth bth;
  bth.opcode = load_u8(p);
  bth.solicited = (flags & 0x80) != 0;
  bth.migrated = (flags & 0x40) != 0;
  bth.pad = (flags >> 4) & 3;
  bth.pkey = load_be16(p + 2);
  bth.fecn = (congestion & 0x80) != 0;
  bth.becn = (congestion & 0x40) != 0;
  bth.dest_qpn = load_be32(p + 4) & 0xFF'FFFF;
  bth.ack_request = (load_u8(p + 8) & 0x80) != 0;
  bth.psn = Psn{load_be32(p + 8)};
  return bth;
}

// The transport header version; not part of Bth, because only 0 exists.
[[nodiscard]] inline std::uint8_t bth_version(Field<kBthSize> bytes) { return load_u8(bytes.data() + 1) & 0x0F; }

inline void emit_bth(const Bth& bth, std::byte* out) {
  store_u8(out, bth.opcode);
  store_u8(out + 1,
           static_cast<std::uint8_t>((bth.solicited ? 0x80 : 0) | (bth.migrated ? 0x40 : 0) | ((bth.pad & 3) << 4)));
  store_be16(out + 2, bth.pkey);
  store_be32(out + 4, (bth.fecn ? 0x8000'0000 : 0) | (bth.becn ? 0x4000'0000 : 0) | (bth.dest_qpn & 0xFF'FFFF));
  store_be32(out + 8, (bth.ack_request ? 0x8000'0000 : 0) | bth.psn.value());
}

// The packets sent on the same path right before a packet, for the first time: the `run` PSNs that end `distance`
// before it. distance 0: not stated.
struct BeforeOnPath {
  static constexpr std::uint32_t kDistanceMax = 1023, kRunMax = 64;
  std::uint16_t distance = 0;
  std::uint16_t run = 1;  // 1..kRunMax; of a longer run its end
  // 10 bits distance, 6 bits run - 1.
  [[nodiscard]] static BeforeOnPath unpack(std::uint16_t bits) {
    return {static_cast<std::uint16_t>(bits >> 6), static_cast<std::uint16_t>((bits & 63) + 1)};
  }
  [[nodiscard]] std::uint64_t pack() const { return distance == 0 ? 0 : std::uint64_t{distance} << 6 | (run - 1u); }
};

// Bitmap mode's extension header (BXTH): each packet names its place, so that it can be placed alone.
//   0 version (4 bits), start, more, piggyback, retransmitted | 1 source QPN | 4 path | 5 MSN | 8 operation | 9 RSN |
//   12 packets of the operation | 13 packet index | 16 before on this path | 18 timestamp | 24 token
struct Bxth {
  bool retransmitted = false;
  bool piggyback = false;  // a piggybacked ACK (Piggyback) follows
  std::uint8_t path = 0;
  std::uint32_t source_qpn = 0;
  std::uint32_t msn = 0;  // 24 bits: messages before this one since the QP's first PSN (requests of any kind)
  std::uint32_t rsn = 0;  // 24 bits: messages before this one that consume a receive (SEND, WRITE with immediate)
  std::uint32_t packet_index = 0;  // 24 bits: packet's place in its message; payload offset = index * path MTU
  std::uint64_t timestamp = 0;     // sender's clock, ns, its low 48 bits
  BeforeOnPath before{};
  std::uint64_t token = 0;  // the receiver's, from its CAPS
  // Of a segment of a large transfer (RR-6); `operation_packets` 0: not part of one, and the flags have no meaning.
  std::uint8_t operation = 0;          // its number
  std::uint8_t operation_packets = 0;  // how many it has
  bool operation_start = false;        // this packet is its first
  bool operation_more = false;         // status flag: further operations of the same transfer follow

  // Without an operation, its number is the kind of payload: 0 the data, kByReference a descriptor of the data
  // (wire/local_reference.h). On a READ request: the response may carry a descriptor.
  static constexpr std::uint8_t kByReference = 1;
  [[nodiscard]] bool by_reference() const { return operation == kByReference && operation_packets == 0; }
};

// Timestamps that are echoed to their sender have 48 bits (78 hours).
inline constexpr std::uint64_t kTimestampMask = 0xFFFF'FFFF'FFFF;
[[nodiscard]] inline std::uint64_t timestamp_of(Instant now) {
  return static_cast<std::uint64_t>(now.ns()) & kTimestampMask;
}
// The latest instant, not after `now`, that has this timestamp.
[[nodiscard]] inline Instant instant_of(std::uint64_t timestamp, Instant now) {
  const std::uint64_t ago = (static_cast<std::uint64_t>(now.ns()) - timestamp) & kTimestampMask;
  return now - Duration::from_ns(static_cast<std::int64_t>(ago));
}

// Version of BXTH and of every control packet's body: the high four bits of its first byte. Headers and control packets
// with a token are of the second version; CAPS and replies to a nonce are of the first.
inline constexpr std::uint8_t kBitmapVersion = 2, kControlVersion = 1;
// Place of the token after BTH, in BXTH and in control packets alike.
inline constexpr std::size_t kTokenOffset = 24, kTokenSize = 8;
[[nodiscard]] inline std::uint8_t bitmap_version(const std::byte* p) { return load_u8(p) >> 4; }
// Flags of BXTH's first byte.
inline constexpr std::uint8_t kBxthRetransmitted = 1, kBxthPiggyback = 2, kBxthMore = 4, kBxthStart = 8;

[[nodiscard]] inline Bxth parse_bxth(Field<kBxthSize> bytes) {
  const std::byte* p = bytes.data();
  Bxth bxth;
  const std::uint8_t flags = load_u8(p);
  bxth.retransmitted = (flags & kBxthRetransmitted) != 0;
  bxth.piggyback = (flags & kBxthPiggyback) != 0;
  bxth.operation_more = (flags & kBxthMore) != 0;
  bxth.operation_start = (flags & kBxthStart) != 0;
  bxth.operation = load_u8(p + 8);
  bxth.operation_packets = load_u8(p + 12);
  bxth.source_qpn = load_be32(p) & 0xFF'FFFF;
  bxth.path = load_u8(p + 4);
  bxth.msn = load_be32(p + 4) & 0xFF'FFFF;
  bxth.rsn = load_be32(p + 8) & 0xFF'FFFF;
  bxth.packet_index = load_be32(p + 12) & 0xFF'FFFF;
  bxth.before = BeforeOnPath::unpack(load_be16(p + 16));
  bxth.timestamp = load_be64(p + 16) & kTimestampMask;
  bxth.token = load_be64(p + kTokenOffset);
  return bxth;
}

inline void emit_bxth(const Bxth& bxth, std::byte* out) {
  const unsigned flags = (bxth.retransmitted ? kBxthRetransmitted : 0u) | (bxth.piggyback ? kBxthPiggyback : 0u) |
                         (bxth.operation_more ? kBxthMore : 0u) | (bxth.operation_start ? kBxthStart : 0u);
  store_be32(out, (std::uint32_t{kBitmapVersion} << 28) | (flags << 24) | (bxth.source_qpn & 0xFF'FFFF));
  store_be32(out + 4, (std::uint32_t{bxth.path} << 24) | (bxth.msn & 0xFF'FFFF));
  store_be32(out + 8, (std::uint32_t{bxth.operation} << 24) | (bxth.rsn & 0xFF'FFFF));
  store_be32(out + 12, (std::uint32_t{bxth.operation_packets} << 24) | (bxth.packet_index & 0xFF'FFFF));
  store_be64(out + 16, bxth.before.pack() << 48 | (bxth.timestamp & kTimestampMask));
  store_be64(out + kTokenOffset, bxth.token);
}

// Time from a packet's arrival at `tr` to the making of its echo.
[[nodiscard]] inline Duration held_between(std::uint64_t tr, std::uint32_t made) {
  return Duration::from_ns(static_cast<std::int32_t>(made - static_cast<std::uint32_t>(tr)));
}

// A piggybacked ACK, right after BXTH: equals a BitmapAck with nothing received after its base.
//   0 path | 1 MSN | 4 syndrome | 5 base | 8 credit: packets | 12 credit: bytes | 18 echo | 24 Tr | 32 made |
//   36 31 reserved, echo valid
struct Piggyback {
  std::uint8_t path = 0;         // of the packet whose timestamp is echoed
  std::uint32_t msn = 0;         // 24 bits: messages completed by the responder
  std::uint8_t syndrome = 0x1F;  // 00..1f: nothing but an acknowledgement
  Psn base;                      // all before it has arrived
  std::uint32_t credit_packets = 0, credit_bytes = 0;
  bool echo_valid = false;
  std::uint64_t ts_echo = 0, tr = 0;
  std::uint32_t made = 0;  // receiver's clock in ns at its making, its low 32 bits
  Duration waited{};       // as BitmapAck's
  [[nodiscard]] Duration held() const { return held_between(tr, made); }
};

// Time that a packet waited in its receiver: 24 bits, in units of 256 ns; longer waits (4.29 s) count as the maximum.
inline constexpr std::int64_t kWaitedUnitNs = 256, kWaitedMax = 0xFF'FFFF;
[[nodiscard]] inline Duration waited_of(std::uint32_t units) {
  return Duration::from_ns(std::int64_t{units} * kWaitedUnitNs);
}
[[nodiscard]] inline std::uint32_t waited_units(Duration waited) {
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(waited.ns() / kWaitedUnitNs, 0, kWaitedMax));
}

[[nodiscard]] inline Piggyback parse_piggyback(Field<kPiggybackSize> bytes) {
  const std::byte* p = bytes.data();
  return Piggyback{.path = load_u8(p),
                   .msn = load_be32(p) & 0xFF'FFFF,
                   .syndrome = load_u8(p + 4),
                   .base = Psn{load_be32(p + 4)},
                   .credit_packets = load_be32(p + 8),
                   .credit_bytes = load_be32(p + 12),
                   .echo_valid = (load_u8(p + 39) & 1) != 0,
                   .ts_echo = load_be64(p + 16) & kTimestampMask,
                   .tr = load_be64(p + 24),
                   .made = load_be32(p + 32),
                   .waited = waited_of(load_be32(p + 36) >> 8)};
}

inline void emit_piggyback(const Piggyback& ack, std::byte* out) {
  store_be32(out, (std::uint32_t{ack.path} << 24) | (ack.msn & 0xFF'FFFF));
  store_be32(out + 4, (std::uint32_t{ack.syndrome} << 24) | ack.base.value());
  store_be32(out + 8, ack.credit_packets);
  store_be32(out + 12, ack.credit_bytes);
  store_be64(out + 16, ack.ts_echo & kTimestampMask);
  store_be64(out + 24, ack.tr);
  store_be32(out + 32, ack.made);
  store_be32(out + 36, waited_units(ack.waited) << 8 | (ack.echo_valid ? 1u : 0u));
}

// Datagram extended transport header (IBTA 9.3.2).  0 Q_Key | 4 reserved | 5 source QPN
struct Deth {
  std::uint32_t qkey = 0;
  std::uint32_t source_qpn = 0;  // 24 bits
};

[[nodiscard]] inline Deth parse_deth(Field<kDethSize> bytes) {
  return Deth{.qkey = load_be32(bytes.data()), .source_qpn = load_be24(bytes.data() + 5)};
}
inline void emit_deth(const Deth& deth, std::byte* out) {
  store_be32(out, deth.qkey);
  store_be32(out + 4, deth.source_qpn & 0xFF'FFFF);
}

// RDMA extended transport header (IBTA 9.3.3).  0 virtual address | 8 R_Key | 12 DMA length
// On a bitmap-mode WRITE packet: `address` is this packet's own target, `length` the whole message's.
struct Reth {
  std::uint64_t address = 0;
  std::uint32_t rkey = 0;
  std::uint32_t length = 0;
};

[[nodiscard]] inline Reth parse_reth(Field<kRethSize> bytes) {
  const std::byte* p = bytes.data();
  return Reth{.address = load_be64(p), .rkey = load_be32(p + 8), .length = load_be32(p + 12)};
}
inline void emit_reth(const Reth& reth, std::byte* out) {
  store_be64(out, reth.address);
  store_be32(out + 8, reth.rkey);
  store_be32(out + 12, reth.length);
}

// FLUSH extended transport header (IBTA 1.5, annex A19).  0 26 reserved, selectivity (2 bits), placement (4 bits)
struct Feth {
  std::uint8_t placement = 0;    // kFlushGlobal, kFlushPersistent: enum ibv_placement_type
  std::uint8_t selectivity = 0;  // kFlushRange: RETH's; kFlushRegion: all of its R_Key: enum ibv_selectivity_level
};
inline constexpr std::uint8_t kFlushGlobal = 1, kFlushPersistent = 2;
inline constexpr std::uint8_t kFlushRange = 0, kFlushRegion = 1;

[[nodiscard]] inline Feth parse_feth(Field<kFethSize> bytes) {
  const std::uint32_t word = load_be32(bytes.data());
  return Feth{.placement = static_cast<std::uint8_t>(word & 0xF),
              .selectivity = static_cast<std::uint8_t>((word >> 4) & 3)};
}
inline void emit_feth(const Feth& feth, std::byte* out) {
  store_be32(out, (feth.selectivity & 3u) << 4 | (feth.placement & 0xFu));
}

// ACK extended transport header (IBTA 9.3.5).  0 syndrome | 1 MSN
struct Aeth {
  std::uint8_t syndrome = 0;
  std::uint32_t msn = 0;  // 24 bits
};
// Syndromes (IBTA 9.7.5.2.1).
inline constexpr std::uint8_t kSyndromeAck = 0x1F, kSyndromeRnr = 0x20, kSyndromeNakSequence = 0x60,
                              kSyndromeNakInvalidRequest = 0x61, kSyndromeNakRemoteAccess = 0x62,
                              kSyndromeNakRemoteOperation = 0x63, kSyndromeKindMask = 0xE0;
// Neither a NAK nor an RNR NAK.
[[nodiscard]] constexpr bool acknowledges(std::uint8_t syndrome) { return (syndrome & kSyndromeKindMask) == 0; }

[[nodiscard]] inline Aeth parse_aeth(Field<kAethSize> bytes) {
  const std::byte* p = bytes.data();
  return Aeth{.syndrome = load_u8(p), .msn = load_be32(p) & 0xFF'FFFF};
}
inline void emit_aeth(const Aeth& aeth, std::byte* out) {
  store_be32(out, (std::uint32_t{aeth.syndrome} << 24) | (aeth.msn & 0xFF'FFFF));
}

// Atomic extended transport header (IBTA 9.3.4).  0 virtual address | 8 R_Key | 12 swap or add | 20 compare
struct AtomicEth {
  std::uint64_t address = 0;
  std::uint32_t rkey = 0;
  std::uint64_t swap_or_add = 0;
  std::uint64_t compare = 0;
};

[[nodiscard]] inline AtomicEth parse_atomic_eth(Field<kAtomicEthSize> bytes) {
  const std::byte* p = bytes.data();
  return AtomicEth{.address = load_be64(p),
                   .rkey = load_be32(p + 8),
                   .swap_or_add = load_be64(p + 12),
                   .compare = load_be64(p + 20)};
}
inline void emit_atomic_eth(const AtomicEth& atomic, std::byte* out) {
  store_be64(out, atomic.address);
  store_be32(out + 8, atomic.rkey);
  store_be64(out + 12, atomic.swap_or_add);
  store_be64(out + 20, atomic.compare);
}

}  // namespace brdma::wire
