// wire/headers.h - the headers of a RoCEv2 packet as values, with their sizes. Offsets: docs/wire.md; parse and emit
// in headers.cc. Multi-byte fields are big endian on the wire, host order here, but for `immediate_be`, which is passed
// through untouched.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/psn.h"

namespace brdma::wire {

inline constexpr std::size_t kBthSize = 12, kBxthSize = 24, kRethSize = 16, kAethSize = 4, kAtomicEthSize = 28,
                             kAtomicAckSize = 8, kImmediateSize = 4, kInvalidateSize = 4, kIcrcSize = 4;
inline constexpr std::uint16_t kDefaultPkey = 0xFFFF;

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

// Bitmap mode's extension header: each packet says by itself what it is part of, so that it can be placed alone.
struct Bxth {
  bool retransmitted = false;
  std::uint8_t path = 0;
  std::uint32_t source_qpn = 0;
  std::uint32_t msn = 0;  // 24 bits: messages before this one since the QP's first PSN (requests of any kind)
  std::uint32_t rsn = 0;  // 24 bits: messages before this one that consume a receive (SEND, WRITE with immediate)
  std::uint32_t packet_index = 0;  // 24 bits: packet's place in its message; payload offset = index * path MTU
  std::uint64_t timestamp = 0;     // sender's clock, ns
};

// On a bitmap-mode WRITE packet: `address` is this packet's own target, `length` the whole message's.
struct Reth {
  std::uint64_t address = 0;
  std::uint32_t rkey = 0;
  std::uint32_t length = 0;
};

struct Aeth {
  std::uint8_t syndrome = 0;
  std::uint32_t msn = 0;  // 24 bits
};
// Syndromes (IBTA 9.7.5.2.1).
inline constexpr std::uint8_t kSyndromeAck = 0x1F, kSyndromeRnr = 0x20, kSyndromeNakSequence = 0x60,
                              kSyndromeNakInvalidRequest = 0x61, kSyndromeNakRemoteAccess = 0x62,
                              kSyndromeNakRemoteOperation = 0x63, kSyndromeKindMask = 0xE0;

struct AtomicEth {
  std::uint64_t address = 0;
  std::uint32_t rkey = 0;
  std::uint64_t swap_or_add = 0;
  std::uint64_t compare = 0;
};

}  // namespace brdma::wire
