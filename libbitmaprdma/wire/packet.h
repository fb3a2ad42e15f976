// wire/packet.h - one RoCEv2 packet (a UDP payload) as a value, and back to bytes.
// parse_packet() checks everything that needs no queue pair: sizes, versions, P_Key, opcode, pad. It does not check the
// ICRC (wire/crc/icrc.h), which needs addresses. Errors are the peer's: a DropReason, never an assertion. In this
// order:
//   kTruncated      shorter than BTH + ICRC, or than the headers of its opcode; a control packet without a first word,
//                   or that ends before its token;
//                   after the version: shorter than with the piggybacked ACK that BXTH announces
//   kBadVersion     BTH's version is not 0; BXTH's or a control packet's is not ours
//   kUnknownOpcode  not RC, UC, UD, XRC, bitmap mode or a control packet that we know
//   kBadPkey        the low 15 bits of the P_Key are not the default partition's
//   kBadControl     a piggybacked ACK whose syndrome is no acknowledgement
//   kBadLength      not a multiple of four bytes, more pad than payload, payload or pad where the opcode has none
// Checks against the path MTU, the message or the region are the queue pair's: those get a NAK.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/bytes.h"
#include "base/result.h"
#include "trace/drop_reason.h"
#include "wire/headers.h"
#include "wire/opcode.h"

namespace brdma::wire {

// The opcode determines which members beside `bth` and `payload` are valid (opcode_shape); the others are zero.
struct Packet {
  Bth bth;
  bool bitmap = false;    // opcode 0xC0..0xDF: bxth is there
  bool control = false;   // opcode 0xE0..: payload is the control packet's body, to be parsed by wire/control.h
  RcOp op{};              // all but control packets: low five bits
  std::uint32_t srq = 0;  // XRC requests: XRCETH, the number of a shared receive queue, 24 bits
  Bxth bxth;              // of a CNP only the token, when it is written
  Piggyback piggyback;    // where bxth.piggyback says so
  Deth deth;              // UD
  Feth feth;              // FLUSH
  Reth reth;              // READ request, ATOMIC WRITE, FLUSH; WRITE first/only; bitmap mode: every WRITE packet
  Aeth aeth;              // acknowledgements, READ responses (standard: not the middle ones)
  AtomicEth atomic;
  std::uint64_t atomic_original = 0;  // atomic acknowledge
  std::uint32_t immediate_be = 0;
  std::uint32_t invalidate_rkey = 0;
  ConstBytes payload;  // pad and ICRC taken off
};

[[nodiscard]] Result<Packet, DropReason> parse_packet(ConstBytes udp_payload);
// The same without the Result: nullopt = done. `packet` must be new; after an error it is part-filled.
[[nodiscard]] std::optional<DropReason> parse_packet_into(ConstBytes udp_payload, Packet& packet);

// Writes the headers of bth.opcode (BTH, BXTH, RETH, ...; ignores `bitmap`, `control` and `op`), not payload, pad or
// ICRC. Returns their size. bth.pad must be right already. `out` holds at least kPacketHeadersMax bytes.
inline constexpr std::size_t kPacketHeadersMax = 112;
std::size_t emit_headers(const Packet& packet, std::byte* out);
// The size that emit_headers will write.
[[nodiscard]] inline std::size_t headers_size(const Packet& packet) {
  const OpcodeShape& shape = opcode_shape(packet.bth.opcode);
  return shape.headers_size + (shape.has(OpcodeShape::kBxth) && packet.bxth.piggyback ? kPiggybackSize : 0);
}

// The token of a packet whose opcode has one (OpcodeShape::kToken). Precondition: parse_packet() accepted it.
[[nodiscard]] inline std::uint64_t token_of(ConstBytes udp_payload) {
  return load_be64(udp_payload.data() + kBthSize + kTokenOffset);
}
// Its sender's QPN.
[[nodiscard]] inline std::uint32_t source_qpn_of(ConstBytes udp_payload) {
  return load_be32(udp_payload.data() + kBthSize) & 0xFF'FFFF;
}
// In the reserved bytes of a CNP: 0 where its sender speaks standard packets.
[[nodiscard]] inline std::uint64_t cnp_token_of(ConstBytes udp_payload) {
  return load_be64(udp_payload.data() + kBthSize);
}

namespace internal {

template <class... Ops>
[[nodiscard]] constexpr bool one_of(RcOp op, Ops... ops) {
  const std::uint32_t set = (... | (std::uint32_t{1} << static_cast<unsigned>(ops)));
  return ((set >> static_cast<unsigned>(op)) & 1) != 0;
}

}  // namespace internal

[[nodiscard]] constexpr bool is_send(RcOp op) {
  return op <= RcOp::kSendOnlyImm || op == RcOp::kSendLastInvalidate || op == RcOp::kSendOnlyInvalidate;
}
[[nodiscard]] constexpr bool is_write(RcOp op) { return op >= RcOp::kWriteFirst && op <= RcOp::kWriteOnlyImm; }
[[nodiscard]] constexpr bool is_read_response(RcOp op) {
  return op >= RcOp::kReadResponseFirst && op <= RcOp::kReadResponseOnly;
}
// Carries the result of a request, from responder to requester.
[[nodiscard]] constexpr bool is_answer(RcOp op) { return is_read_response(op) || op == RcOp::kAtomicAcknowledge; }
[[nodiscard]] constexpr bool is_atomic(RcOp op) { return op == RcOp::kCompareSwap || op == RcOp::kFetchAdd; }
// Answered by an empty READ response of the request's own PSN, after execution.
[[nodiscard]] constexpr bool is_confirmed(RcOp op) { return op == RcOp::kAtomicWrite || op == RcOp::kFlush; }
// A request that its response acknowledges.
[[nodiscard]] constexpr bool is_answered(RcOp op) {
  return op == RcOp::kReadRequest || is_atomic(op) || is_confirmed(op);
}
// Travels from requester to responder.
[[nodiscard]] constexpr bool is_request(RcOp op) { return is_send(op) || is_write(op) || is_answered(op); }
// Of a message, or of the responses to a READ.
[[nodiscard]] constexpr bool is_first_or_only(RcOp op) {
  return internal::one_of(op, RcOp::kSendFirst, RcOp::kSendOnly, RcOp::kSendOnlyImm, RcOp::kSendOnlyInvalidate,
                          RcOp::kWriteFirst, RcOp::kWriteOnly, RcOp::kWriteOnlyImm, RcOp::kReadRequest,
                          RcOp::kReadResponseFirst, RcOp::kReadResponseOnly, RcOp::kAcknowledge,
                          RcOp::kAtomicAcknowledge, RcOp::kCompareSwap, RcOp::kFetchAdd, RcOp::kFlush,
                          RcOp::kAtomicWrite);
}
[[nodiscard]] constexpr bool is_last_or_only(RcOp op) {
  return internal::one_of(op, RcOp::kSendLast, RcOp::kSendLastImm, RcOp::kSendLastInvalidate, RcOp::kSendOnly,
                          RcOp::kSendOnlyImm, RcOp::kSendOnlyInvalidate, RcOp::kWriteLast, RcOp::kWriteLastImm,
                          RcOp::kWriteOnly, RcOp::kWriteOnlyImm, RcOp::kReadRequest, RcOp::kReadResponseLast,
                          RcOp::kReadResponseOnly, RcOp::kAcknowledge, RcOp::kAtomicAcknowledge, RcOp::kCompareSwap,
                          RcOp::kFetchAdd, RcOp::kFlush, RcOp::kAtomicWrite);
}
[[nodiscard]] constexpr bool has_invalidate(RcOp op) {
  return op == RcOp::kSendLastInvalidate || op == RcOp::kSendOnlyInvalidate;
}
[[nodiscard]] constexpr bool has_immediate(RcOp op) {
  return internal::one_of(op, RcOp::kSendLastImm, RcOp::kSendOnlyImm, RcOp::kWriteLastImm, RcOp::kWriteOnlyImm);
}

}  // namespace brdma::wire
