// io/xdp/xdp_abi.h - the parts of Linux's AF_XDP interface that older systems' headers lack.
#pragma once

#include <linux/if_xdp.h>
#include <sys/socket.h>

#include <cstdint>

namespace brdma::io {

inline constexpr std::uint16_t kXdpUseMultiBuffer = 1u << 4;  // XDP_USE_SG, Linux 6.6: a packet may take several chunks
inline constexpr std::uint32_t kXdpPacketContinues = 1u << 0;  // XDP_PKT_CONTD, in a descriptor's options

// A socket option, Linux 6.17: descriptors that one system call sends; at least 32 (as older ones), at most the
// ring.
inline constexpr int kXdpMaxTxBudget = 9;  // XDP_MAX_TX_SKB_BUDGET

}  // namespace brdma::io
