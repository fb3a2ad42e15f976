// io/xdp_protocol.h - how a process with a lease asks brdmad for an AF_XDP socket, and what it gets. Over a connection
// of its own to "@brdmad" (io/lease_protocol.h): an XdpRequest, answered by an XdpReply with three descriptors attached
// when error is 0: the socket, bound to a queue; the memory behind its rings' addresses (UMEM), to be mapped shared;
// and the link that holds the XDP program to the interface, to be kept open while the socket is used and for nothing
// else. Numbers in host order. Versioned by kXdpVersion.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace brdma::io {

inline constexpr std::uint32_t kXdpMagic = 0x58445242;  // "BRDX" in memory
inline constexpr std::uint16_t kXdpVersion = 1;
inline constexpr std::size_t kXdpDescriptors = 3;

// Linux's limit is a page; what it leaves of a chunk for a packet is kXdpHeadroom less.
inline constexpr std::uint32_t kXdpChunkBytes = 4096;
inline constexpr std::uint32_t kXdpHeadroom = 256;
inline constexpr std::uint32_t kXdpFrameHeaders = 160;  // more than Ethernet, IPv6, UDP and all of RoCE's take

enum class XdpMode : std::uint32_t { kAny, kZeroCopy, kNative, kGeneric };

struct XdpRequest {
  std::uint32_t magic = kXdpMagic;
  std::uint16_t version = kXdpVersion;
  std::uint16_t reserved = 0;
  std::uint64_t lease_id = 0;
  std::uint32_t slot = 0;
  XdpMode mode = XdpMode::kAny;      // kAny: the first of the three that works
  std::uint32_t receive_chunks = 0;  // a power of two: entries of the fill and the receive ring
  std::uint32_t reserved2 = 0;
};

struct XdpReply {
  std::uint32_t magic = kXdpMagic;
  std::uint16_t version = kXdpVersion;
  std::uint16_t reserved = 0;
  std::int32_t error = 0;
  XdpMode mode = XdpMode::kAny;
  std::uint32_t queue = 0;
  std::uint32_t receive_chunks = 0;
  std::array<std::uint32_t, 2> reserved2{};
  std::array<char, 256> message{};  // why not, and what to do, when error is not 0
};

static_assert(std::is_trivially_copyable_v<XdpRequest> && sizeof(XdpRequest) == 32);
static_assert(std::is_trivially_copyable_v<XdpReply> && sizeof(XdpReply) == 288);

}  // namespace brdma::io
