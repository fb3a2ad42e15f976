// tests design WT-7, WT-9. One answer per inquiry and hop, none that could be misused; ports over their
// limits are reported once, and not too often.
#include <gtest/gtest.h>

#include <vector>

#include "base/random.h"
#include "fabric/link.h"
#include "fabric/switch/link_state_agent.h"
#include "fabric/switch/port_facts.h"
#include "wire/crc/icrc.h"
#include "wire/link_state.h"
#include "wire/opcode.h"
#include "wire/packet.h"

namespace brdma::fabric {
namespace {

constexpr Instant at(Duration since_start) { return Instant::from_ns(1'000'000'000) + since_start; }
constexpr IpAddress kSender = IpAddress::v4(10, 77, 1, 1), kReceiver = IpAddress::v4(10, 77, 2, 2);
constexpr std::uint64_t kNonce = 0x0123'4567'89AB'CDEF;

FiveTuple flow_from(const IpAddress& source, std::uint16_t source_port = 0xC001) {
  return {.source = source, .destination = kReceiver, .source_port = source_port, .destination_port = 4791};
}
wire::IcrcPath path_of(const FiveTuple& flow) {
  return {.source = flow.source, .destination = flow.destination, .source_port = flow.source_port, .ip_id = 0};
}

std::vector<std::byte> inquiry(const FiveTuple& flow, std::uint8_t hop = 0, std::uint8_t hop_limit = 16) {
  std::vector<std::byte> payload(wire::kBthSize + wire::kLinkStateInquirySize + wire::kIcrcSize);
  wire::Packet packet;
  packet.bth.opcode = static_cast<std::uint8_t>(wire::Control::kLinkStateInquiry);
  packet.bth.dest_qpn = 0x2203;
  std::size_t size = wire::emit_headers(packet, payload.data());
  size += wire::emit_link_state_inquiry({.source_qpn = 0x1102, .hop = hop, .hop_limit = hop_limit, .nonce = kNonce},
                                        &payload[size]);
  store_le32(&payload[size], wire::packet_icrc(path_of(flow), payload));
  return payload;
}
std::vector<std::byte> data() {
  std::vector<std::byte> payload(100);
  payload[0] = std::byte{0xC4};
  return payload;
}

class LinkStateAgentTest : public testing::Test {
 protected:
  void pass_data(const FiveTuple& flow, Duration when) { EXPECT_FALSE(agent.routed(flow, data(), 1, at(when))); }
  // The inquiry as it is forwarded.
  std::vector<std::byte> ask(std::vector<std::byte> payload, const FiveTuple& flow, Duration when,
                             const PortFacts& facts = {}) {
    EXPECT_TRUE(agent.routed(flow, payload, 1, at(when)));
    (void)agent.answer(flow, payload, 1, facts, at(when));
    return payload;
  }
  void sample(const PortFacts& facts, Duration when) {
    agent.sample(0, {}, at(when));
    agent.sample(1, facts, at(when));
    agent.sampled(at(when));
  }
  // At the full rate since 0 ms.
  static PortFacts busy(std::uint32_t queue, int ms) {
    return gigabit(queue, queue + std::uint64_t{125'000} * static_cast<unsigned>(ms));
  }
  static PortFacts gigabit(std::uint32_t queue, std::uint64_t taken = 0) {
    return {.rate = 125'000'000, .can_do = 125'000'000, .queue = queue, .queue_limit = 100'000, .taken_bytes = taken};
  }
  LinkStateAgent agent{{.switch_id = 7}, 2};
  const FiveTuple flow = flow_from(kSender);
};

TEST_F(LinkStateAgentTest, AnswersAndSendsTheInquiryOn) {
  pass_data(flow, 0_ms);
  const auto sent = inquiry(flow, 2);
  const auto forwarded = ask(sent, flow, 1_ms, gigabit(30'000));
  const auto notice = agent.poll_feedback();
  ASSERT_TRUE(notice);
  EXPECT_EQ(notice->source, kReceiver);
  EXPECT_EQ(notice->destination, kSender);
  EXPECT_LE(notice->size, sent.size());
  const wire::IcrcPath back{
      .source = kReceiver, .destination = kSender, .source_port = notice->source_port, .ip_id = 0};
  EXPECT_EQ(wire::packet_icrc(back, notice->view()), wire::stored_icrc(notice->view()));
  EXPECT_EQ(wire::parse_bth(notice->view().first<wire::kBthSize>()).dest_qpn, 0x1102u);
  const auto said =
      wire::parse_link_state_feedback(notice->view().subspan(wire::kBthSize, wire::kLinkStateFeedbackSize));
  ASSERT_TRUE(said);
  EXPECT_EQ(said->hop, 2);
  EXPECT_EQ(said->nonce, kNonce);
  EXPECT_EQ(said->destination_qpn, 0x2203u);
  EXPECT_EQ(said->switch_id, 7u);
  EXPECT_EQ(said->port, 1u);
  EXPECT_EQ(said->link_rate, 125'000'000u);
  EXPECT_EQ(said->speed, 125'000'000u);
  EXPECT_EQ(said->queue, 30'000u);
  EXPECT_EQ(said->queue_limit, 100'000u);
  EXPECT_FALSE(said->over_limits);
  EXPECT_EQ(said->switch_speed, 0u) << "not bounded";

  EXPECT_EQ(forwarded, inquiry(flow, 3));  // its ICRC too
  EXPECT_FALSE(agent.poll_feedback());
}

// tests design WT-8
TEST_F(LinkStateAgentTest, FeedbackStatesTheSwitchsOwnSpeed) {
  pass_data(flow, 0_ms);
  PortFacts facts = gigabit(30'000);
  facts.switch_speed = 2'000'000;
  (void)ask(inquiry(flow), flow, 1_ms, facts);
  const auto notice = agent.poll_feedback();
  ASSERT_TRUE(notice);
  const auto said =
      wire::parse_link_state_feedback(notice->view().subspan(wire::kBthSize, wire::kLinkStateFeedbackSize));
  ASSERT_TRUE(said);
  EXPECT_EQ(said->switch_speed, 2'000'000u);
  EXPECT_EQ(agent.state(1).switch_speed, 2'000'000u);
}

TEST_F(LinkStateAgentTest, ADamagedInquiryStaysDamaged) {
  pass_data(flow, 0_ms);
  auto damaged = inquiry(flow);
  damaged[wire::kBthSize + 40] ^= std::byte{1};
  const auto forwarded = ask(damaged, flow, 1_ms);
  EXPECT_NE(wire::packet_icrc(path_of(flow), forwarded), wire::stored_icrc(forwarded));
}

TEST_F(LinkStateAgentTest, NoAnswerWhereNoDataPasses) {
  EXPECT_EQ(ask(inquiry(flow), flow, 0_ms), inquiry(flow));
  EXPECT_EQ(ask(inquiry(flow), flow, 5_ms), inquiry(flow));  // inquiries are no data
  EXPECT_EQ(agent.counters().unknown_flow, 2u);
  pass_data(flow, 10_ms);
  const FiveTuple forged = flow_from(IpAddress::v4(10, 77, 9, 9));
  EXPECT_EQ(ask(inquiry(forged), forged, 11_ms), inquiry(forged));
  EXPECT_EQ(ask(inquiry(flow), flow, 10_s + 11_ms), inquiry(flow));  // that was long ago
  EXPECT_EQ(agent.counters().unknown_flow, 4u);
  EXPECT_FALSE(agent.poll_feedback());
}

TEST_F(LinkStateAgentTest, NoAnswerBehindTheHopLimitOrToWhatIsNoInquiry) {
  pass_data(flow, 0_ms);
  EXPECT_EQ(ask(inquiry(flow, 16, 16), flow, 1_ms), inquiry(flow, 16, 16));
  EXPECT_EQ(agent.counters().at_limit, 1u);
  (void)ask(inquiry(flow, 17, 16), flow, 2_ms);
  auto longer = inquiry(flow);
  longer.resize(longer.size() + 4);
  (void)ask(longer, flow, 3_ms);
  auto shorter = inquiry(flow);
  shorter.resize(shorter.size() - 4);
  (void)ask(shorter, flow, 4_ms);
  EXPECT_EQ(agent.counters().malformed, 3u);
  EXPECT_FALSE(agent.routed(flow, ConstBytes{longer}.first(15), 1, at(5_ms)));
  EXPECT_FALSE(agent.poll_feedback());
}

TEST_F(LinkStateAgentTest, ASourceIsAnsweredOnceInAWhile) {
  pass_data(flow, 0_ms);
  pass_data(flow_from(kSender, 0xC002), 0_ms);
  (void)ask(inquiry(flow), flow, 1_ms);
  (void)ask(inquiry(flow), flow_from(kSender, 0xC002), 1_ms);  // another of its flows
  (void)ask(inquiry(flow), flow, 2_ms);
  EXPECT_EQ(agent.counters().answered, 2u);
  EXPECT_EQ(agent.counters().limited_source, 1u);
}

TEST_F(LinkStateAgentTest, AllSourcesTogetherAreLimited) {
  agent = LinkStateAgent{{.answers_per_second = 100, .answers_burst = 4, .source_interval = 0_ms}, 2};
  pass_data(flow, 0_ms);
  for (int i = 0; i < 20; ++i) {
    (void)ask(inquiry(flow), flow, 1_ms);
    (void)agent.poll_feedback();
  }
  EXPECT_EQ(agent.counters().answered, 4u);
  EXPECT_EQ(agent.counters().limited, 16u);
}

// A requester gets no more bytes than it sent, for any input.
TEST_F(LinkStateAgentTest, NothingIsAmplified) {
  Random random{11};
  std::uint64_t asked = 0, answered = 0;
  for (int i = 0; i < 50'000; ++i) {
    const FiveTuple some = flow_from(IpAddress::v4(10, 77, 1, static_cast<std::uint8_t>(random.below(4))));
    const Duration when = Duration::from_ns(std::int64_t{i} * 100'000);
    auto payload = random.below(2) == 0 ? data() : inquiry(some, static_cast<std::uint8_t>(random.below(4)), 3);
    if (random.below(4) == 0) payload.resize(random.below(120));
    if (random.below(4) == 0 && !payload.empty()) payload[random.below(payload.size())] ^= std::byte{0x10};
    asked += payload.size();
    if (agent.routed(some, payload, 1, at(when))) (void)agent.answer(some, payload, 1, gigabit(5), at(when));
    while (const auto notice = agent.poll_feedback()) answered += notice->size;
  }
  const auto& counters = agent.counters();
  EXPECT_GT(counters.answered, 100u);
  EXPECT_LE(answered, asked);
  EXPECT_EQ(counters.inquiries, counters.answered + counters.malformed + counters.at_limit + counters.unknown_flow +
                                    counters.limited_source + counters.limited);
}

TEST_F(LinkStateAgentTest, AFullQueueIsReportedOnceAndItsEndToo) {
  pass_data(flow, 0_ms);
  ASSERT_EQ(agent.next_timeout(), at(1_ms));
  sample(busy(74'000, 1), 1_ms);
  EXPECT_FALSE(agent.poll_report());
  sample(busy(75'000, 2), 2_ms);
  auto report = agent.poll_report();
  ASSERT_TRUE(report);
  EXPECT_EQ(report->port, 1u);
  EXPECT_TRUE(report->state.over_limits);
  ASSERT_EQ(report->flow_count, 1u);
  EXPECT_EQ(report->flows[0], (FlowEnds{kSender, kReceiver}));
  for (int ms = 3; ms < 40; ++ms)
    sample(busy(ms % 2 == 0 ? 80'000 : 50'000, ms), Duration::from_ns(std::int64_t{ms} * 1'000'000));
  EXPECT_FALSE(agent.poll_report());  // 50,000 is not low enough
  sample(busy(30'000, 40), 40_ms);
  report = agent.poll_report();
  ASSERT_TRUE(report);
  EXPECT_FALSE(report->state.over_limits);
}

TEST_F(LinkStateAgentTest, ReportsAreSomeTimeApart) {
  for (int ms = 0; ms < 1000; ++ms)
    sample(busy(ms % 2 == 0 ? 90'000 : 0, ms), Duration::from_ns(std::int64_t{ms} * 1'000'000));
  int reports = 0;
  while (agent.poll_report()) ++reports;
  EXPECT_GE(reports, 10);
  EXPECT_LE(reports, 100);
  EXPECT_GT(agent.counters().changes_passed, 100u);
}

TEST_F(LinkStateAgentTest, APortThatStaysOverIsReportedAgain) {
  for (int ms = 0; ms < 3500; ++ms) sample(busy(90'000, ms), Duration::from_ns(std::int64_t{ms} * 1'000'000));
  int reports = 0;
  while (agent.poll_report()) ++reports;
  EXPECT_EQ(reports, 4);
}

TEST_F(LinkStateAgentTest, SpeedIsWhatWasDoneWhilePacketsWaited) {
  sample(gigabit(40'000, 40'000), 0_ms);
  sample(gigabit(40'000, 40'000 + 62'500 * 2), 2_ms);  // 62.5 MB/s, and always something to send
  EXPECT_EQ(agent.state(1).load, 62'500'000u);
  EXPECT_EQ(agent.state(1).speed, 62'500'000u);
  sample(gigabit(0, 200'000), 4_ms);
  EXPECT_EQ(agent.state(1).speed, 125'000'000u);  // nothing waits
}

// A sender whose bursts come as often as samples are taken: each sample meets a packet, and the port is idle in
// between.
TEST_F(LinkStateAgentTest, APortThatRestsBetweenSamplesIsNotSlow) {
  struct Nothing {
    static std::optional<int> duplicate(int) { return {}; }
    static void corrupt(int, std::uint64_t) {}
    static void discard(int) {}
  } owner;
  Link<int> link{{.rate = Bandwidth::from_bps(1'000'000'000), .queue_bytes = 100'000}, 1, "link"};
  for (int ms = 0; ms < 100; ++ms) {
    // 45 packets of 1250 bytes: 450 us of every millisecond. The sample is taken when the first of them has come.
    for (int i = 0; i < 45; ++i) {
      link.handle_packet(i, 1250, true, at(1_ms * ms), owner);
      if (i == 0) sample(port_facts(link, 125'000'000, true), 1_ms * ms);
    }
    while (link.poll(at(1_ms * ms + 999_us), owner)) {
    }
  }
  EXPECT_EQ(agent.state(1).load, 56'250'000u);
  EXPECT_EQ(agent.state(1).speed, 125'000'000u);
  EXPECT_FALSE(agent.state(1).over_limits);
  EXPECT_FALSE(agent.poll_report());
}

TEST_F(LinkStateAgentTest, ASlowerOrACutLinkIsOverItsLimits) {
  PortFacts facts = gigabit(0);
  sample(facts, 0_ms);
  EXPECT_FALSE(agent.state(1).over_limits);
  facts.can_do = 12'500'000;
  agent.disturb(at(1_ms));
  EXPECT_EQ(agent.next_timeout(), at(1_ms));
  sample(facts, 1_ms);
  EXPECT_TRUE(agent.state(1).over_limits);
  EXPECT_TRUE(agent.poll_report());
  facts.can_do = facts.rate;
  sample(facts, 20_ms);
  EXPECT_FALSE(agent.poll_report()->state.over_limits);
  facts.up = false;
  sample(facts, 40_ms);
  const auto report = agent.poll_report();
  ASSERT_TRUE(report);
  EXPECT_FALSE(report->state.up);
  EXPECT_EQ(report->state.speed, 0u);
  sample({.up = false}, 41_ms);
}

TEST_F(LinkStateAgentTest, AnIdleSwitchSleeps) {
  EXPECT_EQ(agent.next_timeout(), std::nullopt);
  pass_data(flow, 0_ms);
  sample(gigabit(0), 1_ms);
  EXPECT_EQ(agent.next_timeout(), std::nullopt);
}

// A short burst is not congestion, if the queue is judged by its mean.
TEST(LinkStateMean, AQueueMustStandToBeOverItsLimit) {
  LinkStateAgent agent{{.switch_id = 7, .queue_time = 50_ms}, 1};
  std::uint64_t taken = 0;
  bool traffic = true;
  const auto sample = [&](std::uint32_t queue, int ms) {
    if (traffic) taken += 125'000;
    agent.sample(
        0, {.rate = 125'000'000, .can_do = 125'000'000, .queue = queue, .queue_limit = 100'000, .taken_bytes = taken},
        at(1_ms * ms));
    agent.sampled(at(1_ms * ms));
  };
  int ms = 0;
  sample(0, ++ms);
  for (int i = 0; i < 20; ++i) sample(100'000, ++ms);
  EXPECT_FALSE(agent.state(0).over_limits) << agent.state(0).queue_mean;
  for (int i = 0; i < 100; ++i) sample(0, ++ms);
  EXPECT_LT(agent.state(0).queue_mean, 10'000u);
  for (int i = 0; i < 65; ++i) sample(100'000, ++ms);
  EXPECT_FALSE(agent.state(0).over_limits) << agent.state(0).queue_mean;
  for (int i = 0; i < 15; ++i) sample(100'000, ++ms);
  EXPECT_TRUE(agent.state(0).over_limits) << "three quarters are reached after ln 4, 1.39, of its times";
  EXPECT_TRUE(agent.poll_report());
  // No more traffic: the port is sampled until it is known to be calm, and then no more.
  traffic = false;
  while (agent.next_timeout()) {
    ASSERT_LT(ms, 1000);
    sample(0, ++ms);
  }
  EXPECT_FALSE(agent.state(0).over_limits);
}

// Two queries in the same instant: no time in which the mean moves.
TEST(LinkStateMean, TimeIsWhatMovesIt) {
  LinkStateAgent agent{{.switch_id = 7, .queue_time = 50_ms}, 1};
  const PortFacts facts{.rate = 1'000'000, .can_do = 1'000'000, .queue = 90'000, .queue_limit = 100'000};
  agent.sample(0, facts, at(1_ms));
  const std::uint32_t mean = agent.state(0).queue_mean;
  agent.sample(0, facts, at(1_ms));
  EXPECT_EQ(agent.state(0).queue_mean, mean);
}

}  // namespace
}  // namespace brdma::fabric
