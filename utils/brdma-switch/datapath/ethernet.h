// utils/brdma-switch/datapath/ethernet.h - offsets and types of an Ethernet II frame without tags.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fabric/routing/frame.h"

namespace brdma::lab {

inline constexpr std::size_t kEtherType = 12;                    // offset of the type
inline constexpr std::size_t kIp = fabric::kEthernetHeaderSize;  // offset of the IP header
inline constexpr std::uint16_t kEtherIpv4 = 0x0800, kEtherIpv6 = 0x86DD;

}  // namespace brdma::lab
