// A sender inquires the state of links, judges the answers, and reduces the rate to a destination. tests WT-6 on:
// link-state feedback, flow control
#include "device/engine.h"
#include "support/hand_played.h"
#include "wire/edn.h"
#include "wire/link_state.h"

namespace brdma::test {
namespace {

using testing::SizeIs;

PairOptions options() {
  PairOptions made;
  made.mode[0] = made.mode[1] = RecoveryMode::kWan;
  made.recovery.wan.inquiry_timeouts = 3;
  made.recovery.wan.congested_links = 1;
  made.recovery.wan.inquiry_interval = 1_s;
  return made;
}

class LinkState : public testing::Test, public HandPlayed {
 protected:
  LinkState() : HandPlayed(options()) {}
  // Eight packets of which the last alone arrives: seven time out.
  void lose() {
    const std::uint32_t first = 1000 + sent_before_;
    const Instant begun = pair.now;
    send(4);
    pair.run_for(20_us);
    send(4);
    pair.run_for(80_us);
    ack({.base = first, .arrived = {first + 7}, .echo = begun + 20_us});
    pair.run_for(200_us);
    sent_before_ += 8;
  }
  [[nodiscard]] std::vector<wire::LinkStateInquiry> inquiries() const {
    std::vector<wire::LinkStateInquiry> found;
    for (const Sent& each : pair.wire) {
      if (each.from != 0 || each.bth().opcode != static_cast<std::uint8_t>(wire::Control::kLinkStateInquiry)) continue;
      const ConstBytes body = ConstBytes{each.bytes}.subspan(wire::kBthSize);
      const auto inquiry = wire::parse_link_state_inquiry(body.first(body.size() - wire::kIcrcSize));
      EXPECT_TRUE(inquiry);
      if (inquiry) found.push_back(*inquiry);
    }
    return found;
  }
  void answer(std::uint64_t nonce, std::uint8_t hop, bool congested) {
    std::byte body[wire::kLinkStateFeedbackSize];
    wire::emit_link_state_feedback({.over_limits = congested,
                                    .destination_qpn = peer_qpn(),
                                    .hop = hop,
                                    .nonce = nonce,
                                    .switch_id = 7,
                                    .speed = 100,
                                    .link_rate = 100},
                                   body);
    control(bth(wire::Control::kLinkStateFeedback, 0), body);
  }
  Engine& engine() { return *pair.side[0].engine; }
  IpAddress peer() const { return pair.side[1].address; }

  std::uint32_t sent_before_ = 0;
};

TEST_F(LinkState, IsInquiredAfterMoreThanXTimeouts) {
  lose();
  const auto asked = inquiries();
  ASSERT_THAT(asked, SizeIs(1));
  EXPECT_EQ(asked[0].hop, 0);
  EXPECT_EQ(asked[0].hop_limit, 16);
  EXPECT_EQ(asked[0].source_qpn, engine().qp_num(pair.side[0].qp));
  EXPECT_NE(asked[0].nonce, 0u);
  EXPECT_EQ(count(Counter::kLinkStateInquiriesSent), 1u);
}

// For any recovery mode: the retransmission timer counts all packets that have waited for it.
TEST(LinkStateOfEachPolicy, IsInquiredAfterTimeouts) {
  for (const RecoveryMode mode :
       {RecoveryMode::kBitmap, RecoveryMode::kSelective, RecoveryMode::kWan, RecoveryMode::kWanFeedback}) {
    for (const std::uint32_t packets : {3u, 8u}) {
      PairOptions made = options();
      made.mode[0] = made.mode[1] = mode;
      TwoEngines pair{made};
      const auto count = [&](Counter counter) { return pair.side[0].statistics.get(counter); };
      pair.drop = [](const Sent& sent) { return sent.data(); };
      ASSERT_TRUE(pair.post(0, pair.write(0, 0, packets * 1024, 1)).ok());
      for (int i = 0; i < 100 && count(Counter::kLocalAckTimeout) == 0; ++i) pair.run_for(100_us);
      pair.run_for(10_us);
      ASSERT_EQ(count(Counter::kLocalAckTimeout), 1u);
      EXPECT_EQ(count(Counter::kLinkStateInquiriesSent), packets > 3 ? 1u : 0u)
          << "mode " << static_cast<int>(mode) << ", " << packets << " packets";
    }
  }
}

// A packet that a switch reports as dropped does not wait: it counts when it is retransmitted, once.
TEST(LinkStateByDrops, IsInquiredAfterReportedDrops) {
  PairOptions made = options();
  made.mode[0] = made.mode[1] = RecoveryMode::kBitmap;
  HandPlayed hand{made};
  const Instant left = hand.pair.now;
  hand.send(16);
  hand.pair.run_for(30_us);  // so retransmissions left later than any of a reported range
  const auto dropped = [&](std::uint32_t first, std::uint32_t last) {
    std::byte body[wire::kEdnSize];
    wire::emit_edn({.first = Psn{first},
                    .last = Psn{last},
                    .destination_qpn = hand.peer_qpn(),
                    .timestamp = wire::timestamp_of(left)},
                   body);
    hand.control(hand.bth(wire::Control::kEdn, first), body);
  };
  dropped(1003, 1005);
  hand.pair.round();
  dropped(1003, 1005);
  hand.pair.round();
  ASSERT_EQ(hand.count(Counter::kRetransmittedEdn), 3u);
  EXPECT_EQ(hand.count(Counter::kLinkStateInquiriesSent), 0u);
  dropped(1006, 1006);
  hand.pair.round();
  EXPECT_EQ(hand.count(Counter::kLinkStateInquiriesSent), 1u);
  EXPECT_EQ(hand.count(Counter::kLocalAckTimeout), 0u);
}

// Only the application limits it: the rate is lowered from the delivered rate.
TEST(ManagedWithoutAWindow, IsLoweredFromWhatWasDelivered) {
  for (const CongestionControl control : {CongestionControl::kNone, CongestionControl::kWindow}) {
    PairOptions made = options();
    made.recovery.congestion.control = control;
    TwoEngines pair{made};
    Engine& engine = *pair.side[0].engine;
    for (std::uint64_t i = 0; i < 200; ++i) {  // 64 KiB in 100 us: 5.2 Gbit/s, or the better rounds of it
      ASSERT_TRUE(pair.post(0, pair.write(0, 0, 64 * 1024, i)).ok());
      pair.run_for(100_us);
      (void)pair.poll(0);
    }
    ASSERT_TRUE(engine.manage_destination(pair.side[1].address, pair.now).ok());
    const ManagedReport managed = engine.managed_destinations().at(0);
    EXPECT_GT(managed.full, Bandwidth::from_bps(4'000'000'000));
    EXPECT_LE(managed.rate.bps(), managed.full.bps() / 2 + 1);
    const Duration visit = engine.recovery().wan.visit_interval;
    pair.run_for(visit + 1_us);
    EXPECT_EQ(engine.managed_destinations().size(), 1u) << "one visit gives a quarter back";
    pair.run_for(visit * 4);
    EXPECT_TRUE(engine.managed_destinations().empty());
  }
}

TEST_F(LinkState, TheControllerIsNotifiedOfFewCongestedLinks) {
  lose();
  const std::uint64_t nonce = inquiries().at(0).nonce;
  answer(nonce, 0, true);
  answer(nonce, 1, false);
  EXPECT_FALSE(engine().poll_link_report()) << "answers are waited for";
  pair.run_for(11_ms);
  const auto report = engine().poll_link_report();
  ASSERT_TRUE(report);
  EXPECT_EQ(report->peer, peer());
  EXPECT_EQ(report->congested, 1u);
  EXPECT_THAT(report->links, SizeIs(2));
  EXPECT_EQ(report->links[0].switch_id, 7u);
  EXPECT_FALSE(engine().poll_link_report());
  EXPECT_TRUE(engine().managed_destinations().empty());
  EXPECT_EQ(count(Counter::kLinkStateReports), 1u);
}

TEST_F(LinkState, TheDestinationIsManagedWhereManyAre) {
  lose();
  const std::uint64_t nonce = inquiries().at(0).nonce;
  answer(nonce, 0, true);
  EXPECT_TRUE(engine().managed_destinations().empty());
  answer(nonce, 2, true);
  const auto managed = engine().managed_destinations();
  ASSERT_THAT(managed, SizeIs(1));
  EXPECT_EQ(managed[0].peer, peer());
  EXPECT_LE(managed[0].rate, managed[0].full);
  EXPECT_EQ(managed[0].weight_percent, 50u);
  EXPECT_EQ(count(Counter::kManagedAdded), 1u);
  EXPECT_EQ(count(Counter::kLinksCongested), 2u);
  pair.run_for(11_ms);
  EXPECT_FALSE(engine().poll_link_report());
}

TEST_F(LinkState, ForgedAnswersChangeNothing) {
  answer(0, 0, true);
  EXPECT_EQ(count(Counter::kLinkStateUnasked), 1u) << "nothing was asked";
  lose();
  const std::uint64_t nonce = inquiries().at(0).nonce;
  for (std::uint8_t hop = 0; hop < 8; ++hop) answer(nonce + 1, hop, true);
  EXPECT_EQ(count(Counter::kLinkStateUnasked), 9u);
  for (int i = 0; i < 8; ++i) answer(nonce, 3, true);
  EXPECT_EQ(count(Counter::kLinkStateRepeated), 7u);
  EXPECT_TRUE(engine().managed_destinations().empty());
}

TEST_F(LinkState, ByHandOrByTheControllerAndBackAgain) {
  const Duration visit = pair.side[0].engine->recovery().wan.visit_interval;
  ASSERT_TRUE(engine().manage_destination(peer(), pair.now).ok());
  ASSERT_THAT(engine().managed_destinations(), SizeIs(1));
  pair.run_for(visit * 6);  // nothing is in flight: a quarter a visit
  EXPECT_TRUE(engine().managed_destinations().empty());
  EXPECT_GT(count(Counter::kManagedReleased), 0u);
  ASSERT_TRUE(engine().manage_destination(peer(), pair.now).ok());
  EXPECT_TRUE(engine().release_destination(peer(), pair.now).ok());
  EXPECT_EQ(engine().release_destination(peer(), pair.now).error(), ENOENT);
}

TEST_F(LinkState, AControlPacketConcernsWhoSendsThere) {
  const IpAddress elsewhere = IpAddress::v4(192, 0, 2, 1);
  EXPECT_EQ(engine().handle_control_packet(elsewhere, pair.now).error(), ENOENT);
  EXPECT_EQ(engine().manage_destination(elsewhere, pair.now).error(), ENOENT);
  EXPECT_EQ(count(Counter::kControlPackets), 0u);
  EXPECT_TRUE(engine().handle_control_packet(peer(), pair.now).ok());
  EXPECT_EQ(count(Counter::kControlPackets), 1u);
  EXPECT_THAT(engine().managed_destinations(), SizeIs(1));
}

}  // namespace
}  // namespace brdma::test
