// control/xdp_mode.h - a driver's mode of serving an AF_XDP socket (docs/explanation/datapath.md): requested and
// obtained.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace brdma::control {

// Fixed width and values: part of brdmad's messages (io/xdp/xdp_protocol.h).
enum class XdpMode : std::uint32_t {
  kAuto,      // wanted: the first of the others that works
  kZeroCopy,  // the network card and the program share the memory
  kNative,    // the driver's hook, packets are copied
  kGeneric,   // the network stack's hook, packets are copied
};
inline constexpr std::array<std::string_view, 4> kXdpModeNames{"auto", "zerocopy", "native", "generic"};

}  // namespace brdma::control
