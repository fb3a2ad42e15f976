// base/config.h - an engine's configuration. Defaults are the reference values of design BR-16 where it has some.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/seed.h"
#include "base/units.h"

namespace brdma {

// Loss recovery, per context (per queue pair later).
enum class RecoveryMode : std::uint8_t {
  kBitmap,       // negotiate bitmap mode by CAPS; standard packets until, or where, the peer does not answer
  kStandard,     // never negotiate; hold early packets as responder (tolerance), go back N as the peer demands
  kGoBackN,      // never negotiate, hold nothing: as plain RoCE does. A baseline.
  kSelective,    // bitmap mode's packets, but the sender alone judges, as TCP does by SACK and RACK. A baseline.
  kWan,          // bitmap mode's packets; the sender alone judges, by acknowledgement delays (design WT-5)
  kWanFeedback,  // the same beside the receiver's tolerance and feedback
};
// True if the sender judges losses by acknowledgement delays.
[[nodiscard]] constexpr bool waits_for_delays(RecoveryMode mode) {
  return mode == RecoveryMode::kWan || mode == RecoveryMode::kWanFeedback;
}
// True if the receiver judges gaps and reports them. Else it only acknowledges.
[[nodiscard]] constexpr bool gives_feedback(RecoveryMode mode) {
  return mode != RecoveryMode::kSelective && mode != RecoveryMode::kWan;
}
// True if a queue pair of this mode sends CAPS.
[[nodiscard]] constexpr bool negotiates(RecoveryMode mode) {
  return mode != RecoveryMode::kStandard && mode != RecoveryMode::kGoBackN;
}

// Choice of the next batch's path (recovery/path_spray.h).
enum class Spraying : std::uint8_t {
  kRoundRobin,
  kLeastRtt,  // the one with the shortest round trip
  kWeighted,  // in turn; more often with a shorter round trip and fewer losses
};

inline constexpr std::uint32_t kPathsMax = 16;  // of a queue pair, per direction: path bitmaps (design BR-37)

// Congestion control: bounds a requester's sending beside the peer's window and credit
// (docs/explanation/engine.md#congestion).
enum class CongestionControl : std::uint8_t {
  kWindow,  // bytes in flight, by round trips and delivered bytes (congestion/delay_window.h)
  kTimely,  // a rate, by round trips (congestion/timely.h)
  kDcqcn,   // a rate, by congestion notification packets (congestion/dcqcn.h)
  kNone,    // nothing
  kPaced,   // as kWindow, but the window is spread over a round trip instead of sent at once (qp/send/sending_rate.h)
  kBoth,    // the lower of TIMELY's and DCQCN's rates
};
// The ECN field of a queue pair's packets (RFC 3168).
enum class EcnField : std::uint8_t {
  kAuto,  // ECT(0) where the control uses marks (DCQCN, both), else as the application set its traffic class
  kOff,   // not-ECT
  kEct0,
  kEct1,
};

// Rates are in Mbit/s of packets with their Ethernet, IP and UDP headers; fractions in thousandths.
struct CongestionConfig {
  CongestionControl control = CongestionControl::kWindow;
  EcnField ecn = EcnField::kAuto;
  bool edn = true;  // drops reported by switches lower window or rate
  // For both rate controls.
  std::uint32_t port_rate_mbps = 10'000;  // rate of the port; set by its driver
  std::uint32_t rate_first_mbps = 0;      // until the first RTT sample or CNP; 0: the port's
  std::uint32_t rate_min_mbps = 10;       // one packet of 4 KiB in 3 ms: silence is not mistaken for loss
  std::uint32_t rate_max_mbps = 0;        // 0: the port's
  std::uint32_t burst_bytes = 65536;      // may leave at once after a silence, or after a late timer
  Duration pace_interval = 20_us;         // one timer releases the packets of this time, not a single packet
  // TIMELY: the paper's values (Mittal et al., SIGCOMM 2015, section 6; HPCC's simulator has the same, with 50 Mbit/s
  // to add), chosen for 10 Gbit/s and 20 us.
  std::uint32_t timely_alpha_permille = 875;
  std::uint32_t timely_beta_permille = 800;
  Duration timely_low = 50_us, timely_high = 500_us;
  Duration timely_min_rtt{};  // 0: the path's own is measured, and the limits are as far above it as above 20 us
  std::uint32_t timely_add_mbps = 10;
  std::uint32_t timely_hyper_after = 5, timely_hyper_factor = 5;
  // DCQCN: the paper's values (Zhu et al., SIGCOMM 2015, section 5).
  std::uint32_t dcqcn_g_shift = 8;  // g = 2^-8
  Duration dcqcn_alpha_period = 55_us, dcqcn_increase_period = 55_us;
  std::uint32_t dcqcn_increase_bytes = 10'000'000;
  std::uint32_t dcqcn_fast_recovery = 5;
  std::uint32_t dcqcn_additive_mbps = 40, dcqcn_hyper_mbps = 400;
  Duration cnp_interval = 50_us;  // as receiver of marked packets: at most one notification per interval; 0: none

  friend bool operator==(const CongestionConfig&, const CongestionConfig&) = default;
};

// Wide-area paths (design WT-17; docs/explanation/engine.md#wide-area-paths). Shares are in percent.
struct WanConfig {
  std::uint32_t delay_samples = 100;      // N: number of last send delays for T and delta
  Duration walk_interval = 100_us;        // k: time between two walks of the send window while something is overdue
  std::uint32_t inquiry_timeouts = 16;    // x: packets that time out before links are inquired; 0: never
  Duration inquiry_interval = 100_ms;     // of a queue pair, at least
  std::uint32_t hop_limit = 16;           // hops that may answer an inquiry
  std::uint32_t link_queue_percent = 50;  // a link is congested with this share of its queue in use ...
  std::uint32_t link_speed_percent = 50;  // ... or when it forwards at no more than this share of its rate
  // above this number the destination is managed; up to it the controller is notified
  std::uint32_t congested_links = 1;
  Duration visit_interval = 100_ms;           // m: time between visits of the managed list
  std::uint32_t managed_rate_percent = 50;    // of the recently delivered rate, for a destination that enters the list
  std::uint32_t managed_weight_percent = 50;  // of a turn among queue pairs
  // 0 to 63, of packets of queue pairs to it (design WT-16); none: that of the program's traffic class
  std::optional<std::uint8_t> managed_dscp{};
  std::uint32_t managed_rate_min_mbps = 10;  // lowest rate of a managed destination
  std::uint32_t managed_raise_percent = 25;  // share of the lowered rate that a visit restores
  std::uint32_t managed_wait_percent = 150;  // largest acknowledgement wait for that, of the shortest one

  friend bool operator==(const WanConfig&, const WanConfig&) = default;
};

struct RecoveryConfig {
  RecoveryMode mode = RecoveryMode::kBitmap;
  std::uint32_t window_packets = 4096;  // send and receive window L; a power of two, at most 2^20
  // Shape of its bitmaps (bitmap/window_shape.h): base length, extension step, segment; powers of two.
  std::uint32_t base_packets = 128;
  std::uint32_t extension_packets = 512;
  std::uint32_t segment_packets = 512;
  std::uint32_t granularity = 1;              // G: PSNs a bit of the receive bitmap; a power of two, at most 64
  std::uint32_t slide_step = 1;               // PSNs by which the window's edge moves at a time; a power of two
  std::uint32_t state_bytes_max = 64u << 20;  // bitmaps and records of a queue pair, without payload
  // Of an engine: limit of queue pairs, and bytes of all their bitmaps above which no more are made.
  std::uint32_t qps_max = 32768;
  std::uint32_t device_state_bytes_max = 1u << 30;
  std::uint32_t depth_max = 8;  // design BR-16: tolerance limits
  Duration age_max = 50_us;
  Duration stall_max = 80_us;
  std::uint32_t stall_packets = 0;  // stall limit in packets received meanwhile; 0: not counted
  // Lost and unreported gaps from which an FFM leaves at once; fewer wait for age_max. 1: each leaves at once.
  std::uint32_t ffm_threshold = 1;
  bool adaptive = true;  // the limits above are start values; the receiver adapts them (recovery/tolerance.h)
  std::uint32_t depth_ceiling = 1024;    // highest depth that it may reach
  Duration time_ceiling = 1_ms;          // of age and stall
  Duration resend_interval_min = 50_us;  // time between two effective retransmissions of a packet (or an RTT if longer)
  Duration aggregate_delay = Duration{};  // time that retransmissions wait to fill a batch
  bool edn = true;                        // apply explicit drop notifications (design DN-10)
  Duration edn_pause_max{};               // longest wait for the switch's queue to drain; 0: none
  std::uint32_t resend_window = 0;        // retransmitted packets in flight, at most; 0: as the window allows
  // Longest stall of the send window's base (or 4 SRTT if that is longer) while later packets are acknowledged.
  Duration send_stall_min = 1_ms;
  Duration probe_timeout_min = 250_us;     // tail loss probe: after max(this, 2 SRTT) of silence
  Duration retransmit_timeout_min = 1_ms;  // first RTO = max(this, SRTT + 4 RTTVAR), doubled up to the QP's own timeout
  std::uint32_t ack_packets = 64;          // acknowledge after this many packets at the latest ...
  Duration ack_delay = 100_us;             // ... or after this time; the requester requests one where it waits for it
  // Time for which a requested acknowledgement counts as deferrable: a driver may keep it for the application's next
  // data (TransmitInterest::kDeferrable). Well below probe_timeout_min, or the peer probes.
  Duration ack_hold_max = 5_us;
  std::uint32_t hold_bytes_max = 4u << 20;  // out-of-order packets that a queue pair may hold
  // Time that a message waits for a posted receive before the RNR NAK; 0: none. With a standard peer at most
  // qp::kStandardRnrHoldMax.
  Duration rnr_hold = 10_ms;
  // Time for which retries do not fail while the peer's host reports its process as stopped (then the retry count
  // applies again); 0: the host is not asked. An hour covers a debugging session.
  Duration stopped_peer_max = 3600_s;
  std::uint32_t standard_window_packets = 64;  // in flight towards a peer that states no credit
  // Paths: as many as the driver opens UDP source ports for (EngineConfig::source_ports), and the peer distinguishes.
  std::uint32_t paths = 1;                 // opened by a driver
  std::uint32_t path_bitmaps = kPathsMax;  // paths of a peer that a queue pair distinguishes; 1: none
  Spraying spraying = Spraying::kRoundRobin;
  CongestionConfig congestion{};
  WanConfig wan{};

  friend bool operator==(const RecoveryConfig&, const RecoveryConfig&) = default;
};

// Large transfers: sent after others, and between two of our peers they may be cut into operations (design RR-3;
// docs/explanation/transfers.md).
struct TransferConfig {
  std::uint32_t threshold_bytes = 128 * 1024;  // WRITEs and SENDs from this size on are large commands; 0: none
  std::uint32_t segment_bytes = 0;             // largest operation, at most 128 packets; 0: large ones stay whole
  std::uint32_t escape_bytes_max = 1u << 20;   // packets received before the start of their operation: bytes kept ...
  Duration escape_time = 1_s;                  // ... and time, or a few round trips if that is longer
  std::uint32_t regular_turns = 4;             // batches of regular commands in a row while large ones wait
  // Local transfer by reference: between processes of one host, data of large messages is fetched from memory instead
  // of sent (docs/explanation/local.md).
  bool local = true;
  std::uint32_t local_threshold_bytes = 16384;
};

class LocalMemory;  // base/local_memory.h

struct EngineConfig {
  RecoveryConfig recovery;
  TransferConfig transfer;
  LocalMemory* local_memory = nullptr;  // outlives the engine; null: all data is sent
  Seed seed;                            // tokens, keys, numbers of queue pairs
  std::uint32_t shard = 0;              // among engines of one seed: the same keys, the rest differs
  std::uint32_t slot = 2;               // low bits of each QPN of this engine: selects the socket of the peer's packets
  std::uint32_t slot_bits = 8;          // QPN = index << slot_bits | slot
  std::vector<std::uint16_t> source_ports{0xC000};  // one per path; the ICRC covers it
  std::uint32_t segments_max = 1;                   // segments of one Transmit; 1 = no GSO
  std::uint32_t batch_bytes_max = 65507;            // bytes of one Transmit
  bool ip_id_counts_in_batch =
      true;  // IPv4 identification of a batch's segments is 0, 1, 2, ... (else only single standard packets)
  std::uint32_t receive_packets = 256;       // capacity of the socket's buffer, stated as credit
  std::uint32_t receive_bytes = 200 * 1024;  // payload bytes, likewise

  // The seed for values that no other shard may draw.
  [[nodiscard]] constexpr Seed own_seed() const { return {seed.low, seed.high ^ shard * 0x9E3779B97F4A7C15u}; }
};

}  // namespace brdma
