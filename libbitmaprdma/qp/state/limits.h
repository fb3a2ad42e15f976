// qp/state/limits.h - limits of a queue pair; create_qp returns EINVAL beyond. A provider reports these.
#pragma once

#include <cstdint>

#include "base/units.h"

namespace brdma::qp {

inline constexpr std::uint32_t kWorkRequestsMax = 16384;     // of each queue
inline constexpr std::uint32_t kSgesMax = 32;                // of one work request
inline constexpr std::uint32_t kInlineBytesMax = 1024;       // of one work request
inline constexpr std::uint32_t kRdAtomicMax = 128;           // READs and atomics outstanding, either direction
inline constexpr std::uint32_t kMessageBytesMax = 1u << 30;  // at MTU 256 still a quarter of the PSN space
// If a rate replaces the window: TIMELY's segment, which gives one RTT sample (its section 5).
inline constexpr std::uint64_t kBytesPerSample = 64 * 1024;
// Local transfer by reference: largest reference of a packet, and how many such packets a queue pair has in flight. So
// a receiver is never busy for long before it acknowledges, nor waits for the next ones.
inline constexpr std::uint32_t kFetchBytesMax = 64 * 1024;
inline constexpr std::uint32_t kFetchesInFlight = 16;
inline constexpr std::uint32_t kFetchPieceBytesMin = 512;  // on average: smaller pieces are sent
// A message without a posted receive, from a standard peer: it counts its timeouts, and may have short ones.
inline constexpr Duration kStandardRnrHoldMax = 1_ms;
inline constexpr std::uint32_t kReadChunkBytesMax = 128 * 1024;  // of one READ request on the wire

}  // namespace brdma::qp
