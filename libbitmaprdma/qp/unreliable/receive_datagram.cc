// A UD packet: a message of its own, with its IP header.
#include <array>
#include <cstring>

#include "qp/unreliable/unreliable_receive.h"

namespace brdma::qp {
namespace {

constexpr std::size_t kGrhSize = 40;
constexpr std::uint8_t kProtocolUdp = 17;
constexpr std::uint8_t kHopLimit = 64;  // a UDP socket does not show it
// UCX's reading of a completion's service level (low three bits: 2 = RoCEv2 over IPv4, 1 = over IPv6; bit 3: with UDP
// header). Nobody else looks at it: RoCEv2 has no service levels.
constexpr std::uint8_t kServiceLevelV4 = 0xA, kServiceLevelV6 = 0x9;

using Grh = std::array<std::byte, kGrhSize>;

std::uint16_t ipv4_checksum(const std::byte* header) {
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < wire::kIpv4Size; i += 2) sum += load_be16(header + i);
  sum = (sum & 0xFFFF) + (sum >> 16);
  return static_cast<std::uint16_t>(~(sum + (sum >> 16)));
}

// IBTA A17.4.5.2: an IPv4 header stands in the last 20 bytes, behind zeros. Its valid checksum distinguishes it from an
// IPv6 header.
void put_ipv4(Grh& grh, const Datagram& datagram) {
  std::byte* const header = grh.data() + kGrhSize - wire::kIpv4Size;
  constexpr std::uint8_t kVersionAndLength = 0x45;
  constexpr std::uint16_t kDontFragment = 0x4000;
  store_u8(header, kVersionAndLength);
  store_u8(header + 1, datagram.traffic_class);
  store_be16(header + 2, static_cast<std::uint16_t>(wire::kIpv4Size + wire::kUdpSize + datagram.bytes.size()));
  store_be16(header + 6, kDontFragment);
  store_u8(header + 8, kHopLimit);
  store_u8(header + 9, kProtocolUdp);
  std::memcpy(header + 12, &datagram.source.bytes[12], 4);
  std::memcpy(header + 16, &datagram.destination.bytes[12], 4);
  store_be16(header + 10, ipv4_checksum(header));
}

void put_ipv6(Grh& grh, const Datagram& datagram) {
  std::byte* const header = grh.data();
  constexpr std::uint32_t kVersion = 6u << 28;
  store_be32(header, kVersion | (std::uint32_t{datagram.traffic_class} << 20));
  store_be16(header + 4, static_cast<std::uint16_t>(wire::kUdpSize + datagram.bytes.size()));
  store_u8(header + 6, kProtocolUdp);
  store_u8(header + 7, kHopLimit);
  std::memcpy(header + 8, datagram.source.bytes.data(), 16);
  std::memcpy(header + 24, datagram.destination.bytes.data(), 16);
}

}  // namespace

Outcome UnreliableReceiver::take_datagram(const wire::Packet& packet, const Datagram& datagram, Instant now) {
  const auto drop = [this](DropReason reason) {
    env_.drop(reason);
    return Outcome{};
  };
  if (packet.deth.qkey != id_.attributes.qkey) return drop(DropReason::kBadQkey);
  if (!receives_.has(0)) return drop(DropReason::kNoReceive);
  const std::uint64_t bytes = kGrhSize + packet.payload.size();
  if (bytes > receives_[0].bytes) return drop(DropReason::kBadLength);
  Grh grh{};
  const bool v4 = datagram.source.is_v4();
  v4 ? put_ipv4(grh, datagram) : put_ipv6(grh, datagram);
  auto fault = receives_.scatter(env_.memory, id_.pd, 0, 0, grh);
  if (fault == memory::Fault::kNone) fault = receives_.scatter(env_.memory, id_.pd, 0, kGrhSize, packet.payload);
  Completion completion{.byte_length = static_cast<std::uint32_t>(bytes),
                        .source_qp = packet.deth.source_qpn,
                        .flags = kCompletionWithGrh,
                        .sl = v4 ? kServiceLevelV4 : kServiceLevelV6};
  if (fault != memory::Fault::kNone) completion.status = CompletionStatus::kLocalProtectionError;
  return complete(packet, completion, now);
}

}  // namespace brdma::qp
