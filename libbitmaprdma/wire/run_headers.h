// wire/run_headers.h - headers of consecutive packets that differ in little, in bitmap mode: small requests of one
// kind, a packet each, or MIDDLE packets of a long request or of a READ response. The shared part is written once and
// copied; the differing fields are written over it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/bytes.h"
#include "base/check.h"
#include "base/psn.h"
#include "wire/headers.h"
#include "wire/packet.h"

namespace brdma::wire {

class RunHeaders {
 public:
  // The fields of each packet.
  struct Own {
    Psn psn;
    bool ack_request = false, solicited = false;
    std::uint32_t msn = 0, rsn = 0, packet_index = 0;
    Reth reth;  // where the opcode has one
  };

  RunHeaders() = default;
  // `first`: in bitmap mode, of an opcode with only BTH, BXTH and perhaps RETH, or AETH, which is the same for all; no
  // piggybacked ACK, no part of an operation.
  explicit RunHeaders(const Packet& first)
      : RunHeaders(first.bth, first.bxth, opcode_shape(first.bth.opcode).has(OpcodeShape::kReth)) {
    has_aeth_ = opcode_shape(first.bth.opcode).has(OpcodeShape::kAeth);
    emit_aeth(first.aeth, shared_.data() + kBase);
    BRDMA_CHECK(headers_size(first) == size() && first.bxth.operation == 0);
  }
  // Likewise, from its headers, and without AETH: a run may be one packet.
  RunHeaders(const Bth& bth, const Bxth& bxth, bool has_reth)
      : path_(std::uint32_t{bxth.path} << 24), has_reth_(has_reth) {
    emit_bth(bth, shared_.data());
    emit_bxth(bxth, shared_.data() + kBthSize);
    shared_[1] &= ~(kSolicited | kPad);
  }

  [[nodiscard]] bool has_reth() const { return has_reth_; }
  [[nodiscard]] std::size_t size() const { return kBase + (has_reth_ ? kRethSize : 0) + (has_aeth_ ? kAethSize : 0); }

  // Writes size() bytes, the same as emit_headers() for the packet.
  void emit(const Own& own, std::size_t pad, std::byte* out) const {
    std::memcpy(out, shared_.data(), kBase);
    out[1] |= (own.solicited ? kSolicited : std::byte{0}) | std::byte(pad << 4);
    store_be32(out + 8, (own.ack_request ? 0x8000'0000 : 0) | own.psn.value());
    store_be32(out + kBthSize + 4, path_ | own.msn);
    store_be32(out + kBthSize + 8, own.rsn);
    store_be32(out + kBthSize + 12, own.packet_index);
    if (has_reth_) emit_reth(own.reth, out + kBase);
    if (has_aeth_) std::memcpy(out + kBase, shared_.data() + kBase, kAethSize);
  }

 private:
  static constexpr std::size_t kBase = kBthSize + kBxthSize;
  static constexpr std::byte kSolicited{0x80}, kPad{0x30};  // of BTH's second byte
  std::array<std::byte, kBase + kAethSize> shared_{};
  std::uint32_t path_ = 0;  // as its word has it
  bool has_reth_ = false, has_aeth_ = false;
};

// Likewise for a run of MIDDLE packets of one message, which differ in PSN, index and address only. None is solicited
// or padded.
class MiddleHeaders {
 public:
  // `any`: of one of them.
  MiddleHeaders(const RunHeaders& headers, const RunHeaders::Own& any)
      : size_(headers.size()), has_reth_(headers.has_reth()) {
    headers.emit(any, 0, image_.data());
  }
  [[nodiscard]] std::size_t size() const { return size_; }

  static constexpr std::size_t kWritten = 64;  // a size that is copied without a loop
  // Writes kWritten bytes; the first size() equal RunHeaders::emit()'s.
  void emit(const RunHeaders::Own& own, std::byte* out) const {
    std::memcpy(out, image_.data(), kWritten);
    store_be32(out + 8, (own.ack_request ? 0x8000'0000 : 0) | own.psn.value());
    store_be32(out + kBthSize + 12, own.packet_index);
    if (has_reth_) store_be64(out + kBthSize + kBxthSize, own.reth.address);
  }

 private:
  static_assert(kWritten >= kBthSize + kBxthSize + kRethSize);
  std::array<std::byte, kWritten> image_{};
  std::size_t size_;
  bool has_reth_;
};

}  // namespace brdma::wire
