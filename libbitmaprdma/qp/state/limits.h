// qp/state/limits.h - the most that a queue pair grants; create_qp answers EINVAL beyond. A provider reports these.
#pragma once

#include <cstdint>

#include "base/units.h"

namespace brdma::qp {

inline constexpr std::uint32_t kWorkRequestsMax = 16384;     // of each queue
inline constexpr std::uint32_t kSgesMax = 32;                // of one work request
inline constexpr std::uint32_t kInlineBytesMax = 1024;       // of one work request
inline constexpr std::uint32_t kRdAtomicMax = 128;           // READs and atomics outstanding, either direction
inline constexpr std::uint32_t kMessageBytesMax = 1u << 30;  // at MTU 256 still a quarter of the PSN space
// Where a rate takes the window's place: TIMELY's segment, of which each makes a sample (its section 5).
inline constexpr std::uint64_t kBytesPerSample = 64 * 1024;
// Of data that is fetched from memory: what one packet describes at most, and how many such a queue pair has under way,
// so that a receiver is never busy for long before it acknowledges, nor waits for the next ones.
inline constexpr std::uint32_t kFetchBytesMax = 64 * 1024;
inline constexpr std::uint32_t kFetchesInFlight = 16;
inline constexpr std::uint32_t kFetchPieceBytesMin = 512;  // on average: smaller pieces are sent
// A message for which no receive is posted, from a standard peer: it counts its timeouts, and may have short ones.
inline constexpr Duration kStandardRnrHoldMax = 1_ms;
inline constexpr std::uint32_t kReadChunkBytesMax = 128 * 1024;  // of one READ request on the wire

}  // namespace brdma::qp
