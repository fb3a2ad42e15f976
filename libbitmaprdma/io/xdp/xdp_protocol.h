// io/xdp/xdp_protocol.h - how a process with a lease asks brdmad for an AF_XDP socket, and what it gets. Over a
// connection of its own to "@brdmad" (io/daemon/lease_protocol.h): an XdpRequest, answered by an XdpReply with
// descriptors attached when error is 0: the socket, bound to a queue; the memory behind its rings' addresses (UMEM), to
// be mapped shared; and from a daemon of one user the link that holds the XDP program to the interface, to be kept open
// while the socket is used and for nothing else (there is none where it asked for none to receive). Numbers in host
// order. Versioned by kXdpVersion.
//
// Who transmits by AF_XDP can put any frame on the network, so brdmad asks for the right to that: where
// transmit_chunks is not 0 it sends the byte kXdpShowRight first and takes a byte back, with a packet socket attached
// (packet(7)) if the process can make one. Having such a socket of brdmad's network namespace is the right.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "control/xdp_mode.h"

namespace brdma::io {

inline constexpr std::uint32_t kXdpMagic = 0x58445242;  // "BRDX" in memory
inline constexpr std::uint16_t kXdpVersion = 2;
inline constexpr std::size_t kXdpDescriptors = 3;

// Linux's limit is a page; what it leaves of a chunk for a packet is kXdpHeadroom less.
inline constexpr std::uint32_t kXdpChunkBytes = 4096;
inline constexpr std::uint32_t kXdpHeadroom = 256;
inline constexpr std::uint32_t kXdpFrameHeaders = 160;  // more than Ethernet, IPv6, UDP and all of RoCE's take

// The last chunks of the memory are to transmit from: room for any batch (two chunks a packet), and as much again.
inline constexpr std::uint32_t kXdpTransmitChunks = 256;
inline constexpr char kXdpShowRight = 'R';

using control::XdpMode;

struct XdpRequest {
  std::uint32_t magic = kXdpMagic;
  std::uint16_t version = kXdpVersion;
  std::uint16_t reserved = 0;
  std::uint64_t lease_id = 0;
  std::uint32_t slot = 0;
  XdpMode mode = XdpMode::kAuto;      // kAuto: the first of the three that works
  std::uint32_t receive_chunks = 0;   // a power of two: entries of the fill and the receive ring; 0: not to receive
  std::uint32_t transmit_chunks = 0;  // likewise of the transmit and the completion ring
};

struct XdpReply {
  std::uint32_t magic = kXdpMagic;
  std::uint16_t version = kXdpVersion;
  std::uint16_t reserved = 0;
  std::int32_t error = 0;
  XdpMode mode = XdpMode::kAuto;
  std::uint32_t queue = 0;
  std::uint32_t receive_chunks = 0;
  std::uint32_t transmit_chunks = 0;  // 0: not asked for, or no right to it; then `message` says so
  std::uint32_t reserved2 = 0;
  std::array<char, 256> message{};  // why not, and what to do, when error is not 0 or something is missing
};

static_assert(std::is_trivially_copyable_v<XdpRequest> && sizeof(XdpRequest) == 32);
static_assert(std::is_trivially_copyable_v<XdpReply> && sizeof(XdpReply) == 288);

}  // namespace brdma::io
