// device/report.h - state of queue pairs and completion queues, as plain values for management (resource show,
// statistic show, recovery show). Copies: no pointer into the engine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/config.h"
#include "base/ip_address.h"
#include "base/local_memory.h"
#include "base/psn.h"
#include "base/units.h"
#include "bitmaprdma/types.h"
#include "qp/paths/path_status.h"
#include "qp/state/memory_use.h"
#include "qp/state/open_gap.h"
#include "recovery/gap_judge.h"
#include "trace/qp_counters.h"

namespace brdma {

// A bitmap of variable length in segments (bitmap/window_shape.h), in packets.
struct BitmapReport {
  bool segmented = false;                              // else a ring of the base length
  std::uint32_t base = 0, extension = 0, segment = 0;  // as set
  std::uint32_t window = 0;                            // longest it may get
  std::uint32_t length = 0, segments = 0;              // actual length; segments taken
  std::size_t bytes = 0;                               // memory taken
};

// A destination whose rate is reduced, and its recovery.
struct ManagedReport {
  IpAddress peer;
  Bandwidth rate, full;              // shared by its queue pairs; their rate before
  std::uint32_t weight_percent = 0;  // of a turn
  Instant since;
};

struct QueuePairReport {
  std::uint32_t qpn = 0, peer_qpn = 0;
  QpType type = QpType::kRc;
  XrcRole xrc = XrcRole::kNone;
  QpState state = QpState::kReset;
  IpAddress local, peer;
  std::uint32_t path_mtu = 0, pd = 0;
  bool bitmap_agreed = false;
  std::uint32_t peer_window = 0;
  LocalState local_memory = LocalState::kOff;  // whether data of the peer is fetched from its memory, or why not
  bool local_agreed = false;                   // whether the peer fetches ours: then messages above a size are not sent
  // As sender.
  Psn send_base, send_next;
  std::uint32_t unacked = 0, pending = 0, flight_packets = 0;
  std::uint64_t flight_bytes = 0, congestion_bytes = 0, work_requests = 0;
  std::optional<Bandwidth> rate;  // where the congestion control keeps one; congestion_bytes is 0 then: unbounded
  std::optional<Bandwidth> response_rate;  // at which READ responses are requested
  Duration srtt, base_rtt;
  bool waits_for_receiver = false;
  // As receiver.
  Psn receive_next, receive_highest;
  Psn receive_start, send_start;  // first PSNs, as modify_qp gave them
  std::size_t gaps = 0, early_packets = 0, held_bytes = 0, receives = 0;
  recovery::GapLimits limits;           // of requests, in force, learnt ones included
  recovery::GapLimits response_limits;  // of READ responses, likewise
  std::size_t response_gaps = 0;
  std::vector<qp::PathReceived> receive_paths, response_paths;  // path bitmaps of both; empty: one path
  BitmapReport send_bitmap, receive_bitmap;
  std::size_t state_bytes = 0;  // both bitmaps, records of early packets and gaps
  qp::MemoryUse memory;         // its whole memory
  RecoveryConfig recovery;      // its settings
  bool own_recovery = false;    // differs from the device's
  QpStatistics statistics;
  std::vector<qp::PathStatus> paths;  // paths that it sends on; empty: one, without records
};

struct CompletionQueueReport {
  std::uint32_t number = 0;  // index in creation order, among existing ones
  std::uint32_t entries = 0, waiting = 0, queue_pairs = 0;
};

struct SharedReceiveQueueReport {
  std::uint32_t number = 0, pd = 0;        // index among existing ones
  std::vector<std::uint32_t> queue_pairs;  // their numbers, ascending
};

// Memory and records for the recovery of all queue pairs.
struct RecoveryStatus {
  std::size_t queue_pairs = 0, segmented = 0;  // of those, with a bitmap that is longer than its base length
  std::size_t segments = 0;                    // taken by all bitmaps
  std::size_t gaps = 0;                        // open
  std::size_t state_bytes = 0;                 // bitmaps, records of early packets and gaps
  std::size_t pool_bytes = 0;                  // kept for the next segments
};

}  // namespace brdma
