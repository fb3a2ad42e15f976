// io/cm/cm_protocol.h - protocol between a process with RDMA-CM identifiers and brdmad, over its own connection to
// "@brdmad" (io/daemon/lease_protocol.h has the other protocols; the first byte selects).
//
// The process sends a CmHello, then both send CmFrames. A frame with a number is a question, answered by a frame of the
// same kind and number. kMad has none and goes both ways, kCounters goes one way. brdmad owns UDP port 4791's QP 1 and
// RDMA-CM's ports. It passes a MAD on by the service id's port, or by the id prefix of the process that it answers.
// When the connection ends, the process's ports are released. Numbers in host order: both ends are on one machine.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/ip_address.h"
#include "cm/config.h"

namespace brdma::io {

inline constexpr std::uint32_t kCmMagic = 0x43445242;  // "BRDC" in memory
inline constexpr std::uint16_t kCmVersion = 3;

struct CmHello {
  std::uint32_t magic = kCmMagic;
  std::uint16_t version = kCmVersion;
  std::uint16_t prefix = 0;  // of ids still in use; 0: any
  std::uint32_t pid = 0;     // for display only, as is the name
  std::array<char, 16> program{};
};

enum class CmFrameKind : std::uint16_t {
  kHello = 1,        // answer: error, prefix
  kTakePort = 2,     // space, local, port (0: any), flags; answer: error, port
  kListenPort = 3,   // space, local, port; answer: error
  kReleasePort = 4,  // space, local, port, flags; answer: error
  kMad = 5,          // local, remote, scope, mad
  kCounters = 6      // to brdmad: the process's cm::Counters, in place of the mad
};

// The first two are kTakePort's; the last is kReleasePort's: it was listened on (several claims may look alike).
inline constexpr std::uint8_t kCmReusePort = 1, kCmIpv6Only = 2, kCmListening = 4;

struct CmFrame {
  CmFrameKind kind{};
  std::uint16_t port = 0;
  std::uint32_t number = 0;
  std::int32_t error = 0;  // errno value
  std::uint16_t prefix = 0;
  std::uint8_t space = 0;  // wire::PortSpace
  std::uint8_t flags = 0;
  std::uint32_t scope = 0;  // interface index of link-local addresses; 0 with others
  IpAddress local{}, remote{};
  std::array<std::byte, 256> mad{};
};

static_assert(std::is_trivially_copyable_v<cm::Counters> && sizeof(cm::Counters) <= sizeof CmFrame{}.mad);
static_assert(std::is_trivially_copyable_v<CmHello> && sizeof(CmHello) == 28);
static_assert(std::is_trivially_copyable_v<CmFrame> && sizeof(CmFrame) == 308);

}  // namespace brdma::io
