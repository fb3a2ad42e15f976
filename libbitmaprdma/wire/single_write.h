// wire/single_write.h - fast path: a plain WRITE of one packet in bitmap mode, as most small requests are. Read without
// a Packet, and only the fields that its receiver needs while nothing is missing.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "base/psn.h"
#include "wire/headers.h"
#include "wire/opcode.h"

namespace brdma::wire {

struct SingleWrite {
  static constexpr std::uint8_t kOpcode = opcode_of(RcOp::kWriteOnly, /*bitmap=*/true);
  Psn psn;
  bool ack_request = false;
  bool has_piggyback = false;  // has a piggybacked ACK
  std::uint8_t path = 0;
  std::uint64_t timestamp = 0;
  Reth reth;
  ConstBytes payload;  // reth.length bytes
};

// True for a whole UDP payload with an ordinary BTH and BXTH, sizes that agree, and the data itself. Everything else,
// damaged packets included, is for parse_packet(), which names the fault. The ICRC is not checked.
[[nodiscard]] inline bool is_single_write(ConstBytes udp_payload) {
  constexpr std::size_t kHeaders = kBthSize + kBxthSize + kRethSize;
  const std::size_t size = udp_payload.size();
  if (size < kHeaders + kIcrcSize || size % 4 != 0) return false;
  const std::byte* const p = udp_payload.data();
  const std::byte* const bxth = p + kBthSize;
  // Opcode; version 0; the default partition. Then BXTH's version and flags, and that it is part of no operation.
  constexpr std::uint32_t kBthMask = 0xFF0F'FFFF, kBthPlain = std::uint32_t{SingleWrite::kOpcode} << 24 | kDefaultPkey;
  const std::uint8_t first = load_u8(bxth);
  if ((load_be32(p) & kBthMask) != kBthPlain || (first & ~kBxthPiggyback) != kBitmapVersion << 4 ||
      (load_u8(bxth + 8) | load_u8(bxth + 12)) != 0) {
    return false;
  }
  std::size_t headers = kHeaders;
  if ((first & kBxthPiggyback) != 0) {
    headers += kPiggybackSize;
    if (size < headers + kIcrcSize || (load_u8(bxth + kBxthSize + 4) & kSyndromeKindMask) != 0) return false;
  }
  const std::size_t pad = (load_u8(p + 1) >> 4) & 3, length = load_be32(p + headers - 4);  // RETH ends with it
  return length + pad == size - headers - kIcrcSize;
}

// Precondition: is_single_write().
[[nodiscard]] inline SingleWrite parse_single_write(ConstBytes udp_payload) {
  const std::byte* const p = udp_payload.data();
  const std::byte* const bxth = p + kBthSize;
  SingleWrite write;
  write.psn = Psn{load_be32(p + 8)};
  write.ack_request = (load_u8(p + 8) & 0x80) != 0;
  write.has_piggyback = (load_u8(bxth) & kBxthPiggyback) != 0;
  write.path = load_u8(bxth + 4);
  write.timestamp = load_be64(bxth + 16) & kTimestampMask;
  const std::size_t reth = kBthSize + kBxthSize + (write.has_piggyback ? kPiggybackSize : 0);
  write.reth = parse_reth(Field<kRethSize>{p + reth, kRethSize});
  write.payload = udp_payload.subspan(reth + kRethSize, write.reth.length);
  return write;
}

}  // namespace brdma::wire
