#include "control/definitions.h"

#include <array>
#include <bit>
#include <charconv>
#include <limits>

namespace brdma::control {
namespace {

constexpr std::array<std::string_view, 6> kModes{"bitmap",    "standard", "gobackn",
                                                 "selective", "wan",      "wan_ffm"};          // order of RecoveryMode
constexpr std::array<std::string_view, 3> kDatapaths{"auto", "udp", "xdp"};                    // order of Datapath
constexpr std::array<std::string_view, 3> kSprayings{"round_robin", "least_rtt", "weighted"};  // order of Spraying
constexpr std::array<std::string_view, 6> kControls{"window", "timely", "dcqcn",
                                                    "none",   "paced",  "both"};      // of CongestionControl
constexpr std::array<std::string_view, 4> kEcnFields{"auto", "off", "ect0", "ect1"};  // of EcnField
constexpr std::array<std::string_view, 2> kSwitch{"false", "true"};

// The member at the end of the path: at<&Settings::recovery, &RecoveryConfig::ack_packets>(settings).
template <auto First, auto... Rest, class Object>
constexpr auto& at(Object& object) {
  if constexpr (sizeof...(Rest) == 0) {
    return object.*First;
  } else {
    return at<Rest...>(object.*First);
  }
}
template <auto... Path>
constexpr NumberSetting whole(std::uint64_t min, std::uint64_t max, bool power_of_two = false) {
  return {min, max, power_of_two, [](const Settings& s) -> std::uint64_t { return at<Path...>(s); },
          [](Settings& s, std::uint64_t value) {
            auto& member = at<Path...>(s);
            member = static_cast<std::remove_reference_t<decltype(member)>>(value);
          }};
}
template <auto... Path>
constexpr NumberSetting in_us(std::uint64_t min, std::uint64_t max) {
  return {min, max, false, [](const Settings& s) { return static_cast<std::uint64_t>(at<Path...>(s).ns() / 1000); },
          [](Settings& s, std::uint64_t value) {
            at<Path...>(s) = Duration::from_ns(static_cast<std::int64_t>(value) * 1000);
          }};
}

template <auto Member>
constexpr NumberSetting count(std::uint64_t min, std::uint64_t max, bool power_of_two = false) {
  return whole<&Settings::recovery, Member>(min, max, power_of_two);
}
template <auto Member>
constexpr NumberSetting microseconds(std::uint64_t min, std::uint64_t max) {
  return in_us<&Settings::recovery, Member>(min, max);
}
// Of a duration that is set in whole seconds.
template <Duration RecoveryConfig::*Member>
constexpr NumberSetting seconds(std::uint64_t max) {
  constexpr std::int64_t kNs = 1'000'000'000;
  return {0, max, false, [](const Settings& s) { return static_cast<std::uint64_t>((s.recovery.*Member).ns() / kNs); },
          [](Settings& s, std::uint64_t value) {
            s.recovery.*Member = Duration::from_ns(static_cast<std::int64_t>(value) * kNs);
          }};
}
template <auto Member>
constexpr NumberSetting congestion(std::uint64_t min, std::uint64_t max) {
  return whole<&Settings::recovery, &RecoveryConfig::congestion, Member>(min, max);
}
template <auto Member>
constexpr NumberSetting congestion_us(std::uint64_t min, std::uint64_t max) {
  return in_us<&Settings::recovery, &RecoveryConfig::congestion, Member>(min, max);
}
template <auto Member>
constexpr NumberSetting wan(std::uint64_t min, std::uint64_t max) {
  return whole<&Settings::recovery, &RecoveryConfig::wan, Member>(min, max);
}
template <auto Member>
constexpr NumberSetting wan_us(std::uint64_t min, std::uint64_t max) {
  return in_us<&Settings::recovery, &RecoveryConfig::wan, Member>(min, max);
}
template <auto Member>
constexpr NumberSetting transfer(std::uint64_t min, std::uint64_t max) {
  return whole<&Settings::transfer, Member>(min, max);
}

constexpr std::uint8_t kNoDscp = 64;  // one more than the highest
constexpr NumberSetting managed_dscp() {
  return {0, kNoDscp, false,
          [](const Settings& s) -> std::uint64_t { return s.recovery.wan.managed_dscp.value_or(kNoDscp); },
          [](Settings& s, std::uint64_t value) {
            auto& dscp = s.recovery.wan.managed_dscp;
            dscp = value == kNoDscp ? std::nullopt : std::optional{static_cast<std::uint8_t>(value)};
          }};
}

constexpr ChoiceSetting local() {
  return {kSwitch, [](const Settings& s) { return static_cast<std::size_t>(s.transfer.local); },
          [](Settings& s, std::size_t place) { s.transfer.local = place != 0; }};
}

constexpr ChoiceSetting mode() {
  return {kModes, [](const Settings& s) { return static_cast<std::size_t>(s.recovery.mode); },
          [](Settings& s, std::size_t place) { s.recovery.mode = static_cast<RecoveryMode>(place); }};
}

constexpr ChoiceSetting spraying() {
  return {kSprayings, [](const Settings& s) { return static_cast<std::size_t>(s.recovery.spraying); },
          [](Settings& s, std::size_t place) { s.recovery.spraying = static_cast<Spraying>(place); }};
}

constexpr ChoiceSetting control() {
  return {
      kControls, [](const Settings& s) { return static_cast<std::size_t>(s.recovery.congestion.control); },
      [](Settings& s, std::size_t place) { s.recovery.congestion.control = static_cast<CongestionControl>(place); }};
}

constexpr ChoiceSetting ecn() {
  return {kEcnFields, [](const Settings& s) { return static_cast<std::size_t>(s.recovery.congestion.ecn); },
          [](Settings& s, std::size_t place) { s.recovery.congestion.ecn = static_cast<EcnField>(place); }};
}

constexpr ChoiceSetting adaptive() {
  return {kSwitch, [](const Settings& s) { return static_cast<std::size_t>(s.recovery.adaptive); },
          [](Settings& s, std::size_t place) { s.recovery.adaptive = place != 0; }};
}

constexpr ChoiceSetting edn() {
  return {kSwitch, [](const Settings& s) { return static_cast<std::size_t>(s.recovery.edn); },
          [](Settings& s, std::size_t place) { s.recovery.edn = place != 0; }};
}

constexpr ChoiceSetting congestion_edn() {
  return {kSwitch, [](const Settings& s) { return static_cast<std::size_t>(s.recovery.congestion.edn); },
          [](Settings& s, std::size_t place) { s.recovery.congestion.edn = place != 0; }};
}

constexpr ChoiceSetting datapath() {
  return {kDatapaths, [](const Settings& s) { return static_cast<std::size_t>(s.datapath.receive); },
          [](Settings& s, std::size_t place) { s.datapath.receive = static_cast<Datapath>(place); }};
}

constexpr ChoiceSetting transmit_datapath() {
  return {kDatapaths, [](const Settings& s) { return static_cast<std::size_t>(s.datapath.transmit); },
          [](Settings& s, std::size_t place) { s.datapath.transmit = static_cast<Datapath>(place); }};
}

constexpr ChoiceSetting xdp_mode() {
  return {kXdpModeNames, [](const Settings& s) { return static_cast<std::size_t>(s.datapath.xdp_mode); },
          [](Settings& s, std::size_t place) { s.datapath.xdp_mode = static_cast<XdpMode>(place); }};
}

constexpr ChoiceSetting loopback() {
  return {kSwitch, [](const Settings& s) { return static_cast<std::size_t>(s.loopback_device); },
          [](Settings& s, std::size_t place) { s.loopback_device = place != 0; }};
}

constexpr ChoiceSetting kernel_rdma_cm() {
  return {kSwitch, [](const Settings& s) { return static_cast<std::size_t>(s.kernel_rdma_cm); },
          [](Settings& s, std::size_t place) { s.kernel_rdma_cm = place != 0; }};
}

// 0 stands for "not set", so that a seed of 0 can't be asked for.
constexpr NumberSetting seed() {
  return {0, static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()), false,
          [](const Settings& s) { return s.seed.value_or(0); },
          [](Settings& s, std::uint64_t value) {
            if (value == 0)
              s.seed.reset();
            else
              s.seed = value;
          }};
}

constexpr Applies kNow = Applies::kNow, kNewPrograms = Applies::kNewPrograms;

using R = RecoveryConfig;
using T = TransferConfig;
using C = CongestionConfig;
using W = WanConfig;
constexpr std::uint64_t kSecond = 1'000'000;  // in microseconds

// The last member says what a change at run time reaches; without it, queue pairs made from then on.
// Ranges: a window no queue pair can use, or a timer that can only spin, is refused; whatever may serve an experiment
// is allowed.
const std::array kDefinitions{
    Definition{"recovery.mode", "BRDMA_RECOVERY", "loss recovery: bitmap, or a baseline to compare with", mode()},
    Definition{"recovery.window", "BRDMA_WINDOW", "packets in flight a queue pair, each way",
               count<&R::window_packets>(16, 1u << 20, true)},
    Definition{"recovery.base_packets", "BRDMA_BASE_PACKETS", "length of a bitmap while little is in flight",
               count<&R::base_packets>(64, 1u << 16, true)},
    Definition{"recovery.extension_packets", "BRDMA_EXTENSION_PACKETS", "step by which a bitmap gets longer",
               count<&R::extension_packets>(64, 1u << 20, true)},
    Definition{"recovery.segment_packets", "BRDMA_SEGMENT_PACKETS",
               "packets a segment of a longer bitmap; a shorter step counts as one segment",
               count<&R::segment_packets>(64, 1u << 16, true)},
    Definition{"recovery.granularity", "BRDMA_GRANULARITY", "packets that one bit of the receive bitmap stands for",
               count<&R::granularity>(1, 64, true)},
    Definition{"recovery.slide_step", "BRDMA_SLIDE_STEP", "packets by which the edge of a window moves at a time",
               count<&R::slide_step>(1, 1024, true)},
    Definition{"recovery.qps_max", "BRDMA_QPS_MAX", "queue pairs that all programs of a device may have together",
               count<&R::qps_max>(1, 32768)},
    Definition{"recovery.device_state_bytes_max", "BRDMA_DEVICE_STATE_BYTES_MAX",
               "bytes of bitmaps of all programs of a device, beyond which none gets another queue pair",
               count<&R::device_state_bytes_max>(1u << 16, 0xFFFF'FFFF)},
    Definition{"recovery.state_bytes_max", "BRDMA_STATE_BYTES_MAX",
               "bytes of bitmaps and records a queue pair may take, payload apart",
               count<&R::state_bytes_max>(1u << 16, 1u << 30)},
    Definition{"recovery.depth_max", "BRDMA_DEPTH_MAX",
               "packets that may overtake a missing one before it counts as lost", count<&R::depth_max>(0, 1u << 20),
               kNow},
    Definition{"recovery.age_max_us", "BRDMA_AGE_MAX_US", "time a packet may be missing before it counts as lost",
               microseconds<&R::age_max>(0, 10 * kSecond), kNow},
    Definition{"recovery.stall_max_us", "BRDMA_STALL_MAX_US",
               "time the window's base may stand still before its gap counts as lost",
               microseconds<&R::stall_max>(0, 10 * kSecond), kNow},
    Definition{
        "recovery.stall_packets", "BRDMA_STALL_PACKETS",
        "packets that may come while the window's base stands still before its gap counts as lost; 0: any number",
        count<&R::stall_packets>(0, 1u << 20), kNow},
    Definition{"recovery.rnr_hold_us", "BRDMA_RNR_HOLD_US",
               "time that a message waits for a posted receive before the RNR NAK; 0: none",
               microseconds<&R::rnr_hold>(0, kSecond), kNow},
    Definition{"recovery.adaptive", "BRDMA_ADAPTIVE",
               "adapt depth_max, age_max and stall_max to packets that were only late", adaptive(), kNow},
    Definition{"recovery.ffm_threshold", "BRDMA_FFM_THRESHOLD",
               "gaps counted as lost from which an FFM leaves at once; fewer wait for age_max_us",
               count<&R::ffm_threshold>(1, 1024), kNow},
    Definition{"recovery.depth_ceiling", "BRDMA_DEPTH_CEILING", "highest depth_max that adaptive may reach, in packets",
               count<&R::depth_ceiling>(0, 1u << 20), kNow},
    Definition{"recovery.time_ceiling_us", "BRDMA_TIME_CEILING_US",
               "highest age_max and stall_max that adaptive may reach, unless a recovery takes longer; 0: not adapted",
               microseconds<&R::time_ceiling>(0, 10 * kSecond), kNow},
    Definition{"recovery.resend_interval_min_us", "BRDMA_RESEND_INTERVAL_MIN_US",
               "time between two retransmissions of a packet, at least (or a round trip if that is longer)",
               microseconds<&R::resend_interval_min>(0, kSecond), kNow},
    Definition{"recovery.aggregate_delay_us", "BRDMA_AGGREGATE_DELAY_US",
               "time that retransmissions wait to leave in one batch; larger: fewer sends, later recovery",
               microseconds<&R::aggregate_delay>(0, 100'000), kNow},
    Definition{"recovery.edn", "BRDMA_EDN", "apply explicit drop notifications (EDN) from switches", edn(), kNow},
    Definition{"recovery.edn_pause_max_us", "BRDMA_EDN_PAUSE_MAX_US",
               "time to wait, at most, for the queue of a full switch to drain; 0: none",
               microseconds<&R::edn_pause_max>(0, kSecond), kNow},
    Definition{"recovery.resend_window", "BRDMA_RESEND_WINDOW",
               "retransmitted packets in flight, at most; 0: as many as the window allows",
               count<&R::resend_window>(0, 1u << 20), kNow},
    Definition{"recovery.send_stall_min_us", "BRDMA_SEND_STALL_MIN_US",
               "time the send window may stand still while later packets arrive, at least (or 4 round trips)",
               microseconds<&R::send_stall_min>(100, 10 * kSecond), kNow},
    Definition{"recovery.probe_timeout_min_us", "BRDMA_PROBE_TIMEOUT_MIN_US",
               "tail loss probe: silence before the last packet is sent again, at least",
               microseconds<&R::probe_timeout_min>(10, kSecond), kNow},
    Definition{"recovery.retransmit_timeout_min_us", "BRDMA_RETRANSMIT_TIMEOUT_MIN_US",
               "first retransmission timeout, at least", microseconds<&R::retransmit_timeout_min>(100, 10 * kSecond),
               kNow},
    Definition{"recovery.ack_packets", "BRDMA_ACK_PACKETS",
               "packets after which an acknowledgement leaves, at the latest; larger: fewer acknowledgements",
               count<&R::ack_packets>(1, 4096), kNow},
    Definition{"recovery.ack_delay_us", "BRDMA_ACK_DELAY_US", "time an acknowledgement may wait for more packets",
               microseconds<&R::ack_delay>(0, 100'000), kNow},
    Definition{"recovery.hold_bytes_max", "BRDMA_HOLD_BYTES_MAX",
               "bytes of out-of-order packets that a queue pair holds; further ones are dropped",
               count<&R::hold_bytes_max>(0, 1u << 30)},
    Definition{"recovery.standard_window", "BRDMA_STANDARD_WINDOW",
               "packets in flight towards a peer that states no credit",
               count<&R::standard_window_packets>(1, 1u << 20), kNow},
    Definition{"recovery.stopped_peer_seconds", "BRDMA_STOPPED_PEER_SECONDS",
               "time for which retries do not fail while the peer's host reports its process as stopped; 0: retries "
               "alone count",
               seconds<&R::stopped_peer_max>(86400), kNow},
    Definition{"recovery.paths", "BRDMA_PATHS", "paths (UDP source ports) that a queue pair sends on",
               count<&R::paths>(1, kPathsMax), kNewPrograms},
    Definition{"recovery.path_bitmaps", "BRDMA_PATH_BITMAPS",
               "paths of a peer that a queue pair distinguishes; the peer sends on no more",
               count<&R::path_bitmaps>(1, kPathsMax)},
    Definition{"recovery.spraying", "BRDMA_SPRAYING", "choice of the next batch's path", spraying()},
    Definition{"congestion.control", "BRDMA_CONGESTION",
               "congestion control, which bounds sending beside window and credit", control(), kNow},
    Definition{"congestion.ecn", "BRDMA_ECN",
               "ECN field of packets sent; auto: ect0 with dcqcn and both, else untouched", ecn(), kNow},
    Definition{"congestion.edn", "BRDMA_CONGESTION_EDN", "drops reported by switches lower window or rate",
               congestion_edn(), kNow},
    Definition{"congestion.rate_first_mbps", "BRDMA_RATE_FIRST_MBPS",
               "rate of a queue pair with timely, dcqcn or both before its first RTT sample or CNP; 0: the port's",
               congestion<&C::rate_first_mbps>(0, 1'000'000), kNow},
    Definition{"congestion.rate_min_mbps", "BRDMA_RATE_MIN_MBPS", "lowest rate",
               congestion<&C::rate_min_mbps>(1, 1'000'000), kNow},
    Definition{"congestion.rate_max_mbps", "BRDMA_RATE_MAX_MBPS", "highest rate; 0: the port's",
               congestion<&C::rate_max_mbps>(0, 1'000'000), kNow},
    Definition{"congestion.burst_bytes", "BRDMA_BURST_BYTES", "bytes that may leave at once after a pause",
               congestion<&C::burst_bytes>(1, 1u << 26), kNow},
    Definition{"congestion.pace_interval_us", "BRDMA_PACE_INTERVAL_US",
               "time whose packets leave in one batch; larger: fewer timers, longer bursts",
               congestion_us<&C::pace_interval>(0, 10'000), kNow},
    Definition{"congestion.timely_alpha_permille", "BRDMA_TIMELY_ALPHA_PERMILLE",
               "TIMELY: weight of a new difference of round trips", congestion<&C::timely_alpha_permille>(1, 1000),
               kNow},
    Definition{"congestion.timely_beta_permille", "BRDMA_TIMELY_BETA_PERMILLE", "TIMELY: largest decrease of one step",
               congestion<&C::timely_beta_permille>(1, 1000), kNow},
    Definition{"congestion.timely_low_us", "BRDMA_TIMELY_LOW_US", "TIMELY: below this round trip the rate grows",
               congestion_us<&C::timely_low>(0, kSecond), kNow},
    Definition{"congestion.timely_high_us", "BRDMA_TIMELY_HIGH_US", "TIMELY: above this round trip the rate falls",
               congestion_us<&C::timely_high>(0, 10 * kSecond), kNow},
    Definition{"congestion.timely_min_rtt_us", "BRDMA_TIMELY_MIN_RTT_US",
               "TIMELY: the path's base round trip; 0: measured, and its excess over 20 added to low and high",
               congestion_us<&C::timely_min_rtt>(0, kSecond), kNow},
    Definition{"congestion.timely_add_mbps", "BRDMA_TIMELY_ADD_MBPS", "TIMELY: a step up",
               congestion<&C::timely_add_mbps>(1, 100'000), kNow},
    Definition{"congestion.timely_hyper_after", "BRDMA_TIMELY_HYPER_AFTER",
               "TIMELY: round trips in a row that do not rise before steps are longer",
               congestion<&C::timely_hyper_after>(1, 1000), kNow},
    Definition{"congestion.timely_hyper_factor", "BRDMA_TIMELY_HYPER_FACTOR", "TIMELY: factor of the longer steps",
               congestion<&C::timely_hyper_factor>(1, 1000), kNow},
    Definition{"congestion.dcqcn_g_shift", "BRDMA_DCQCN_G_SHIFT", "DCQCN: weight of a notification, 2^-this",
               congestion<&C::dcqcn_g_shift>(1, 16), kNow},
    Definition{"congestion.dcqcn_alpha_period_us", "BRDMA_DCQCN_ALPHA_PERIOD_US",
               "DCQCN: time without a notification after which alpha falls",
               congestion_us<&C::dcqcn_alpha_period>(1, kSecond), kNow},
    Definition{"congestion.dcqcn_increase_period_us", "BRDMA_DCQCN_INCREASE_PERIOD_US",
               "DCQCN: time after which the rate grows", congestion_us<&C::dcqcn_increase_period>(1, kSecond), kNow},
    Definition{"congestion.dcqcn_increase_bytes", "BRDMA_DCQCN_INCREASE_BYTES",
               "DCQCN: bytes sent after which the rate grows", congestion<&C::dcqcn_increase_bytes>(4096, 1u << 30),
               kNow},
    Definition{"congestion.dcqcn_fast_recovery", "BRDMA_DCQCN_FAST_RECOVERY",
               "DCQCN: steps halfway back before the target moves", congestion<&C::dcqcn_fast_recovery>(1, 1000), kNow},
    Definition{"congestion.dcqcn_additive_mbps", "BRDMA_DCQCN_ADDITIVE_MBPS", "DCQCN: a step of the target",
               congestion<&C::dcqcn_additive_mbps>(1, 100'000), kNow},
    Definition{"congestion.dcqcn_hyper_mbps", "BRDMA_DCQCN_HYPER_MBPS",
               "DCQCN: a step of the target where both counters are beyond fast recovery",
               congestion<&C::dcqcn_hyper_mbps>(1, 100'000), kNow},
    Definition{"congestion.cnp_interval_us", "BRDMA_CNP_INTERVAL_US",
               "time between two notifications of marked packets to one peer; 0: none",
               congestion_us<&C::cnp_interval>(0, kSecond), kNow},
    Definition{"wan.delay_samples", "BRDMA_WAN_DELAY_SAMPLES",
               "N: last send delays that mean and deviation are computed from", wan<&W::delay_samples>(1, 65536)},
    Definition{"wan.walk_interval_us", "BRDMA_WAN_WALK_INTERVAL_US", "k: time between two searches for overdue packets",
               wan_us<&W::walk_interval>(1, kSecond), kNow},
    Definition{"wan.inquiry_timeouts", "BRDMA_WAN_INQUIRY_TIMEOUTS",
               "x: packets that time out before links are inquired; 0: never", wan<&W::inquiry_timeouts>(0, 1u << 20),
               kNow},
    Definition{"wan.inquiry_interval_us", "BRDMA_WAN_INQUIRY_INTERVAL_US",
               "time between two inquiries of a queue pair, at least", wan_us<&W::inquiry_interval>(1000, 60 * kSecond),
               kNow},
    Definition{"wan.hop_limit", "BRDMA_WAN_HOP_LIMIT", "hops that may answer an inquiry", wan<&W::hop_limit>(1, 64),
               kNow},
    Definition{"wan.link_queue_percent", "BRDMA_WAN_LINK_QUEUE_PERCENT",
               "share of its queue in use from which a link is congested", wan<&W::link_queue_percent>(1, 100), kNow},
    Definition{"wan.link_speed_percent", "BRDMA_WAN_LINK_SPEED_PERCENT",
               "share of its rate up to which a forwarding link is congested", wan<&W::link_speed_percent>(0, 100),
               kNow},
    Definition{"wan.congested_links", "BRDMA_WAN_CONGESTED_LINKS",
               "congested links above which the destination is managed; up to it the controller is notified",
               wan<&W::congested_links>(0, 64), kNow},
    Definition{"wan.visit_interval_us", "BRDMA_WAN_VISIT_INTERVAL_US", "m: time between visits of the managed list",
               wan_us<&W::visit_interval>(1000, 60 * kSecond), kNow},
    Definition{"wan.managed_rate_percent", "BRDMA_WAN_MANAGED_RATE_PERCENT",
               "rate of a managed destination, of its recently delivered rate", wan<&W::managed_rate_percent>(1, 100),
               kNow},
    Definition{"wan.managed_weight_percent", "BRDMA_WAN_MANAGED_WEIGHT_PERCENT",
               "share of a managed destination's queue pairs in a turn of all", wan<&W::managed_weight_percent>(1, 100),
               kNow},
    Definition{"wan.managed_dscp", "BRDMA_WAN_MANAGED_DSCP",
               "DSCP of packets to a managed destination, for switches that serve it later; 64: the program's",
               managed_dscp(), kNow},
    Definition{"wan.managed_rate_min_mbps", "BRDMA_WAN_MANAGED_RATE_MIN_MBPS", "lowest rate of a managed destination",
               wan<&W::managed_rate_min_mbps>(1, 1'000'000), kNow},
    Definition{"wan.managed_raise_percent", "BRDMA_WAN_MANAGED_RAISE_PERCENT",
               "share of the lowered rate that a visit restores", wan<&W::managed_raise_percent>(1, 100), kNow},
    Definition{"wan.managed_wait_percent", "BRDMA_WAN_MANAGED_WAIT_PERCENT",
               "largest acknowledgement wait at which a visit restores rate, of the shortest one",
               wan<&W::managed_wait_percent>(100, 10'000), kNow},
    Definition{"transfer.threshold_bytes", "BRDMA_TRANSFER_THRESHOLD",
               "bytes from which a WRITE or SEND counts as a large transfer, sent after the others; 0: none does",
               transfer<&T::threshold_bytes>(0, 1u << 30), kNow},
    Definition{"transfer.segment_bytes", "BRDMA_TRANSFER_SEGMENT",
               "bytes of one segment of a large transfer, rounded down to 1, 2, 4 .. 128 packets; 0: undivided",
               transfer<&T::segment_bytes>(0, 512u * 1024), kNow},
    Definition{"transfer.escape_bytes_max", "BRDMA_ESCAPE_BYTES_MAX",
               "bytes of packets that a queue pair keeps before the start of their operation",
               transfer<&T::escape_bytes_max>(0, 1u << 30)},
    Definition{"transfer.escape_time_us", "BRDMA_ESCAPE_TIME_US",
               "time that a queue pair keeps those packets, or a few round trips if that is longer",
               in_us<&Settings::transfer, &TransferConfig::escape_time>(10, 10'000'000), kNow},
    Definition{"transfer.regular_turns", "BRDMA_REGULAR_TURNS",
               "batches of small commands in a row while large transfers wait",
               transfer<&T::regular_turns>(1, 1u << 20), kNow},
    Definition{"transfer.local", "BRDMA_LOCAL",
               "data between processes of one user on this host is fetched from memory instead of sent", local(), kNow},
    Definition{"transfer.local_threshold_bytes", "BRDMA_LOCAL_THRESHOLD",
               "bytes from which a message's data is fetched from memory instead of sent",
               transfer<&T::local_threshold_bytes>(1, 1u << 30), kNow},
    Definition{"alarm.retransmission_percent", "BRDMA_ALARM_RETRANSMISSION_PERCENT",
               "packets sent again in a second, of the data packets sent; 0: no alarm",
               whole<&Settings::alarms, &AlarmThresholds::retransmission_percent>(0, 1000), kNow},
    Definition{"alarm.queue_pairs_percent", "BRDMA_ALARM_QUEUE_PAIRS_PERCENT",
               "queue pairs of all programs of the device, of recovery.qps_max; 0: no alarm",
               whole<&Settings::alarms, &AlarmThresholds::queue_pairs_percent>(0, 100), kNow},
    Definition{"alarm.state_percent", "BRDMA_ALARM_STATE_PERCENT",
               "bytes of bitmaps of all programs of the device, of recovery.device_state_bytes_max; 0: no alarm",
               whole<&Settings::alarms, &AlarmThresholds::state_percent>(0, 1000), kNow},
    Definition{"alarm.stall_seconds", "BRDMA_ALARM_STALL_SECONDS",
               "time for which a queue pair's send window stands still; 0: no alarm",
               whole<&Settings::alarms, &AlarmThresholds::stall_seconds>(0, 3600), kNow},
    Definition{
        "datapath.receive", "BRDMA_DATAPATH",
        "socket that packets are received on; auto: AF_XDP where the driver leaves them in place (zero copy), else UDP",
        datapath(), kNewPrograms},
    Definition{
        "datapath.transmit", "BRDMA_TRANSMIT",
        "where packets leave by; auto: single small ones by AF_XDP where packets come by it and the right to send "
        "is there, else UDP",
        transmit_datapath(), kNewPrograms},
    Definition{"datapath.xdp_mode", "BRDMA_XDP_MODE", "hook of the AF_XDP socket; auto: the first of them that works",
               xdp_mode(), kNewPrograms},
    Definition{"datapath.xdp_chunks", "BRDMA_XDP_CHUNKS",
               "chunks of 4096 bytes that an AF_XDP socket receives into; a packet takes one or two",
               whole<&Settings::datapath, &DatapathConfig::xdp_chunks>(64, 65'536, true), kNewPrograms},
    Definition{"datapath.shards", "BRDMA_SHARDS",
               "parts of a device that a program opens, each with a socket, a lock and a thread of its own, so that "
               "threads of the program do not wait for each other",
               whole<&Settings::datapath, &DatapathConfig::shards>(1, kShardsMax), kNewPrograms},
    Definition{"datapath.poll_stay_max_us", "BRDMA_POLL_STAY_MAX_US",
               "time for which a poll may stay for the peer's next message, after it has a completion or has found "
               "nothing; larger: long messages without the progress thread, later completions; 0: it returns at once",
               in_us<&Settings::datapath, &DatapathConfig::poll_stay_max>(0, 20'000), kNewPrograms},
    Definition{"device.loopback", "BRDMA_LO", "show brdma_lo even where there are other devices", loopback(),
               kNewPrograms},
    Definition{"device.kernel_rdma_cm", "BRDMA_KERNEL_RDMA_CM",
               "RDMA-CM is the kernel's and knows its devices, instead of ours", kernel_rdma_cm(), kNewPrograms},
    Definition{"rdma_cm.ack_timeout", "BRDMA_RDMA_CM_ACK_TIMEOUT",
               "local ACK timeout of queue pairs that RDMA-CM connects, 4.096 us * 2^n, where the program names none",
               whole<&Settings::rdma_cm_ack_timeout>(1, 31), kNewPrograms},
    Definition{
        "device.port_rate_mbps", "BRDMA_PORT_RATE_MBPS",
        "Mbit/s that the port carries: first and highest rate with timely, dcqcn or both; 0: as its interface says",
        whole<&Settings::port_rate_mbps>(0, 1'000'000), kNewPrograms},
    Definition{"device.seed", "BRDMA_SEED", "makes keys and first PSNs repeatable; 0: random", seed(), kNewPrograms},
    Definition{"daemon.path", "BRDMA_DAEMON", "the program brdmad; empty: beside the library, then in PATH",
               TextSetting{&Settings::daemon_path}, kNewPrograms},
    Definition{"daemon.idle_seconds", "BRDMA_IDLE_SECONDS", "time without work after which brdmad exits; 0: never",
               whole<&Settings::idle_seconds>(0, 86'400), kNewPrograms},
    Definition{"controller.address", "BRDMA_CONTROLLER",
               "the wide-area controller that brdmad keeps a session with; empty: none",
               TextSetting{&Settings::controller_address, TextSetting::Form::kEndpoint}, kNewPrograms},
    Definition{"controller.key_file", "BRDMA_CONTROLLER_KEY", "file with this host's key for it",
               TextSetting{&Settings::controller_key_file}, kNewPrograms},
    Definition{"controller.name", "BRDMA_CONTROLLER_NAME", "whose key of that file is this host's; empty: it has one",
               TextSetting{&Settings::controller_name, TextSetting::Form::kName}, kNewPrograms},
    Definition{"metrics.listen", "BRDMA_METRICS_LISTEN",
               "where brdma metrics serve answers Prometheus, unless its --listen says it; empty: nowhere",
               TextSetting{&Settings::metrics_listen, TextSetting::Form::kEndpoint}, kNewPrograms},
};

std::optional<std::uint64_t> parse_number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

bool assign_choice(const ChoiceSetting& choice, std::string_view text, Settings& settings) {
  // Switches are usually set as 0 and 1 in an environment.
  if (choice.words.data() == kSwitch.data() && (text == "0" || text == "1")) text = kSwitch[text == "1" ? 1 : 0];
  for (std::size_t i = 0; i < choice.words.size(); ++i) {
    if (choice.words[i] != text) continue;
    choice.set(settings, i);
    return true;
  }
  return false;
}

}  // namespace

std::span<const Definition> definitions() { return kDefinitions; }

std::string_view name(Applies applies) {
  constexpr std::array<std::string_view, 3> kNames{"new queue pairs", "now", "new programs"};
  return kNames[static_cast<std::size_t>(applies)];
}

std::string_view given_by_verbs(std::string_view key) {
  if (key != "start_psn" && key != "recovery.start_psn") return {};
  return "recovery.start_psn cannot be set: the program gives it, by ibv_modify_qp (rq_psn, sq_psn) or its connection "
         "manager; 'brdma recovery show qp N' shows it";
}

const Definition* find_definition(std::string_view key) {
  for (const Definition& definition : kDefinitions) {
    if (definition.key == key || definition.key.substr(definition.key.find('.') + 1) == key) return &definition;
  }
  return nullptr;
}

std::string allowed_text(const Definition& definition) {
  if (const auto* number = std::get_if<NumberSetting>(&definition.kind)) {
    return std::to_string(number->min) + ".." + std::to_string(number->max) +
           (number->power_of_two ? ", a power of two" : "");
  }
  if (const auto* choice = std::get_if<ChoiceSetting>(&definition.kind)) {
    std::string words;
    for (const std::string_view word : choice->words) words.append(words.empty() ? "" : "|").append(word);
    return words;
  }
  switch (std::get<TextSetting>(definition.kind).form) {
    case TextSetting::Form::kEndpoint:
      return "ADDRESS:PORT, unix:PATH";
    case TextSetting::Form::kName:
      return "a name";
    default:
      return "an absolute path";
  }
}

std::string value_text(const Definition& definition, const Settings& settings) {
  if (const auto* number = std::get_if<NumberSetting>(&definition.kind)) return std::to_string(number->get(settings));
  if (const auto* choice = std::get_if<ChoiceSetting>(&definition.kind)) {
    return std::string(choice->words[choice->get(settings)]);
  }
  return settings.*std::get<TextSetting>(definition.kind).member;
}

bool assign(const Definition& definition, std::string_view text, Settings& settings) {
  if (const auto* number = std::get_if<NumberSetting>(&definition.kind)) {
    const auto value = parse_number(text);
    if (!value || *value < number->min || *value > number->max) return false;
    if (number->power_of_two && !std::has_single_bit(*value)) return false;
    number->set(settings, *value);
    return true;
  }
  if (const auto* choice = std::get_if<ChoiceSetting>(&definition.kind)) return assign_choice(*choice, text, settings);
  const auto& kind = std::get<TextSetting>(definition.kind);
  if (kind.form == TextSetting::Form::kPath && !text.empty() && text.front() != '/') return false;
  settings.*kind.member = text;
  return true;
}

}  // namespace brdma::control
