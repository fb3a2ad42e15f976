// wire/stopped_peer.h - asks the peer's host whether the process of a silent queue pair is only stopped;
// docs/reference/wire.md:
//   query   opcode 0xE6, from a requester to QP 1 of its peer's host
//   reply   opcode 0xE7, from there to the requester's queue pair; it means "the process is stopped"
// Both bodies have 24 bytes: a query with a forged source cannot amplify traffic to a victim.
// Bytes only. Do not trust a reply before comparing its nonce with the query's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/bytes.h"
#include "wire/headers.h"

namespace brdma::wire {

struct StoppedQuery {
  std::uint32_t source_qpn = 0;  // the querier: the reply is addressed to it
  std::uint32_t peer_qpn = 0;    // of the queue pair whose process is meant
  std::uint64_t nonce = 0;
  std::uint32_t silent_ms = 0;  // time since the last acknowledgement: a younger process is another one
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

// For the server of QP 1: the query in a UDP payload sent there; nullopt: something else. The ICRC, which needs
// addresses, is not checked.
[[nodiscard]] std::optional<StoppedQuery> parse_stopped_query_packet(ConstBytes udp_payload);
// Everything but the ICRC, which is left zero. `asker_qpn`: StoppedQuery::source_qpn.
inline constexpr std::size_t kStoppedReplyPacketSize = kBthSize + kStoppedReplySize + kIcrcSize;
void emit_stopped_reply_packet(const StoppedReply& reply, std::uint32_t asker_qpn,
                               std::span<std::byte, kStoppedReplyPacketSize> out);

}  // namespace brdma::wire
