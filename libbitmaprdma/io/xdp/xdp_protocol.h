// io/xdp/xdp_protocol.h - a lessee's request to brdmad for an AF_XDP socket. Over its own connection to "@brdmad"
// (io/daemon/lease_protocol.h): an XdpRequest, answered by an XdpReply with descriptors attached when error is 0. They
// are: the socket, bound to a queue; the memory behind its rings' addresses (UMEM), to be mapped shared; and from a
// daemon of one user the link that attaches the XDP program to the interface. The process only keeps the link open
// while the socket is used (there is none without receiving). Numbers in host order. Versioned by kXdpVersion.
//
// An AF_XDP transmitter can put any frame on the network, so brdmad checks the right to that. If transmit_chunks is not
// 0, it sends the byte kXdpShowRight first and takes a byte back, with a packet socket attached (packet(7)) if the
// process can make one. Having such a socket of brdmad's network namespace is the right.
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

// Linux's limit is a page; a packet gets kXdpHeadroom less of a chunk.
inline constexpr std::uint32_t kXdpChunkBytes = 4096;
inline constexpr std::uint32_t kXdpHeadroom = 256;
inline constexpr std::uint32_t kXdpFrameHeaders = 160;  // more than Ethernet, IPv6, UDP and all RoCE headers

// The last chunks of the memory are for transmission: room for any batch (two chunks a packet), and as much again.
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
  std::uint32_t transmit_chunks = 0;  // 0: not requested, or no right to it; then `message` says so
  std::uint32_t reserved2 = 0;
  std::array<char, 256> message{};  // fault and remedy, when error is not 0 or something is missing
};

static_assert(std::is_trivially_copyable_v<XdpRequest> && sizeof(XdpRequest) == 32);
static_assert(std::is_trivially_copyable_v<XdpReply> && sizeof(XdpReply) == 288);

}  // namespace brdma::io
