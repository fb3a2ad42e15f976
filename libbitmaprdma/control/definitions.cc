#include "control/definitions.h"

#include <array>
#include <bit>
#include <charconv>

#include "control/setting_kinds.h"

namespace brdma::control {
namespace {

using namespace kinds;

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
    Definition{"recovery.mode", "BRDMA_RECOVERY",
               "Loss recovery. bitmap: bitmap mode where the peer has it, else standard. standard: RoCEv2's, early "
               "packets held. gobackn: RoCEv2's, nothing held. selective: the sender alone, by TCP's rules. wan, "
               "wan_ffm: by the wait for acknowledgements, without and with the receiver's FFMs.",
               mode()},
    Definition{"recovery.window", "BRDMA_WINDOW",
               "Packets in flight of a queue pair, each way. Larger: the full rate on longer paths, more memory.",
               count<&R::window_packets>(16, 1u << 20, true)},
    Definition{
        "recovery.base_packets", "BRDMA_BASE_PACKETS",
        "Length of a bitmap while little is in flight. Larger: fewer extensions, more memory for each idle queue pair.",
        count<&R::base_packets>(64, 1u << 16, true)},
    Definition{"recovery.extension_packets", "BRDMA_EXTENSION_PACKETS",
               "Step by which a bitmap becomes longer. Larger: fewer extensions, more memory that may stay unused.",
               count<&R::extension_packets>(64, 1u << 20, true)},
    Definition{"recovery.segment_packets", "BRDMA_SEGMENT_PACKETS",
               "Packets of a segment of a longer bitmap. A shorter step counts as one segment. Larger: fewer segments "
               "to visit, memory in larger pieces.",
               count<&R::segment_packets>(64, 1u << 16, true)},
    Definition{"recovery.granularity", "BRDMA_GRANULARITY",
               "Packets that one bit of the receive bitmap stands for. Larger: less memory, and early packets of "
               "incomplete bits are limited.",
               count<&R::granularity>(1, 64, true)},
    Definition{
        "recovery.slide_step", "BRDMA_SLIDE_STEP",
        "Packets by which the edge of a window moves at a time. Larger: fewer moves, later room for new packets.",
        count<&R::slide_step>(1, 1024, true)},
    Definition{"recovery.qps_max", "BRDMA_QPS_MAX",
               "Queue pairs that all programs of a device may have together. Larger: more memory.",
               count<&R::qps_max>(1, 32768)},
    Definition{"recovery.device_state_bytes_max", "BRDMA_DEVICE_STATE_BYTES_MAX",
               "Bytes of bitmaps of all programs of a device. Beyond, no program gets another queue pair. Larger: more "
               "memory.",
               count<&R::device_state_bytes_max>(1u << 16, 0xFFFF'FFFF)},
    Definition{"recovery.state_bytes_max", "BRDMA_STATE_BYTES_MAX",
               "Bytes of bitmaps and records of a queue pair, payload apart. Beyond, it drops early packets. Larger: "
               "more memory, fewer such drops.",
               count<&R::state_bytes_max>(1u << 16, 1u << 30)},
    Definition{"recovery.depth_max", "BRDMA_DEPTH_MAX",
               "Packets that may overtake a missing one before it counts as lost. Larger: more reordering tolerated, "
               "later recovery.",
               count<&R::depth_max>(0, 1u << 20), kNow},
    Definition{"recovery.age_max_us", "BRDMA_AGE_MAX_US",
               "Time that a packet may be missing before it counts as lost. Larger: more reordering tolerated, later "
               "recovery.",
               microseconds<&R::age_max>(0, 10 * kSecond), kNow},
    Definition{"recovery.stall_max_us", "BRDMA_STALL_MAX_US",
               "Time that the window's base may stand still before its gap counts as lost. Larger: more reordering "
               "tolerated, later recovery.",
               microseconds<&R::stall_max>(0, 10 * kSecond), kNow},
    Definition{"recovery.stall_packets", "BRDMA_STALL_PACKETS",
               "Packets that may arrive while the window's base stands still before its gap counts as lost. Larger: "
               "later recovery. 0: any number.",
               count<&R::stall_packets>(0, 1u << 20), kNow},
    Definition{"recovery.rnr_hold_us", "BRDMA_RNR_HOLD_US",
               "Time that a message waits for a posted receive before the RNR NAK. Larger: fewer NAKs and "
               "retransmissions, slower peers wait longer. 0: none.",
               microseconds<&R::rnr_hold>(0, kSecond), kNow},
    Definition{"recovery.adaptive", "BRDMA_ADAPTIVE",
               "Adapt depth_max, age_max and stall_max to packets that were late and not lost.", adaptive(), kNow},
    Definition{"recovery.ffm_threshold", "BRDMA_FFM_THRESHOLD",
               "Gaps counted as lost from which an FFM leaves at once. Fewer wait for age_max_us. Larger: fewer FFMs, "
               "later recovery.",
               count<&R::ffm_threshold>(1, 1024), kNow},
    Definition{
        "recovery.depth_ceiling", "BRDMA_DEPTH_CEILING",
        "Highest depth_max that adaptive may reach, in packets. Larger: more reordering tolerated, later recovery.",
        count<&R::depth_ceiling>(0, 1u << 20), kNow},
    Definition{"recovery.time_ceiling_us", "BRDMA_TIME_CEILING_US",
               "Highest age_max and stall_max that adaptive may reach, unless a recovery takes longer. Larger: more "
               "reordering tolerated, later recovery. 0: not adapted.",
               microseconds<&R::time_ceiling>(0, 10 * kSecond), kNow},
    Definition{"recovery.resend_interval_min_us", "BRDMA_RESEND_INTERVAL_MIN_US",
               "Shortest time between two retransmissions of a packet; a round trip if that is longer. Larger: fewer "
               "duplicates, later recovery of lost retransmissions.",
               microseconds<&R::resend_interval_min>(0, kSecond), kNow},
    Definition{"recovery.aggregate_delay_us", "BRDMA_AGGREGATE_DELAY_US",
               "Time that retransmissions wait to leave in one batch. Larger: fewer sends, later recovery.",
               microseconds<&R::aggregate_delay>(0, 100'000), kNow},
    Definition{"recovery.edn", "BRDMA_EDN", "Apply explicit drop notifications (EDN) from switches.", edn(), kNow},
    Definition{"recovery.edn_pause_max_us", "BRDMA_EDN_PAUSE_MAX_US",
               "Longest wait for the queue of a full switch to drain. Larger: fewer drops, more idle time. 0: none.",
               microseconds<&R::edn_pause_max>(0, kSecond), kNow},
    Definition{"recovery.resend_window", "BRDMA_RESEND_WINDOW",
               "Retransmitted packets in flight. Larger: faster recovery of many losses, more load on a full queue. 0: "
               "as many as the window allows.",
               count<&R::resend_window>(0, 1u << 20), kNow},
    Definition{"recovery.send_stall_min_us", "BRDMA_SEND_STALL_MIN_US",
               "Shortest time that the send window may stand still while later packets arrive; 4 round trips if that "
               "is longer. Larger: fewer spurious retransmissions, later recovery.",
               microseconds<&R::send_stall_min>(100, 10 * kSecond), kNow},
    Definition{"recovery.probe_timeout_min_us", "BRDMA_PROBE_TIMEOUT_MIN_US",
               "Shortest silence before a tail loss probe sends the last packet again. Larger: fewer spurious probes, "
               "later recovery of a lost tail.",
               microseconds<&R::probe_timeout_min>(10, kSecond), kNow},
    Definition{"recovery.retransmit_timeout_min_us", "BRDMA_RETRANSMIT_TIMEOUT_MIN_US",
               "Shortest first retransmission timeout. Larger: fewer spurious timeouts, later recovery.",
               microseconds<&R::retransmit_timeout_min>(100, 10 * kSecond), kNow},
    Definition{"recovery.ack_packets", "BRDMA_ACK_PACKETS",
               "Packets after which an acknowledgement leaves, at the latest. Larger: fewer acknowledgements, later "
               "room in the peer's window.",
               count<&R::ack_packets>(1, 4096), kNow},
    Definition{
        "recovery.ack_delay_us", "BRDMA_ACK_DELAY_US",
        "Time that an acknowledgement may wait for more packets. Larger: fewer acknowledgements, later completions.",
        microseconds<&R::ack_delay>(0, 100'000), kNow},
    Definition{"recovery.hold_bytes_max", "BRDMA_HOLD_BYTES_MAX",
               "Bytes of out-of-order packets that a queue pair holds. Beyond, they are dropped. Larger: fewer such "
               "drops, more memory.",
               count<&R::hold_bytes_max>(0, 1u << 30)},
    Definition{"recovery.standard_window", "BRDMA_STANDARD_WINDOW",
               "Packets in flight towards a peer that states no credit. Larger: a higher rate, more drops at a peer "
               "with a small buffer.",
               count<&R::standard_window_packets>(1, 1u << 20), kNow},
    Definition{"recovery.stopped_peer_seconds", "BRDMA_STOPPED_PEER_SECONDS",
               "Time for which retries do not fail while the peer's host reports its process as stopped. Larger: "
               "longer debugging sessions survive, later errors. 0: the host is not queried.",
               seconds<&R::stopped_peer_max>(86400), kNow},
    Definition{
        "recovery.paths", "BRDMA_PATHS",
        "Paths (UDP source ports) that a queue pair sends on. Larger: more of equal-cost paths used, more reordering.",
        count<&R::paths>(1, kPathsMax), kNewPrograms},
    Definition{"recovery.path_bitmaps", "BRDMA_PATH_BITMAPS",
               "Paths of a peer that a queue pair distinguishes; the peer sends on no more. Larger: more memory.",
               count<&R::path_bitmaps>(1, kPathsMax)},
    Definition{"recovery.spraying", "BRDMA_SPRAYING",
               "Choice of the next batch's path. round_robin: in turn. least_rtt: the shortest round trip. weighted: "
               "in turn, more often with a short round trip and few losses.",
               spraying()},
    Definition{"congestion.control", "BRDMA_CONGESTION",
               "Bound on sending beside window and credit. window: bytes in flight by round trips. paced: the same, "
               "spread over a round trip. timely: a rate by round trips. dcqcn: a rate by notifications. both: the "
               "lower of these two rates. none: nothing.",
               control(), kNow},
    Definition{"congestion.ecn", "BRDMA_ECN",
               "ECN field of packets sent. auto: ect0 with dcqcn and both, else as the program set its traffic class.",
               ecn(), kNow},
    Definition{"congestion.edn", "BRDMA_CONGESTION_EDN", "Lower the window or rate for drops that switches report.",
               congestion_edn(), kNow},
    Definition{"congestion.rate_first_mbps", "BRDMA_RATE_FIRST_MBPS",
               "Rate of a queue pair with timely, dcqcn or both before its first RTT sample or CNP. Larger: a faster "
               "start, more drops in a busy network. 0: the port's.",
               congestion<&C::rate_first_mbps>(0, 1'000'000), kNow},
    Definition{"congestion.rate_min_mbps", "BRDMA_RATE_MIN_MBPS",
               "Lowest rate that timely, dcqcn or both set. Larger: less idle time, more load on a congested path.",
               congestion<&C::rate_min_mbps>(1, 1'000'000), kNow},
    Definition{"congestion.rate_max_mbps", "BRDMA_RATE_MAX_MBPS",
               "Highest rate that timely, dcqcn or both set. Larger: more throughput, longer queues. 0: the port's.",
               congestion<&C::rate_max_mbps>(0, 1'000'000), kNow},
    Definition{
        "congestion.burst_bytes", "BRDMA_BURST_BYTES",
        "Bytes that may leave at once after a pause of the pacer. Larger: late timers are made up for, longer bursts.",
        congestion<&C::burst_bytes>(1, 1u << 26), kNow},
    Definition{"congestion.pace_interval_us", "BRDMA_PACE_INTERVAL_US",
               "Time whose packets leave in one batch. Larger: fewer timers, longer bursts.",
               congestion_us<&C::pace_interval>(0, 10'000), kNow},
    Definition{
        "congestion.timely_alpha_permille", "BRDMA_TIMELY_ALPHA_PERMILLE",
        "TIMELY: weight of a new difference of round trips, in thousandths. Larger: a faster reaction, more noise.",
        congestion<&C::timely_alpha_permille>(1, 1000), kNow},
    Definition{"congestion.timely_beta_permille", "BRDMA_TIMELY_BETA_PERMILLE",
               "TIMELY: largest decrease of one step, in thousandths of the rate. Larger: a faster decrease, less "
               "throughput after it.",
               congestion<&C::timely_beta_permille>(1, 1000), kNow},
    Definition{"congestion.timely_low_us", "BRDMA_TIMELY_LOW_US",
               "TIMELY: round trip below which the rate grows. Larger: more throughput, longer queues.",
               congestion_us<&C::timely_low>(0, kSecond), kNow},
    Definition{"congestion.timely_high_us", "BRDMA_TIMELY_HIGH_US",
               "TIMELY: round trip above which the rate falls. Larger: more throughput, longer queues.",
               congestion_us<&C::timely_high>(0, 10 * kSecond), kNow},
    Definition{"congestion.timely_min_rtt_us", "BRDMA_TIMELY_MIN_RTT_US",
               "TIMELY: base round trip of the path. Larger: less reaction to each difference. 0: measured, and its "
               "excess over 20 us added to timely_low_us and timely_high_us.",
               congestion_us<&C::timely_min_rtt>(0, kSecond), kNow},
    Definition{"congestion.timely_add_mbps", "BRDMA_TIMELY_ADD_MBPS",
               "TIMELY: step by which the rate grows. Larger: a faster increase, larger swings.",
               congestion<&C::timely_add_mbps>(1, 100'000), kNow},
    Definition{"congestion.timely_hyper_after", "BRDMA_TIMELY_HYPER_AFTER",
               "TIMELY: round trips in a row without a rise before the steps become longer. Larger: later long steps.",
               congestion<&C::timely_hyper_after>(1, 1000), kNow},
    Definition{"congestion.timely_hyper_factor", "BRDMA_TIMELY_HYPER_FACTOR",
               "TIMELY: factor of the longer steps. Larger: a faster increase, larger swings.",
               congestion<&C::timely_hyper_factor>(1, 1000), kNow},
    Definition{"congestion.dcqcn_g_shift", "BRDMA_DCQCN_G_SHIFT",
               "DCQCN: weight of a notification is 2 to the power of minus this. Larger: a slower, steadier reaction.",
               congestion<&C::dcqcn_g_shift>(1, 16), kNow},
    Definition{"congestion.dcqcn_alpha_period_us", "BRDMA_DCQCN_ALPHA_PERIOD_US",
               "DCQCN: time without a notification after which alpha falls. Larger: stronger decreases for longer.",
               congestion_us<&C::dcqcn_alpha_period>(1, kSecond), kNow},
    Definition{"congestion.dcqcn_increase_period_us", "BRDMA_DCQCN_INCREASE_PERIOD_US",
               "DCQCN: time after which the rate grows. Larger: a slower increase.",
               congestion_us<&C::dcqcn_increase_period>(1, kSecond), kNow},
    Definition{"congestion.dcqcn_increase_bytes", "BRDMA_DCQCN_INCREASE_BYTES",
               "DCQCN: bytes sent after which the rate grows. Larger: a slower increase.",
               congestion<&C::dcqcn_increase_bytes>(4096, 1u << 30), kNow},
    Definition{"congestion.dcqcn_fast_recovery", "BRDMA_DCQCN_FAST_RECOVERY",
               "DCQCN: steps halfway back to the target before the target grows. Larger: a slower increase beyond the "
               "old rate.",
               congestion<&C::dcqcn_fast_recovery>(1, 1000), kNow},
    Definition{"congestion.dcqcn_additive_mbps", "BRDMA_DCQCN_ADDITIVE_MBPS",
               "DCQCN: step by which the target grows. Larger: a faster increase, larger swings.",
               congestion<&C::dcqcn_additive_mbps>(1, 100'000), kNow},
    Definition{"congestion.dcqcn_hyper_mbps", "BRDMA_DCQCN_HYPER_MBPS",
               "DCQCN: step by which the target grows where time and bytes are both beyond fast recovery. Larger: a "
               "faster increase, larger swings.",
               congestion<&C::dcqcn_hyper_mbps>(1, 100'000), kNow},
    Definition{"congestion.cnp_interval_us", "BRDMA_CNP_INTERVAL_US",
               "Shortest time between two congestion notifications (CNP) to one peer for marked packets. Larger: fewer "
               "packets, a slower reaction of the peer. 0: none is sent.",
               congestion_us<&C::cnp_interval>(0, kSecond), kNow},
    Definition{
        "wan.delay_samples", "BRDMA_WAN_DELAY_SAMPLES",
        "N: last send delays that mean and deviation are computed from. Larger: steadier limits, slower adaptation.",
        wan<&W::delay_samples>(1, 65536)},
    Definition{"wan.walk_interval_us", "BRDMA_WAN_WALK_INTERVAL_US",
               "k: time between two searches for overdue packets. Larger: less CPU time, later recovery.",
               wan_us<&W::walk_interval>(1, kSecond), kNow},
    Definition{"wan.inquiry_timeouts", "BRDMA_WAN_INQUIRY_TIMEOUTS",
               "x: packets that time out before links are inquired. Larger: fewer inquiries, later reaction. 0: never.",
               wan<&W::inquiry_timeouts>(0, 1u << 20), kNow},
    Definition{"wan.inquiry_interval_us", "BRDMA_WAN_INQUIRY_INTERVAL_US",
               "Shortest time between two inquiries of a queue pair. Larger: fewer inquiries, later reaction.",
               wan_us<&W::inquiry_interval>(1000, 60 * kSecond), kNow},
    Definition{"wan.hop_limit", "BRDMA_WAN_HOP_LIMIT",
               "Hops that may reply to an inquiry. Larger: longer paths are seen, more replies.",
               wan<&W::hop_limit>(1, 64), kNow},
    Definition{"wan.link_queue_percent", "BRDMA_WAN_LINK_QUEUE_PERCENT",
               "Share of its queue in use from which a link counts as congested. Larger: fewer links count.",
               wan<&W::link_queue_percent>(1, 100), kNow},
    Definition{"wan.link_speed_percent", "BRDMA_WAN_LINK_SPEED_PERCENT",
               "Share of its rate up to which a forwarding link counts as congested. Larger: more links count.",
               wan<&W::link_speed_percent>(0, 100), kNow},
    Definition{"wan.congested_links", "BRDMA_WAN_CONGESTED_LINKS",
               "Congested links above which the destination is managed; up to it the controller is notified. Larger: "
               "fewer destinations are managed.",
               wan<&W::congested_links>(0, 64), kNow},
    Definition{"wan.visit_interval_us", "BRDMA_WAN_VISIT_INTERVAL_US",
               "m: time between two visits of the managed list. Larger: rates stay low for longer.",
               wan_us<&W::visit_interval>(1000, 60 * kSecond), kNow},
    Definition{"wan.managed_rate_percent", "BRDMA_WAN_MANAGED_RATE_PERCENT",
               "Rate of a managed destination, as a share of its recently delivered rate. Larger: more throughput, "
               "slower relief of the links.",
               wan<&W::managed_rate_percent>(1, 100), kNow},
    Definition{"wan.managed_weight_percent", "BRDMA_WAN_MANAGED_WEIGHT_PERCENT",
               "Share that queue pairs of a managed destination get of a turn of all. Larger: more of the turn, less "
               "for the others.",
               wan<&W::managed_weight_percent>(1, 100), kNow},
    Definition{"wan.managed_dscp", "BRDMA_WAN_MANAGED_DSCP",
               "DSCP of packets to a managed destination, for switches that serve it later. 64: the program's.",
               managed_dscp(), kNow},
    Definition{"wan.managed_rate_min_mbps", "BRDMA_WAN_MANAGED_RATE_MIN_MBPS",
               "Lowest rate of a managed destination. Larger: less idle time, more load on congested links.",
               wan<&W::managed_rate_min_mbps>(1, 1'000'000), kNow},
    Definition{
        "wan.managed_raise_percent", "BRDMA_WAN_MANAGED_RAISE_PERCENT",
        "Share of the lowered rate that a visit restores. Larger: an earlier full rate, an earlier next congestion.",
        wan<&W::managed_raise_percent>(1, 100), kNow},
    Definition{"wan.managed_wait_percent", "BRDMA_WAN_MANAGED_WAIT_PERCENT",
               "Longest wait for acknowledgements at which a visit restores rate, as a share of the shortest wait. "
               "Larger: rates are restored earlier.",
               wan<&W::managed_wait_percent>(100, 10'000), kNow},
    Definition{"transfer.threshold_bytes", "BRDMA_TRANSFER_THRESHOLD",
               "Bytes from which a WRITE or SEND counts as a large transfer, which is sent after the others. Larger: "
               "fewer count. 0: none does.",
               transfer<&T::threshold_bytes>(0, 1u << 30), kNow},
    Definition{"transfer.segment_bytes", "BRDMA_TRANSFER_SEGMENT",
               "Bytes of one segment of a large transfer, rounded down to 1, 2, 4 .. 128 packets. Larger: fewer "
               "segments, coarser progress. 0: undivided.",
               transfer<&T::segment_bytes>(0, 512u * 1024), kNow},
    Definition{"transfer.escape_bytes_max", "BRDMA_ESCAPE_BYTES_MAX",
               "Bytes of packets that a queue pair keeps before the start of their operation. Beyond, they are "
               "dropped. Larger: fewer such drops, more memory.",
               transfer<&T::escape_bytes_max>(0, 1u << 30)},
    Definition{"transfer.escape_time_us", "BRDMA_ESCAPE_TIME_US",
               "Time that a queue pair keeps packets before the start of their operation; a few round trips if that is "
               "longer. Larger: fewer drops, memory held for longer.",
               in_us<&Settings::transfer, &TransferConfig::escape_time>(10, 10'000'000), kNow},
    Definition{"transfer.regular_turns", "BRDMA_REGULAR_TURNS",
               "Batches of small commands in a row while large transfers wait. Larger: shorter waits of small "
               "commands, slower large transfers.",
               transfer<&T::regular_turns>(1, 1u << 20), kNow},
    Definition{"transfer.local", "BRDMA_LOCAL",
               "Copy data between processes of one user on this host from memory, instead of sending it.", local(),
               kNow},
    Definition{"transfer.local_threshold_bytes", "BRDMA_LOCAL_THRESHOLD",
               "Bytes from which a message's data is copied from memory instead of sent. Larger: more messages are "
               "sent in packets.",
               transfer<&T::local_threshold_bytes>(1, 1u << 30), kNow},
    Definition{"alarm.retransmission_percent", "BRDMA_ALARM_RETRANSMISSION_PERCENT",
               "Packets retransmitted in a second from which the alarm is raised, as a share of the data packets sent. "
               "Larger: fewer alarms. 0: no alarm.",
               whole<&Settings::alarms, &AlarmThresholds::retransmission_percent>(0, 1000), kNow},
    Definition{"alarm.queue_pairs_percent", "BRDMA_ALARM_QUEUE_PAIRS_PERCENT",
               "Queue pairs of all programs of the device from which the alarm is raised, as a share of "
               "recovery.qps_max. Larger: fewer alarms. 0: no alarm.",
               whole<&Settings::alarms, &AlarmThresholds::queue_pairs_percent>(0, 100), kNow},
    Definition{"alarm.state_percent", "BRDMA_ALARM_STATE_PERCENT",
               "Bytes of bitmaps of all programs of the device from which the alarm is raised, as a share of "
               "recovery.device_state_bytes_max. Larger: fewer alarms. 0: no alarm.",
               whole<&Settings::alarms, &AlarmThresholds::state_percent>(0, 1000), kNow},
    Definition{"alarm.stall_seconds", "BRDMA_ALARM_STALL_SECONDS",
               "Time for which a queue pair's send window stands still until the alarm is raised. Larger: fewer "
               "alarms. 0: no alarm.",
               whole<&Settings::alarms, &AlarmThresholds::stall_seconds>(0, 3600), kNow},
    Definition{"datapath.receive", "BRDMA_DATAPATH",
               "Socket that receives packets. auto: AF_XDP where the driver supports zero copy, else UDP.", datapath(),
               kNewPrograms},
    Definition{"datapath.transmit", "BRDMA_TRANSMIT",
               "Socket that sends packets. auto: AF_XDP for single small packets where packets are received by it and "
               "the right to send is there, else UDP.",
               transmit_datapath(), kNewPrograms},
    Definition{"datapath.xdp_mode", "BRDMA_XDP_MODE", "Hook of the AF_XDP socket. auto: the first of them that works.",
               xdp_mode(), kNewPrograms},
    Definition{"datapath.xdp_chunks", "BRDMA_XDP_CHUNKS",
               "Chunks of 4096 bytes that an AF_XDP socket receives into; a packet takes one or two. Larger: fewer "
               "drops in bursts, more memory.",
               whole<&Settings::datapath, &DatapathConfig::xdp_chunks>(64, 65'536, true), kNewPrograms},
    Definition{"datapath.shards", "BRDMA_SHARDS",
               "Parts of a device that a program opens, each with a socket, a lock and a thread of its own. Larger: "
               "threads wait less for each other, more sockets and memory.",
               whole<&Settings::datapath, &DatapathConfig::shards>(1, kShardsMax), kNewPrograms},
    Definition{"datapath.poll_stay_max_us", "BRDMA_POLL_STAY_MAX_US",
               "Time that a poll may stay for the peer's next message after it has found a completion, or nothing. "
               "Larger: long messages without the progress thread, later completions. 0: it returns at once.",
               in_us<&Settings::datapath, &DatapathConfig::poll_stay_max>(0, 20'000), kNewPrograms},
    Definition{"device.loopback", "BRDMA_LO", "Show brdma_lo even where there are other devices.", loopback(),
               kNewPrograms},
    Definition{"device.kernel_rdma_cm", "BRDMA_KERNEL_RDMA_CM",
               "Leave RDMA-CM to the kernel, which knows its own devices only.", kernel_rdma_cm(), kNewPrograms},
    Definition{"device.kernel_devices", "BRDMA_KERNEL_DEVICES",
               "Show the kernel's own RDMA devices beside these. brdma run hides them unless this is set.",
               kernel_devices(), kNewPrograms},
    Definition{"rdma_cm.ack_timeout", "BRDMA_RDMA_CM_ACK_TIMEOUT",
               "Local ACK timeout of queue pairs that RDMA-CM connects, 4.096 us * 2^n, where the program names none. "
               "Larger: fewer spurious timeouts, later errors.",
               whole<&Settings::rdma_cm_ack_timeout>(1, 31), kNewPrograms},
    Definition{"device.port_rate_mbps", "BRDMA_PORT_RATE_MBPS",
               "Rate of the port: first and highest rate with timely, dcqcn or both. Larger: a faster start, more "
               "drops behind a slower link. 0: as its interface reports.",
               whole<&Settings::port_rate_mbps>(0, 1'000'000), kNewPrograms},
    Definition{"device.seed", "BRDMA_SEED", "Seed that makes keys and first PSNs repeatable. 0: random.", seed(),
               kNewPrograms},
    Definition{"daemon.path", "BRDMA_DAEMON", "The program brdmad. Empty: beside the library, then in PATH.",
               TextSetting{&Settings::daemon_path}, kNewPrograms},
    Definition{"daemon.idle_seconds", "BRDMA_IDLE_SECONDS",
               "Time without work after which brdmad exits. Larger: fewer restarts, GID tables and counters kept for "
               "longer. 0: never.",
               whole<&Settings::idle_seconds>(0, 86'400), kNewPrograms},
    Definition{"controller.address", "BRDMA_CONTROLLER",
               "The wide-area controller that brdmad keeps a session with. Empty: none.",
               TextSetting{&Settings::controller_address, TextSetting::Form::kEndpoint}, kNewPrograms},
    Definition{"controller.key_file", "BRDMA_CONTROLLER_KEY", "File with this host's key for the controller.",
               TextSetting{&Settings::controller_key_file}, kNewPrograms},
    Definition{"controller.name", "BRDMA_CONTROLLER_NAME",
               "Name of this host's key in the key file. Empty: the file has one key.",
               TextSetting{&Settings::controller_name, TextSetting::Form::kName}, kNewPrograms},
    Definition{
        "metrics.listen", "BRDMA_METRICS_LISTEN",
        "Where brdma metrics serve replies to Prometheus, unless its --listen names another place. Empty: nowhere.",
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
