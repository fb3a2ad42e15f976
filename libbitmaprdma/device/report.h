// device/report.h - how queue pairs and completion queues stand, as plain values for whoever asks (resource show,
// statistic show, recovery show). Copies: nothing here points into the engine.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/config.h"
#include "base/ip_address.h"
#include "base/psn.h"
#include "base/units.h"
#include "bitmaprdma/types.h"
#include "recovery/gap_judge.h"
#include "trace/qp_counters.h"

namespace brdma {

struct QueuePairReport {
  std::uint32_t qpn = 0, peer_qpn = 0;
  QpType type = QpType::kRc;
  QpState state = QpState::kReset;
  IpAddress local, peer;
  std::uint32_t path_mtu = 0, pd = 0;
  bool bitmap_agreed = false;
  std::uint32_t peer_window = 0;
  // As sender.
  Psn send_base, send_next;
  std::uint32_t unacked = 0, pending = 0, flight_packets = 0;
  std::uint64_t flight_bytes = 0, congestion_bytes = 0, work_requests = 0;
  Duration srtt;
  bool waits_for_receiver = false;
  // As receiver.
  Psn receive_next, receive_highest;
  std::size_t gaps = 0, early_packets = 0, held_bytes = 0, receives = 0;
  recovery::GapLimits limits;   // in force, learnt ones included
  std::uint32_t window = 0;     // longest it may get, packets
  std::size_t window_bits = 0;  // of the receive bitmap, allocated
  std::size_t state_bytes = 0;  // both bitmaps, send entries, held packets, gap records
  RecoveryConfig recovery;      // what is set for it
  bool own_recovery = false;    // differs from the device's
  QpStatistics statistics;
};

struct CompletionQueueReport {
  std::uint32_t number = 0;  // place in the order of making, of those that exist
  std::uint32_t entries = 0, waiting = 0, queue_pairs = 0;
};

}  // namespace brdma
