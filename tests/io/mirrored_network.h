// tests/io/mirrored_network.h - a network for tests whose two sides live in one process: an interface with eight queues
// that returns every packet, as if lo had a driver. lo itself cannot have AF_XDP sockets that send to it, and has one
// queue, so room for one such socket.
//
//   test --(routes of table 100)--> mirrored ==veth== mirror --(BPF: queue of the destination's slot)--> mirrored
//
// Needs root. One in a process, in the network namespace that it was entered in.
#pragma once

#include <cstdint>
#include <string>

namespace brdma::test {

enum class Entered : std::uint8_t { kYes, kNotAllowed, kFailed };

// Like enter_private_network(), with the interface beside lo. kNotAllowed: not root, or a kernel without AF_XDP on
// veth.
[[nodiscard]] Entered enter_mirrored_network();

// From now on packets for that slot's queue pairs come back by this queue; those of other slots by the first.
void mirror_slot(std::uint32_t slot, std::uint32_t queue);
// Likewise, for all slots that brdmad has steered to AF_XDP sockets by now. Returns how many are new since the last
// call.
unsigned mirror_steered_slots();
// Loses that fraction of all packets.
void mirror_loses(double part);

// RoCE packets of IPv4 that the mirror has seen, without RDMA-CM's: packets of AF_XDP, which have no UDP checksum
// (docs/explanation/datapath.md), and those of UDP sockets. With several cores at once a few are missed.
struct MirroredPackets {
  std::uint32_t by_xdp = 0, by_udp = 0;
};
[[nodiscard]] MirroredPackets mirrored_packets();

}  // namespace brdma::test
