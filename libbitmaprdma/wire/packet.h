// wire/packet.h - one RoCEv2 packet (a UDP payload) as a value, and back to bytes.
// parse_packet() checks everything that needs no queue pair: sizes, versions, P_Key, opcode, pad. It does not check the
// ICRC (wire/icrc.h), which needs addresses. Errors are the peer's: a DropReason, never an assertion.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "base/result.h"
#include "trace/drop_reason.h"
#include "wire/headers.h"
#include "wire/opcode.h"

namespace brdma::wire {

// Which members beside `bth` and `payload` are meaningful follows from the opcode: has_reth(op) etc. in packet.cc.
struct Packet {
  Bth bth;
  bool bitmap = false;   // opcode 0xC0..0xDF: bxth is there
  bool control = false;  // opcode 0xE0..: payload is the control packet's body, to be parsed by wire/control.h
  RcOp op{};             // RC and bitmap packets: low five bits
  Bxth bxth;
  Reth reth;  // READ request; WRITE first/only; bitmap mode: every WRITE packet
  Aeth aeth;  // acknowledgements, READ responses first/last/only
  AtomicEth atomic;
  std::uint64_t atomic_original = 0;  // atomic acknowledge
  std::uint32_t immediate_be = 0;
  std::uint32_t invalidate_rkey = 0;
  ConstBytes payload;  // pad and ICRC taken off
};

[[nodiscard]] Result<Packet, DropReason> parse_packet(ConstBytes udp_payload);

// Writes the headers that `packet`'s opcode has (BTH, BXTH, RETH, ...), not payload, pad or ICRC; answers their size.
// bth.pad must be right already. `out` holds at least kPacketHeadersMax bytes.
inline constexpr std::size_t kPacketHeadersMax = 72;
std::size_t emit_headers(const Packet& packet, std::byte* out);
// The size that emit_headers will write.
[[nodiscard]] std::size_t headers_size(const Packet& packet);

[[nodiscard]] bool is_request(RcOp op);
[[nodiscard]] bool is_first_or_only(RcOp op);
[[nodiscard]] bool is_last_or_only(RcOp op);
[[nodiscard]] bool is_send(RcOp op);
[[nodiscard]] bool is_write(RcOp op);
[[nodiscard]] bool is_read_response(RcOp op);
[[nodiscard]] bool has_immediate(RcOp op);

}  // namespace brdma::wire
