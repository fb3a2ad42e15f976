// base/config.h - what an engine is told at its making. Defaults are the reference values of spec/1 where it has
// some.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "base/seed.h"
#include "base/units.h"

namespace brdma {

// How losses are found and repaired, per context (per queue pair later).
enum class RecoveryMode : std::uint8_t {
  kBitmap,       // negotiate bitmap mode by CAPS; standard packets until, or where, the peer does not answer
  kStandard,     // never negotiate; hold early packets as responder (tolerance), go back N as the peer demands
  kGoBackN,      // never negotiate, hold nothing: what plain RoCE does. A yardstick.
  kSelective,    // bitmap mode's packets, but the sender alone judges, as TCP does by SACK and RACK. A yardstick.
  kWan,          // bitmap mode's packets; the sender alone judges, by how long acknowledgements take (spec 3)
  kWanFeedback,  // the same beside the receiver's tolerance and feedback
};
// What the sender judges by how long acknowledgements take.
[[nodiscard]] constexpr bool waits_for_delays(RecoveryMode mode) {
  return mode == RecoveryMode::kWan || mode == RecoveryMode::kWanFeedback;
}
// Does the receiver judge what is missing, and say so? Else it acknowledges.
[[nodiscard]] constexpr bool gives_feedback(RecoveryMode mode) {
  return mode != RecoveryMode::kSelective && mode != RecoveryMode::kWan;
}
// Does a queue pair of this mode send CAPS?
[[nodiscard]] constexpr bool negotiates(RecoveryMode mode) {
  return mode != RecoveryMode::kStandard && mode != RecoveryMode::kGoBackN;
}

// Which of several paths the next batch takes (recovery/path_spray.h).
enum class Spraying : std::uint8_t {
  kRoundRobin,
  kLeastRtt,  // the one with the shortest round trip
  kWeighted,  // in turn, more often the shorter its round trip and the fewer its losses
};

inline constexpr std::uint32_t kPathsMax = 16;  // of a queue pair, each way: path bitmaps (spec 1: management)

// What bounds a requester's sending beside the peer's window and credit (docs/engine.md#congestion).
enum class CongestionControl : std::uint8_t {
  kWindow,  // bytes in flight, by round trips and delivered bytes (congestion/delay_window.h)
  kTimely,  // a rate, by round trips (congestion/timely.h)
  kDcqcn,   // a rate, by congestion notification packets (congestion/dcqcn.h)
  kNone,    // nothing
  kPaced,   // as kWindow, which leaves over a round trip instead of at once (qp/send/spread_window.cc)
  kBoth,    // the lower of TIMELY's and DCQCN's rates
};
// The ECN field of what a queue pair sends (RFC 3168).
enum class EcnField : std::uint8_t {
  kAuto,  // ECT(0) where the control hears of marks (DCQCN, both), else as the application set its traffic class
  kOff,   // not-ECT
  kEct0,
  kEct1,
};

// Rates are in Mbit/s of packets with their Ethernet, IP and UDP headers; fractions in thousandths.
struct CongestionConfig {
  CongestionControl control = CongestionControl::kWindow;
  EcnField ecn = EcnField::kAuto;
  bool edn = true;  // what switches say that they dropped lowers window or rate
  // Of both rate controls.
  std::uint32_t port_rate_mbps = 10'000;  // what the port carries; its driver sets it
  std::uint32_t rate_first_mbps = 0;      // until the first RTT sample or CNP; 0: the port's
  std::uint32_t rate_min_mbps = 10;       // one packet of 4 KiB in 3 ms: silence is not mistaken for loss
  std::uint32_t rate_max_mbps = 0;        // 0: the port's
  std::uint32_t burst_bytes = 65536;      // that may leave at once after a silence, or after a timer that came late
  Duration pace_interval = 20_us;         // a timer brings what the rate gives in so long, not a packet
  // TIMELY: the paper's values (Mittal et al., SIGCOMM 2015, section 6; HPCC's simulator has the same, with 50 Mbit/s
  // to add), chosen for 10 Gbit/s and 20 us.
  std::uint32_t timely_alpha_permille = 875;
  std::uint32_t timely_beta_permille = 800;
  Duration timely_low = 50_us, timely_high = 500_us;
  Duration timely_min_rtt{};  // 0: the path's own is measured, and the limits lie as far above it as above 20 us
  std::uint32_t timely_add_mbps = 10;
  std::uint32_t timely_hyper_after = 5, timely_hyper_factor = 5;
  // DCQCN: the paper's values (Zhu et al., SIGCOMM 2015, section 5).
  std::uint32_t dcqcn_g_shift = 8;  // g = 2^-8
  Duration dcqcn_alpha_period = 55_us, dcqcn_increase_period = 55_us;
  std::uint32_t dcqcn_increase_bytes = 10'000'000;
  std::uint32_t dcqcn_fast_recovery = 5;
  std::uint32_t dcqcn_additive_mbps = 40, dcqcn_hyper_mbps = 400;
  Duration cnp_interval = 50_us;  // as receiver of marked packets: at most one notification in so long; 0: none

  friend bool operator==(const CongestionConfig&, const CongestionConfig&) = default;
};

// Wide-area paths (spec 3; docs/engine.md#wide-area-paths). Shares are in percent.
struct WanConfig {
  std::uint32_t delay_samples = 100;      // N: T and delta are of the last so many send delays
  Duration walk_interval = 100_us;        // k: the send window is walked once in this time, when something is overdue
  std::uint32_t inquiry_timeouts = 16;    // x: packets that have timed out before links are inquired; 0: never
  Duration inquiry_interval = 100_ms;     // of a queue pair, at least
  std::uint32_t hop_limit = 16;           // hops that may answer an inquiry
  std::uint32_t link_queue_percent = 50;  // a link is congested that has so much of its queue in use ...
  std::uint32_t link_speed_percent = 50;  // ... or forwards at no more than this of its rate
  std::uint32_t congested_links = 1;      // more than so many: the destination is managed; else the controller is told
  Duration visit_interval = 100_ms;       // m: the managed list is visited
  std::uint32_t managed_rate_percent = 50;    // of what was delivered of late, for a destination that gets on the list
  std::uint32_t managed_weight_percent = 50;  // of a turn among queue pairs
  std::uint32_t managed_rate_min_mbps = 10;   // nobody on it gets less
  std::uint32_t managed_raise_percent = 25;   // a visit adds so much of what was taken
  std::uint32_t managed_wait_percent = 150;   // where the acknowledgement wait is at most this of the shortest one

  friend bool operator==(const WanConfig&, const WanConfig&) = default;
};

struct RecoveryConfig {
  RecoveryMode mode = RecoveryMode::kBitmap;
  std::uint32_t window_packets = 4096;  // send and receive window L; a power of two, at most 2^20
  // How the bitmaps over it are kept (bitmap/window_shape.h): base length, extension step, segment; powers of two.
  std::uint32_t base_packets = 128;
  std::uint32_t extension_packets = 512;
  std::uint32_t segment_packets = 512;
  std::uint32_t granularity = 1;              // G: PSNs a bit of the receive bitmap; a power of two, at most 64
  std::uint32_t slide_step = 1;               // the window's edge moves by so many PSNs at a time; a power of two
  std::uint32_t state_bytes_max = 64u << 20;  // bitmaps and records of a queue pair, without payload
  // Of an engine: queue pairs at a time, and bytes of all their bitmaps beyond which no more are made.
  std::uint32_t qps_max = 32768;
  std::uint32_t device_state_bytes_max = 1u << 30;
  std::uint32_t depth_max = 8;  // spec 1: tolerance limits
  Duration age_max = 50_us;
  Duration stall_max = 80_us;
  std::uint32_t stall_packets = 0;  // the stall in packets that came meanwhile; 0: not counted
  // Gaps counted as lost and not reported yet from which an FFM leaves at once; fewer wait for age_max. 1: each does.
  std::uint32_t ffm_threshold = 1;
  bool adaptive = true;                // the limits above are where a receiver begins; it learns (recovery/tolerance.h)
  std::uint32_t depth_ceiling = 1024;  // as far as it goes
  Duration time_ceiling = 1_ms;        // of age and stall
  Duration resend_interval_min = 50_us;   // one effective retransmission of a packet in this time (or an RTT if longer)
  Duration aggregate_delay = Duration{};  // retransmissions wait so long for more of their kind, unless a batch is full
  bool edn = true;                        // heed explicit drop notifications (spec 5)
  Duration edn_pause_max{};               // and wait for the switch's queue to drain, so long at most; 0: never
  std::uint32_t resend_window = 0;  // packets sent again and not acknowledged yet, at most; 0: as the window allows
  // The send window's base may stand still so long (or 4 SRTT if that is longer) while later packets are acknowledged.
  Duration send_stall_min = 1_ms;
  Duration probe_timeout_min = 250_us;     // tail loss probe: after max(this, 2 SRTT) of silence
  Duration retransmit_timeout_min = 1_ms;  // first RTO = max(this, SRTT + 4 RTTVAR), doubled up to the QP's own timeout
  std::uint32_t ack_packets = 64;          // acknowledge at the latest after so many packets ...
  Duration ack_delay = 100_us;             // ... or after this time; the requester asks for it where it waits for it
  // An acknowledgement that was asked for counts as deferrable for so long: a driver may keep it for the application's
  // next data (Engine::only_deferrable_output). Well below probe_timeout_min, or the peer probes.
  Duration ack_hold_max = 5_us;
  std::uint32_t hold_bytes_max = 4u << 20;  // early packets a queue pair may hold
  // A message that finds no receive waits so long for one before the RNR NAK; 0: none does. A standard peer's at most
  // qp::kStandardRnrHoldMax.
  Duration rnr_hold = 10_ms;
  // A peer whose host says that its process is stopped is not given up for so long (and then as soon as the retry count
  // says); 0: nobody is asked. An hour: a debugging session; who left a program stopped for longer has forgotten it.
  Duration stopped_peer_max = 3600_s;
  std::uint32_t standard_window_packets = 64;  // in flight towards a peer that states no credit
  // Paths: as many as the driver opens UDP source ports for (EngineConfig::source_ports), and the peer tells apart.
  std::uint32_t paths = 1;                 // what a driver opens
  std::uint32_t path_bitmaps = kPathsMax;  // paths of a peer that are told apart, a queue pair; 1: none
  Spraying spraying = Spraying::kRoundRobin;
  CongestionConfig congestion{};
  WanConfig wan{};

  friend bool operator==(const RecoveryConfig&, const RecoveryConfig&) = default;
};

// Large transfers: their turn comes after that of others, and between two of ours they may be cut into operations
// (spec 4; docs/transfers.md).
struct TransferConfig {
  std::uint32_t threshold_bytes = 128 * 1024;  // WRITEs and SENDs from this size on are large commands; 0: none is
  std::uint32_t segment_bytes = 0;  // of one operation, at most, at most 128 packets; 0: large ones stay whole
  std::uint32_t escape_bytes_max = 1u << 20;  // packets that came before the start of their operation: kept so many
  Duration escape_time = 10_ms;               // ... for so long, or a few round trips if that is longer
  std::uint32_t regular_turns = 4;            // batches of regular commands in a row while large ones wait
  // Between processes of one host data is fetched from memory instead of sent, of messages from a size on
  // (docs/local.md).
  bool local = true;
  std::uint32_t local_threshold_bytes = 16384;
};

class LocalMemory;  // base/local_memory.h

struct EngineConfig {
  RecoveryConfig recovery;
  TransferConfig transfer;
  LocalMemory* local_memory = nullptr;  // outlives the engine; null: all data is sent
  Seed seed;                            // tokens, keys, numbers of queue pairs
  std::uint32_t shard = 0;              // among engines of one seed, whose keys are the same and the rest is not
  std::uint32_t slot = 2;               // low bits of each QPN of this engine: which socket the peer's packets reach
  std::uint32_t slot_bits = 8;          // QPN = index << slot_bits | slot
  std::vector<std::uint16_t> source_ports{0xC000};  // one per path; the ICRC covers it
  std::uint32_t segments_max = 1;                   // segments of one Transmit; 1 = no GSO
  std::uint32_t batch_bytes_max = 65507;            // bytes of one Transmit
  bool ip_id_counts_in_batch =
      true;  // IPv4 identification of a batch's segments is 0, 1, 2, ... (else only single standard packets)
  std::uint32_t receive_packets = 256;       // what the socket's buffer can take, stated as credit
  std::uint32_t receive_bytes = 200 * 1024;  // payload bytes, likewise

  // Of what no other shard may draw.
  [[nodiscard]] constexpr Seed own_seed() const { return {seed.low, seed.high ^ shard * 0x9E3779B97F4A7C15u}; }
};

}  // namespace brdma
