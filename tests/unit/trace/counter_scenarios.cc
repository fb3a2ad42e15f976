// One scenario a function. Path MTU 1024, 5 us each way, first PSNs 1000 and 5000; the packets of the CAPS agreement
// are not counted.
#include "counter_scenarios.h"

#include "qp/state/environment.h"
#include "support/hand_played.h"
#include "wire/link_state.h"

namespace brdma::test {
namespace {

constexpr std::uint32_t kMtu = 1024;

std::string after(TwoEngines& pair, const Counted& counted) {
  EXPECT_TRUE(pair.run_until_idle());
  return counted.text();
}

// Options with only the scenario's own set.
PairOptions with(const RecoveryConfig& recovery) {
  PairOptions made;
  made.recovery = recovery;
  return made;
}
PairOptions unconnected() {
  PairOptions made;
  made.connect = false;
  return made;
}
QpCreate queue_pair_of(const TwoEngines::Side& side) {
  QpCreate request;
  request.pd = side.pd;
  request.send_cq = side.send_cq;
  request.receive_cq = side.receive_cq;
  request.capabilities.send_wr_max = 8;
  return request;
}

// --- nothing is lost ---

std::string write() {
  TwoEngines pair;
  const Counted counted{pair};
  EXPECT_TRUE(pair.post(0, pair.write(0, 0, 4 * kMtu, 1)).ok());
  return after(pair, counted);
}

std::string send() {
  TwoEngines pair;
  const Counted counted{pair};
  EXPECT_TRUE(pair.post_receive(1, 0, 2 * kMtu, 1).ok());
  EXPECT_TRUE(pair.post(0, pair.request(0, WorkOpcode::kSend, 0, 2 * kMtu, 1)).ok());
  return after(pair, counted);
}

std::string datagrams() {
  PairOptions made;
  made.type = QpType::kUd;
  TwoEngines pair{made};
  const Counted counted{pair};
  for (std::uint64_t i = 0; i < 2; ++i) {
    EXPECT_TRUE(pair.post_receive(1, 0, kMtu, i).ok());
    EXPECT_TRUE(pair.post(0, pair.request(0, WorkOpcode::kSend, 0, 100, i)).ok());
  }
  return after(pair, counted);
}

// --- gaps ---

RecoveryConfig patient() {
  RecoveryConfig config;
  config.depth_max = 1000;
  config.age_max = config.stall_max = 1_s;
  config.adaptive = false;
  return config;
}

// A packet comes 20 us late: reordering.
std::string reordered() {
  TwoEngines pair;
  pair.extra_delay = [](const Sent& sent) { return sent.data() && sent.psn() == 1003 ? 20_us : Duration{}; };
  const Counted counted{pair};
  EXPECT_TRUE(pair.post(0, pair.write(0, 0, 8 * kMtu, 1)).ok());
  return after(pair, counted);
}

// A packet is lost, its gap promoted for its depth, and an FFM brings it.
std::string lost() {
  TwoEngines pair;
  pair.drop = [](const Sent& sent) { return sent.data() && sent.psn() == 1003 && sent.copy == 1; };
  const Counted counted{pair};
  EXPECT_TRUE(pair.post(0, pair.write(0, 0, 16 * kMtu, 1)).ok());
  return after(pair, counted);
}

// A packet is lost, and the sender retransmits it before its gap is promoted: no reordering either.
std::string recovered_while_it_waits() {
  TwoEngines pair{with(patient())};
  pair.drop = [](const Sent& sent) { return sent.data() && sent.psn() == 1003 && sent.copy == 1; };
  const Counted counted{pair};
  EXPECT_TRUE(pair.post(0, pair.write(0, 0, 8 * kMtu, 1)).ok());
  return after(pair, counted);
}

// Two neighbours are lost: one run leaves again.
std::string run_lost() {
  TwoEngines pair;
  pair.drop = [](const Sent& sent) { return sent.data() && (sent.psn() | 1) == 1003 && sent.copy == 1; };
  const Counted counted{pair};
  EXPECT_TRUE(pair.post(0, pair.write(0, 0, 16 * kMtu, 1)).ok());
  return after(pair, counted);
}
// Everything is lost for a third of a second.
std::string nothing_arrives() {
  TwoEngines pair;
  const Instant end = pair.now + 330_ms;
  pair.drop = [&pair, end](const Sent&) { return pair.now < end; };
  const Counted counted{pair};
  EXPECT_TRUE(pair.post(0, pair.write(0, 0, 4 * kMtu, 1)).ok());
  return after(pair, counted);
}

// A READ response is lost and requested again.
std::string response_lost() {
  TwoEngines pair;
  pair.drop = [](const Sent& sent) { return sent.from == 1 && sent.psn() == 1003 && sent.copy == 1; };
  const Counted counted{pair};
  EXPECT_TRUE(pair.post(0, pair.request(0, WorkOpcode::kRdmaRead, 0, 16 * kMtu, 1)).ok());
  return after(pair, counted);
}

// A READ response comes 20 us late.
std::string response_reordered() {
  TwoEngines pair;
  pair.extra_delay = [](const Sent& sent) { return sent.from == 1 && sent.psn() == 1003 ? 20_us : Duration{}; };
  const Counted counted{pair};
  EXPECT_TRUE(pair.post(0, pair.request(0, WorkOpcode::kRdmaRead, 0, 8 * kMtu, 1)).ok());
  return after(pair, counted);
}

// Every second packet is missing, and a bit stands for two: more runs are incomplete than allowed.
std::string too_many_runs_incomplete() {
  RecoveryConfig recovery = patient();
  recovery.granularity = 2;
  recovery.congestion.control = CongestionControl::kNone;
  PairOptions made = with(recovery);
  made.mtu = PathMtu::k256;
  made.receive_packets = 8192;
  TwoEngines pair{made};
  pair.drop = [](const Sent& sent) { return sent.data() && sent.copy == 1 && sent.psn() % 2 == 0; };
  const Counted counted{pair};
  EXPECT_TRUE(pair.post(0, pair.write(0, 0, 2100 * 256, 1)).ok());
  return after(pair, counted);
}

// --- paths ---

PairOptions two_paths() {
  RecoveryConfig recovery;
  recovery.paths = 2;
  PairOptions made = with(recovery);
  made.paths = 2;
  return made;
}
bool by_second_path(const Sent& sent) { return sent.from == 0 && sent.source_port % 2 == 1; }

// Packets on the second of two paths come 100 us later.
std::string path_is_longer() {
  TwoEngines pair{two_paths()};
  pair.extra_delay = [](const Sent& sent) { return by_second_path(sent) ? 100_us : Duration{}; };
  const Counted counted{pair};
  EXPECT_TRUE(pair.post(0, pair.write(0, 0, 64 * kMtu, 1)).ok());
  return after(pair, counted);
}

// A packet is lost on a path that still works.
std::string lost_on_a_path() {
  TwoEngines pair{two_paths()};
  pair.drop = [](const Sent& sent) { return sent.data() && sent.psn() == 1003 && sent.copy == 1; };
  const Counted counted{pair};
  EXPECT_TRUE(pair.post(0, pair.write(0, 0, 64 * kMtu, 1)).ok());
  return after(pair, counted);
}

// All packets of the second of two paths are lost for 10 ms: it is set aside, copies try it, and it is taken back.
std::string path_is_silent() {
  TwoEngines pair{two_paths()};
  const Instant end = pair.now + 10_ms;
  pair.drop = [&pair, end](const Sent& sent) { return pair.now < end && by_second_path(sent); };
  const Counted counted{pair};
  for (std::uint64_t i = 0; i < 100; ++i) {
    EXPECT_TRUE(pair.post(0, pair.write(0, 0, 64 * kMtu, i)).ok());
    pair.run_for(200_us);
    (void)pair.poll(0);
  }
  return after(pair, counted);
}

// --- objects ---

std::string queue_pairs() {
  RecoveryConfig recovery;
  recovery.qps_max = 2;
  TwoEngines pair{with(recovery)};
  const Counted counted{pair};
  auto& side = pair.side[0];
  const auto create = [&side] {
    QpCreate request = queue_pair_of(side);
    return side.engine->create_qp(request);
  };
  const auto second = create();
  EXPECT_TRUE(second.ok());
  EXPECT_EQ(create().reason().error(), ENOMEM);
  EXPECT_TRUE(side.engine->destroy_qp(second.value()).ok());
  return counted.text();
}

// Five completions in a queue of two that ignores overruns.
std::string completions_overwritten() {
  TwoEngines pair{unconnected()};
  auto& side = pair.side[0];
  EXPECT_TRUE(side.engine->destroy_qp(side.qp).ok());
  side.send_cq = side.engine->create_cq(2, nullptr, {.ignore_overrun = true}).value();
  QpCreate request = queue_pair_of(side);
  side.qp = side.engine->create_qp(request).value();
  for (int i = 0; i < 2; ++i) pair.connect(i);
  pair.run_for(2_ms);
  const Counted counted{pair};
  for (std::uint64_t i = 0; i < 5; ++i) EXPECT_TRUE(pair.post(0, pair.write(0, 0, 8, i)).ok());
  return after(pair, counted);
}

// --- refused, or not reported ---

// A SEND that is longer than its receive.
std::string receive_too_short() {
  TwoEngines pair;
  const Counted counted{pair};
  EXPECT_TRUE(pair.post_receive(1, 0, 100, 1).ok());
  EXPECT_TRUE(pair.post(0, pair.request(0, WorkOpcode::kSend, 0, 101, 1)).ok());
  return after(pair, counted);
}

// One WRITE more than events are kept, into a region that is watched and never polled.
std::string write_events_lost() {
  TwoEngines pair;
  int user = 0;
  EXPECT_TRUE(pair.side[1].engine->watch_writes(pair.side[1].region, &user).ok());
  const Counted counted{pair};
  for (std::size_t i = 0; i <= qp::kWriteArrivalsMax; ++i) {
    EXPECT_TRUE(pair.post(0, pair.write(0, 0, 8, i)).ok());
    EXPECT_TRUE(pair.run_until_idle());
    (void)pair.poll(0);
  }
  return counted.text();
}

// --- links and destinations (design WT-6 to WT-15) ---

PairOptions inquiring(Duration interval) {
  PairOptions made;
  made.mode[0] = made.mode[1] = RecoveryMode::kWan;
  made.recovery.wan.inquiry_timeouts = 3;
  made.recovery.wan.inquiry_interval = interval;
  return made;
}

// A side that sends eight packets of which the last alone arrives, so that seven time out.
struct Inquirer : HandPlayed {
  explicit Inquirer(Duration interval) : HandPlayed(inquiring(interval)) {}
  void lose() {
    const std::uint32_t first = 1000 + sent_before;
    const Instant begun = pair.now;
    send(4);
    pair.run_for(20_us);
    send(4);
    pair.run_for(80_us);
    ack({.base = first, .arrived = {first + 7}, .echo = begun + 20_us});
    pair.run_for(200_us);
    sent_before += 8;
  }
  void arrive() { ack({.base = 1000 + sent_before}); }
  void hop_answers() {
    const auto nonce = [this] {
      for (auto sent = pair.wire.rbegin(); sent != pair.wire.rend(); ++sent) {
        if (!sent->control(wire::Control::kLinkStateInquiry)) continue;
        const ConstBytes body = ConstBytes{sent->bytes}.subspan(wire::kBthSize);
        return wire::parse_link_state_inquiry(body.first(body.size() - wire::kIcrcSize))->nonce;
      }
      return std::uint64_t{0};
    }();
    std::byte body[wire::kLinkStateFeedbackSize];
    wire::emit_link_state_feedback({.destination_qpn = peer_qpn(), .nonce = nonce, .speed = 1, .link_rate = 1'000'000},
                                   body);
    control(bth(wire::Control::kLinkStateFeedback, 0), body);
  }
  std::uint32_t sent_before = 0;
};

// Packets time out a second time within the interval of inquiries.
std::string inquiry_too_soon() {
  Inquirer hand{1_s};
  const Counted counted{hand.pair};
  hand.lose();
  hand.pair.run_for(11_ms);
  hand.lose();
  return counted.text();
}

// One report more than are kept for a controller that never reads.
std::string reports_lost() {
  Inquirer hand{1_ms};
  const Counted counted{hand.pair};
  for (std::size_t i = 0; i <= recovery::LinkReport::kWaitingMax; ++i) {
    hand.lose();
    hand.hop_answers();
    hand.pair.run_for(12_ms);
    hand.arrive();
    hand.pair.run_for(1_ms);
  }
  return counted.text();
}

// A managed destination has half of the rate delivered there. Three visits restore some, one more all of it.
std::string managed_and_raised() {
  TwoEngines pair;
  for (std::uint64_t i = 0; i < 200; ++i) {
    EXPECT_TRUE(pair.post(0, pair.write(0, 0, 64 * kMtu, i)).ok());
    pair.run_for(100_us);
    (void)pair.poll(0);
  }
  const Counted counted{pair};
  EXPECT_TRUE(pair.side[0].engine->manage_destination(pair.side[1].address, pair.now).ok());
  return after(pair, counted);
}

// A queue pair to each of as many destinations as may be managed, and one more.
std::string too_many_managed() {
  TwoEngines pair{unconnected()};
  auto& side = pair.side[0];
  const Counted counted{pair};
  for (std::uint32_t i = 0; i <= congestion::ManagedList::kDestinationsMax; ++i) {
    QpCreate request = queue_pair_of(side);
    QueuePair* const qp = side.engine->create_qp(request).value();
    QpAttributes a = pair.attributes(0);
    a.peer_address = IpAddress::v4(10, 1, static_cast<std::uint8_t>(i >> 8), static_cast<std::uint8_t>(i));
    a.state = QpState::kInit;
    EXPECT_TRUE(side.engine->modify_qp(qp, a, TwoEngines::kToInit, pair.now).ok());
    a.state = QpState::kRtr;
    EXPECT_TRUE(side.engine->modify_qp(qp, a, TwoEngines::kToRtr, pair.now).ok());
    a.state = QpState::kRts;
    EXPECT_TRUE(side.engine->modify_qp(qp, a, TwoEngines::kToRts, pair.now).ok());
    const bool fits = i < congestion::ManagedList::kDestinationsMax;
    EXPECT_EQ(side.engine->manage_destination(a.peer_address, pair.now).error(), fits ? 0 : ENOSPC);
  }
  return counted.text();
}

constexpr CounterScenario kScenarios[] = {
    {"Write", write, R"(
0: sent_pkts=4 rcvd_pkts=1 sent_bytes=4352 rcvd_bytes=68 sent_data_pkts=4 accepted_pkts=1 acks_received=1
1: sent_pkts=1 rcvd_pkts=4 sent_bytes=68 rcvd_bytes=4352 accepted_pkts=4 rx_write_requests=1 acks_sent=1
)"},
    {"Send", send, R"(
0: sent_pkts=2 rcvd_pkts=1 sent_bytes=2144 rcvd_bytes=68 sent_data_pkts=2 accepted_pkts=1 rdma_sends=1 acks_received=1
1: sent_pkts=1 rcvd_pkts=2 sent_bytes=68 rcvd_bytes=2144 accepted_pkts=2 rdma_recvs=1 acks_sent=1
)"},
    {"Datagrams", datagrams, R"(
0: sent_pkts=2 sent_bytes=248 sent_data_pkts=2 rdma_sends=2
1: rcvd_pkts=2 rcvd_bytes=248 accepted_pkts=2 rdma_recvs=2
)"},
    {"Reordered", reordered, R"(
0: sent_pkts=8 rcvd_pkts=2 sent_bytes=8704 rcvd_bytes=140 sent_data_pkts=8 accepted_pkts=2 acks_received=2
1: sent_pkts=2 rcvd_pkts=8 sent_bytes=140 rcvd_bytes=8704 accepted_pkts=8 out_of_sequence=4 rx_write_requests=1 acks_sent=2 gaps_seen=1 gaps_closed=1 held_pkts=1 placed_early=3
)"},
    {"Lost", lost, R"(
0: sent_pkts=17 rcvd_pkts=3 sent_bytes=18496 rcvd_bytes=204 sent_data_pkts=16 accepted_pkts=3 acks_received=2 ffm_received=1 retransmitted_by_ffm=1 retransmit_single=1
1: sent_pkts=3 rcvd_pkts=16 sent_bytes=204 rcvd_bytes=17408 accepted_pkts=16 out_of_sequence=12 rx_write_requests=1 acks_sent=2 gaps_seen=1 gaps_recovered=1 gaps_promoted_depth=1 ffm_sent=1 held_pkts=1 placed_early=11
)"},
    {"RecoveredWhileItWaits", recovered_while_it_waits, R"(
0: sent_pkts=9 rcvd_pkts=2 sent_bytes=9792 rcvd_bytes=140 sent_data_pkts=8 accepted_pkts=2 acks_received=2 retransmitted_by_probe=1 retransmit_single=1
1: sent_pkts=2 rcvd_pkts=8 sent_bytes=140 rcvd_bytes=8704 accepted_pkts=8 out_of_sequence=4 rx_write_requests=1 acks_sent=2 gaps_seen=1 gaps_recovered=1 held_pkts=1 placed_early=3
)"},
    {"RunLost", run_lost, R"(
0: sent_pkts=18 rcvd_pkts=3 sent_bytes=19584 rcvd_bytes=204 sent_data_pkts=16 accepted_pkts=3 acks_received=2 ffm_received=1 retransmitted_by_ffm=2 retransmit_interval=1
1: sent_pkts=3 rcvd_pkts=16 sent_bytes=204 rcvd_bytes=17408 accepted_pkts=16 out_of_sequence=12 rx_write_requests=1 acks_sent=2 gaps_seen=1 gaps_recovered=1 gaps_promoted_depth=1 ffm_sent=1 held_pkts=1 placed_early=11
)"},
    {"NothingArrives", nothing_arrives, R"(
0: sent_pkts=24 rcvd_pkts=2 sent_bytes=25104 rcvd_bytes=140 sent_data_pkts=4 accepted_pkts=2 local_ack_timeout_err=8 acks_received=2 retransmitted_by_timeout=16 retransmitted_by_probe=1 retransmitted_by_ack=2 retransmit_single=1 retransmit_interval=1 retransmit_aggregated=8 link_state_inquiries_sent=1 stalls_begun=1 stalls_ended=1
1: sent_pkts=2 rcvd_pkts=5 sent_bytes=140 rcvd_bytes=4432 accepted_pkts=5 out_of_sequence=1 rx_write_requests=1 acks_sent=2 gaps_seen=1 gaps_recovered=1 held_pkts=1 link_state_inquiries_received=1
)"},
    {"ResponseLost", response_lost, R"(
0: sent_pkts=2 rcvd_pkts=17 sent_bytes=128 rcvd_bytes=17284 sent_data_pkts=1 accepted_pkts=17 acks_received=1 gaps_seen=1 gaps_recovered=1 gaps_promoted_depth=1 retransmitted_by_ffm=1 retransmit_single=1 reads_reissued=1
1: sent_pkts=18 rcvd_pkts=2 sent_bytes=18360 rcvd_bytes=128 sent_data_pkts=16 accepted_pkts=2 duplicate_request=1 rx_read_requests=1 acks_sent=1
)"},
    {"ResponseReordered", response_reordered, R"(
0: sent_pkts=1 rcvd_pkts=8 sent_bytes=64 rcvd_bytes=8608 sent_data_pkts=1 accepted_pkts=8 gaps_seen=1 gaps_closed=1
1: sent_pkts=8 rcvd_pkts=1 sent_bytes=8608 rcvd_bytes=64 sent_data_pkts=8 accepted_pkts=1 rx_read_requests=1
)"},
    {"TooManyRunsIncomplete", too_many_runs_incomplete, R"(
0: sent_pkts=3178 rcvd_pkts=28 sent_bytes=1016720 rcvd_bytes=7436 sent_data_pkts=2100 accepted_pkts=28 acks_received=10 ffm_received=18 ffm_suppressed=224 ffm_pkts_pending=224 retransmitted_by_ffm=326 retransmitted_by_probe=4 retransmitted_by_ack=747 retransmit_single=4 retransmit_interval=3 retransmit_aggregated=65 link_state_inquiries_sent=1
1: sent_pkts=28 rcvd_pkts=2128 sent_bytes=7436 rcvd_bytes=680720 accepted_pkts=2101 out_of_sequence=1054 rx_write_requests=1 acks_sent=10 gaps_seen=1024 gaps_recovered=1024 gaps_promoted_depth=550 ffm_sent=18 held_pkts=1 placed_early=1026 runs_refused=27 link_state_inquiries_received=1 drop_state_full=27
)"},
    {"PathIsLonger", path_is_longer, R"(
0: sent_pkts=64 rcvd_pkts=2 sent_bytes=69632 rcvd_bytes=140 sent_data_pkts=64 accepted_pkts=2 acks_received=2
1: sent_pkts=2 rcvd_pkts=64 sent_bytes=140 rcvd_bytes=69632 accepted_pkts=64 out_of_sequence=16 rx_write_requests=1 acks_sent=2 gaps_seen=1 gaps_closed=1 cross_path_waits=1 placed_early=16
)"},
    {"LostOnAPath", lost_on_a_path, R"(
0: sent_pkts=65 rcvd_pkts=3 sent_bytes=70720 rcvd_bytes=208 sent_data_pkts=64 accepted_pkts=3 acks_received=2 ffm_received=1 retransmitted_by_ffm=1 retransmit_single=1
1: sent_pkts=3 rcvd_pkts=64 sent_bytes=208 rcvd_bytes=69632 accepted_pkts=64 out_of_sequence=60 rx_write_requests=1 acks_sent=2 gaps_seen=1 gaps_recovered=1 gaps_promoted_path=1 ffm_sent=1 held_pkts=1 placed_early=59
)"},
    {"PathIsSilent", path_is_silent, R"(
0: sent_pkts=6499 rcvd_pkts=105 sent_bytes=7070912 rcvd_bytes=7180 sent_data_pkts=6400 accepted_pkts=105 acks_received=103 path_silent=1 path_probed=3 path_returned=1 ffm_received=2 ffm_suppressed=1 ffm_pkts_recent=16 retransmitted_by_ffm=16 retransmitted_by_path=80 retransmit_interval=6
1: sent_pkts=105 rcvd_pkts=6401 sent_bytes=7180 rcvd_bytes=6964288 accepted_pkts=6400 duplicate_request=1 out_of_sequence=80 rx_write_requests=100 acks_sent=103 gaps_seen=5 gaps_recovered=5 gaps_promoted_age=2 ffm_sent=2 held_pkts=2 placed_early=78 drop_duplicate=1
)"},
    {"QueuePairs", queue_pairs, R"(
0: qps_created=1 qps_destroyed=1 qps_refused=1
1:
)"},
    {"CompletionsOverwritten", completions_overwritten, R"(
0: sent_pkts=5 rcvd_pkts=1 sent_bytes=360 rcvd_bytes=68 sent_data_pkts=5 accepted_pkts=1 completions_overwritten=3 acks_received=1
1: sent_pkts=1 rcvd_pkts=5 sent_bytes=68 rcvd_bytes=360 accepted_pkts=5 rx_write_requests=5 acks_sent=1
)"},
    {"ReceiveTooShort", receive_too_short, R"(
0: sent_pkts=1 rcvd_pkts=1 sent_bytes=152 rcvd_bytes=68 sent_data_pkts=1 accepted_pkts=1 acks_received=1
1: sent_pkts=1 rcvd_pkts=1 sent_bytes=68 rcvd_bytes=152 accepted_pkts=1 resp_remote_invalid_requests=1 acks_sent=1
)"},
    {"WriteEventsLost", write_events_lost, R"(
0: sent_pkts=4097 rcvd_pkts=4097 sent_bytes=294984 rcvd_bytes=278596 sent_data_pkts=4097 accepted_pkts=4097 acks_received=4097
1: sent_pkts=4097 rcvd_pkts=4097 sent_bytes=278596 rcvd_bytes=294984 accepted_pkts=4097 rx_write_requests=4097 acks_sent=4097 write_events=4096 write_events_lost=1
)"},
    {"InquiryTooSoon", inquiry_too_soon, R"(
0: sent_pkts=69 rcvd_pkts=2 sent_bytes=74064 rcvd_bytes=144 sent_data_pkts=16 accepted_pkts=2 local_ack_timeout_err=3 acks_received=2 retransmitted_expected=2 retransmitted_by_wait=42 retransmitted_by_timeout=6 retransmitted_by_probe=2 retransmit_interval=13 retransmit_aggregated=7 link_state_inquiries_sent=1 link_state_inquiries_limited=17
1:
)"},
    {"ReportsLost", reports_lost, R"(
0: sent_pkts=3532 rcvd_pkts=195 sent_bytes=3755120 rcvd_bytes=14300 sent_data_pkts=520 accepted_pkts=195 local_ack_timeout_err=195 acks_received=130 retransmitted_expected=65 retransmitted_by_wait=2340 retransmitted_by_timeout=390 retransmitted_by_probe=130 retransmit_interval=715 retransmit_aggregated=455 link_state_inquiries_sent=87 link_state_inquiries_limited=1020 link_state_feedback_received=65 links_congested=65 link_state_reports=64 link_state_reports_lost=1
1:
)"},
    {"ManagedAndRaised", managed_and_raised, R"(
0: managed_added=1 managed_raised=3 managed_released=1
1:
)"},
    {"TooManyManaged", too_many_managed, R"(
0: managed_added=1024 managed_full=1 qps_created=1025
1:
)"},
};

}  // namespace

std::span<const CounterScenario> counter_scenarios() { return kScenarios; }

}  // namespace brdma::test
