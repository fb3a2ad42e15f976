// wire/edn.h - explicit drop notification (EDN, DN-7): a switch names dropped packets to their sender. Two forms,
// docs/reference/wire.md#edn:
//   control packet   opcode 0xE3; IPv6, hosts without the right to a raw socket
//   ICMP             source quench (RFC 792, type 4), IPv4: quotes the beginning of the first dropped packet
// Bytes only. Do not trust the contents before comparing them with the outstanding packets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "base/ip_address.h"
#include "base/psn.h"
#include "base/units.h"
#include "wire/headers.h"

namespace brdma::wire {

// The contents of both forms. The dropped packets went from `source` to `destination`, queue pair `destination_qpn`.
struct Edn {
  Psn first, last;                    // all from `first` to `last` were dropped
  bool responses = false;             // READ responses: their PSNs belong to the other side's requests
  bool acknowledgement = false;       // or an acknowledgement, or feedback: its PSN likewise
  std::uint32_t destination_qpn = 0;  // of the dropped packets
  std::uint8_t path = 0;
  Duration drain{};  // until the full queue is empty: below 4.3 s; by ICMP in microseconds, up to 65 ms
  // The timestamp in the first dropped packet (Bxth::timestamp): identifies the transmission.
  std::optional<std::uint64_t> timestamp{};
  // The token in the first dropped packet, of bitmap mode: proves that the notifier has seen that packet.
  std::optional<std::uint64_t> token{};
};

// --- as a control packet ---
// BTH.psn is `first`, BTH's destination the sender's QPN. Body 32 bytes; nullopt: impossible contents (kBadControl).
inline constexpr std::size_t kEdnSize = 32;
[[nodiscard]] std::optional<Edn> parse_edn(ConstBytes body, Psn bth_psn);
std::size_t emit_edn(const Edn& edn, std::byte* out);

// --- as ICMP ---
// The message after the IP header: type 4, code 0, checksum, 16 bits packets less one, 16 bits drain time in
// microseconds (65535: that or more). Then the dropped packet's beginning: IPv4 header, UDP header, BTH, and BXTH where
// there is one, or as much of a control packet. A router's message by RFC 1812 is read as well: zeros there mean one
// packet and an unknown time.
inline constexpr std::size_t kIcmpHeaderSize = 8;
inline constexpr std::size_t kQuoteMax = kIpv6Size + kUdpSize + kBthSize + kBxthSize;
struct IcmpEdn {
  Edn edn;
  IpAddress source, destination;            // of the packets that were dropped
  std::uint16_t source_port = 0;            // the UDP port of their sender
  std::optional<std::uint32_t> source_qpn;  // of their sender: bitmap mode and control packets only
};
// nullopt: not a source quench about RoCE, or its checksum is wrong, or it quotes too little.
[[nodiscard]] std::optional<IcmpEdn> parse_icmp_edn(ConstBytes icmp);
// `quote`: the dropped packet from its IPv4 header on, at most kQuoteMax are used. `count` packets, 1..65536. `out`
// holds kIcmpHeaderSize + kQuoteMax. Returns the size.
std::size_t emit_icmp_edn(ConstBytes quote, std::uint32_t count, Duration drain, std::byte* out);

}  // namespace brdma::wire
