// sim/streams/stream.h - goodput of streams between two hosts in a simulated world: a few queue pairs that keep a
// number of equal requests posted, over one link each way.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/units.h"
#include "fabric/link.h"
#include "fabric/network.h"
#include "fabric/switch/drop_notifier.h"
#include "fabric/switch/rtt_translator.h"
#include "qp/paths/paths_send.h"
#include "qp/send/requester.h"
#include "sim/host.h"
#include "streams/loss_history.h"

namespace brdma::test {

struct StreamConfig {
  RecoveryMode mode = RecoveryMode::kBitmap;
  bool adaptive = true;
  bool flight_log = false;    // of the first flow: `spurious` and `recoveries` are filled
  bool loss_history = false;  // of the first flow: `losses` is filled; modes that negotiate only
  std::uint64_t rate_bps = 10'000'000'000;
  Duration delay = 50_us;  // one way
  std::uint64_t queue_bytes = 256 * 1024;
  bool switched = false;          // as in the lab: rate and queue twice, faults between them
  fabric::UplinkConfig uplink{};  // the first of these, if switched
  std::uint32_t loss_ppm = 0;
  std::uint32_t reorder_ppm = 0, reorder_depth = 0;
  std::uint32_t paths = 1;
  Duration skew{};
  fabric::EdnForm edn = fabric::EdnForm::kOff;        // do switches report drops?
  std::optional<std::uint32_t> notices_per_second{};  // of these, without bursts; none: the default
  std::optional<fabric::MarkingConfig> marking{};
  std::optional<fabric::RttTranslator::Config> translation{};  // of marks into round-trip time
  bool applies_edn = true;
  Duration edn_pause_max = Duration{};
  std::array<std::uint32_t, fabric::kLinkPathsMax> path_loss_ppm{};
  bool path_loss_begins_at_once = false;   // before the queue pairs have agreed on anything
  Duration path_loss_ends{};               // so long after the warm-up; 0: never
  std::uint32_t path_bitmaps = kPathsMax;  // recovery.path_bitmaps
  Spraying spraying = Spraying::kRoundRobin;
  sim::Stalls sender_stalls{}, receiver_stalls{};
  CongestionConfig congestion{};
  std::uint32_t flows = 1;
  Duration stagger{};  // each flow begins so long after the previous one
  bool reads = false;  // else WRITEs
  PathMtu mtu = PathMtu::k4096;
  std::uint32_t window = 4096;                                      // recovery.window
  std::uint32_t standard_window = 0;                                // of standard packets (go-back-N); 0: the default
  std::uint32_t receive_packets = 4096, receive_bytes = 16u << 20;  // credit
  std::uint32_t state_bytes_max = 64u << 20, hold_bytes_max = 4u << 20;
  std::uint32_t request_bytes = 65536, requests_posted = 16;
  std::uint32_t segment_bytes = 0;  // of large requests; 0: they stay whole
  Duration warm_up = 20_ms, measured = 200_ms;
  std::uint64_t seed = 1;
  std::function<void(Instant now, const qp::Requester& sender, const Statistics& of_sender)> watch{};  // the first flow
  Duration watch_each = 10_ms;
};

struct StreamResult {
  std::string network;         // fabric/network.h: network_text
  double share = 0;            // payload delivered, relative to the capacity of the link's rate
  std::vector<double> shares;  // the same by flow
  std::uint64_t packets = 0;   // data packets, first transmissions
  std::uint64_t retransmitted = 0, by_probe = 0, by_timeout = 0, timeouts = 0;
  std::uint32_t most_in_flight = 0;                         // packets of the first flow, not acknowledged
  std::uint64_t by_edn = 0, notices = 0, notice_bytes = 0;  // explicit drop notification, of the data
  std::uint64_t notices_limited = 0;                        // not sent: more than notices_per_second
  std::uint64_t acks_by_edn = 0;                            // and of its acknowledgements
  std::uint64_t acknowledgements = 0;
  std::uint64_t promoted = 0, promoted_by_path = 0, misjudged = 0, cross_path_waits = 0;  // gaps, at the receiver
  std::uint64_t paths_silent = 0, paths_returned = 0;                                     // of the requester's
  std::uint64_t answer_paths_silent = 0, answer_paths_returned = 0;                       // of the responder's
  std::vector<qp::PathStatus> paths;                                                      // of the first flow's sender
  std::uint64_t lost = 0, queue_dropped = 0;  // in the direction of the data
  std::uint64_t duplicates = 0;               // of data, received
  std::uint64_t cnps = 0, pace_waits = 0;
  std::vector<Bandwidth> rates;             // of rate-controlled flows, at the end
  std::uint64_t marked = 0, rewritten = 0;  // packets that found a long queue; acknowledgements that carry it
  Duration srtt{};                          // of the first flow, at the end
  std::uint64_t spurious = 0;               // copies of placed packets
  std::vector<Duration> recoveries;         // from the expected arrival of a lost packet to the placement of a copy
  std::vector<LossStory> losses;            // each lost packet and its recovery
  [[nodiscard]] double bits_per_second(const StreamConfig& config) const {
    return share * static_cast<double>(config.rate_bps);
  }
};

// All but the share are of the whole run.
[[nodiscard]] StreamResult run_stream(const StreamConfig& config);

}  // namespace brdma::test
