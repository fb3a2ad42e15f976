// wire/stopped_peer.h - is the process behind a silent queue pair only stopped? Asked of its host; docs/wire.md:
//   query   opcode 0xE6, from a requester to QP 1 of its peer's host
//   reply   opcode 0xE7, from there to the requester's queue pair; "it is stopped" is all that a reply says
// Both bodies have 24 bytes: who forges the source of a query has no more sent to his victim than he sends himself.
// Bytes only. A reply is not to be believed before its nonce was compared with what was asked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/bytes.h"
#include "wire/headers.h"

namespace brdma::wire {

struct StoppedQuery {
  std::uint32_t source_qpn = 0;  // who asks: the reply is addressed to it
  std::uint32_t peer_qpn = 0;    // whose process is meant
  std::uint64_t nonce = 0;
  std::uint32_t silent_ms = 0;  // for how long nothing was acknowledged: a process that is younger is another one
  friend bool operator==(const StoppedQuery&, const StoppedQuery&) = default;
};
struct StoppedReply {
  std::uint32_t peer_qpn = 0;  // echoes the query, as does the nonce
  std::uint64_t nonce = 0;
  friend bool operator==(const StoppedReply&, const StoppedReply&) = default;
};

// Bodies (after BTH, before ICRC), as parse_packet() leaves them. nullopt: too short (kBadControl).
inline constexpr std::size_t kStoppedQuerySize = 24, kStoppedReplySize = 24;
static_assert(kStoppedReplySize <= kStoppedQuerySize);
[[nodiscard]] std::optional<StoppedQuery> parse_stopped_query(ConstBytes body);
[[nodiscard]] std::optional<StoppedReply> parse_stopped_reply(ConstBytes body);
std::size_t emit_stopped_query(const StoppedQuery& query, std::byte* out);
std::size_t emit_stopped_reply(const StoppedReply& reply, std::byte* out);

// For who serves QP 1. The query in a UDP payload that was sent there; nullopt: it is something else. The ICRC, which
// needs addresses, is not looked at.
[[nodiscard]] std::optional<StoppedQuery> parse_stopped_query_packet(ConstBytes udp_payload);
// Everything but the ICRC, whose place is left zero. `asker_qpn`: StoppedQuery::source_qpn.
inline constexpr std::size_t kStoppedReplyPacketSize = kBthSize + kStoppedReplySize + kIcrcSize;
void emit_stopped_reply_packet(const StoppedReply& reply, std::uint32_t asker_qpn,
                               std::span<std::byte, kStoppedReplyPacketSize> out);

}  // namespace brdma::wire
