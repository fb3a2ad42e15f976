// A silent peer's host reports that the process is stopped: the retry count's time waits for it. Without a reply
// nothing changes. And this process may have been stopped itself.
#include <algorithm>
#include <set>

#include "support/hand_played.h"
#include "wire/cm/mad.h"
#include "wire/stopped_peer.h"

namespace brdma::test {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::Field;
using testing::Ge;
using testing::SizeIs;

// Of timeout 14 and retry count 7 in bitmap mode: eight times four timeouts (qp/timers/timer_lengths.h).
constexpr Duration kTimeout = Duration::from_ns(std::int64_t{4096} << 14), kRetries = kTimeout * 32;

class StoppedPeerTest : public testing::Test, public HandPlayed {
 protected:
  explicit StoppedPeerTest(PairOptions options = {}) : HandPlayed(std::move(options)) {}
  struct Query {
    Instant at;
    wire::StoppedQuery body;
  };
  std::vector<Query> queries() const {
    std::vector<Query> found;
    for (const Sent& each : pair.wire) {
      if (each.from != 0 || !each.control(wire::Control::kStoppedQuery)) continue;
      EXPECT_EQ(each.bth().dest_qpn, wire::kGsiQpn);
      EXPECT_EQ(std::ranges::count(pair.wire, each.batch, &Sent::batch), 1) << "it goes to a socket of its own";
      const auto body = wire::parse_stopped_query(each.packet().payload);
      EXPECT_TRUE(body);
      found.push_back({each.at, body.value_or(wire::StoppedQuery{})});
    }
    return found;
  }
  void reply(std::uint64_t nonce, std::optional<std::uint32_t> about = {}) {
    std::byte body[wire::kStoppedReplySize];
    wire::emit_stopped_reply({.peer_qpn = about.value_or(peer_qpn()), .nonce = nonce}, body);
    control(bth(wire::Control::kStoppedReply, 0), body);
  }
  // For so long each query is answered, as by the host of a stopped process.
  void stopped_for(Duration time) {
    const Instant end = pair.now + time;
    while (pair.now < end) {
      pair.run_for(std::min(10_ms, end - pair.now));
      const auto asked = queries();
      for (; answered_ < asked.size(); ++answered_) reply(asked[answered_].body.nonce);
    }
  }
  // Runs until the peer is given up.
  Instant given_up(Duration at_most = 60_s) {
    EXPECT_TRUE(pair.run_until_idle(at_most));
    const auto done = pair.poll(0);
    EXPECT_THAT(done, ElementsAre(Field(&Completion::status, CompletionStatus::kRetryExceeded)));
    return pair.now;
  }
  std::size_t answered_ = 0;
};

// A host that is gone, or does not know the query: six leave, and it is given up at the usual time.
TEST_F(StoppedPeerTest, WhoDoesNotReplyIsGivenUpAsEver) {
  const Instant begun = pair.now;
  send(1);
  EXPECT_EQ(given_up() - begun, kRetries);
  const auto asked = queries();
  ASSERT_THAT(asked, SizeIs(6));
  for (std::size_t i = 0; i < asked.size(); ++i) {
    EXPECT_EQ(asked[i].at - begun, kRetries / 8 * static_cast<std::int64_t>(i + 2)) << i;
    EXPECT_EQ(asked[i].body.source_qpn, pair.side[0].engine->qp_num(pair.side[0].qp));
    EXPECT_EQ(asked[i].body.peer_qpn, peer_qpn());
    EXPECT_EQ(asked[i].body.silent_ms, static_cast<std::uint32_t>((asked[i].at - begun).ns() / 1'000'000));
    EXPECT_EQ(asked[i].body.nonce, asked[0].body.nonce + i);
  }
  EXPECT_EQ(count(Counter::kStoppedQueriesSent), 6u);
  EXPECT_EQ(count(Counter::kStoppedReplies), 0u);
}

TEST_F(StoppedPeerTest, WhoIsStoppedIsWaitedForAndGoesOn) {
  send(1);
  stopped_for(100_s);
  EXPECT_TRUE(pair.poll(0).empty());
  EXPECT_GE(count(Counter::kStoppedReplies), 350u);
  EXPECT_LE(count(Counter::kLocalAckTimeout), 520u) << "each 200 ms, no oftener";
  EXPECT_EQ(count(Counter::kStoppedRepliesIgnored), 0u);
  ack({.base = 1001});
  const auto done = pair.poll(0);
  ASSERT_THAT(done, SizeIs(1));
  EXPECT_EQ(done[0].status, CompletionStatus::kSuccess);
  const auto asked = queries().size();
  ASSERT_TRUE(pair.run_until_idle(1_s));
  EXPECT_EQ(queries().size(), asked) << "no query about a peer that was received from";
}

// Killed while it was stopped: its host does not answer for it any more, and the retries count.
TEST_F(StoppedPeerTest, TheLastReplyIsWhereTheRetriesBegin) {
  send(1);
  const Instant begun = pair.now;
  pair.run_for(kRetries / 4);
  ASSERT_THAT(queries(), SizeIs(1));
  reply(queries()[0].body.nonce);
  const Instant replied = pair.now;
  EXPECT_EQ(given_up() - replied, kRetries);
  EXPECT_GT(pair.now - begun, kRetries);
}

class StoppedForFiveSeconds : public StoppedPeerTest {
 protected:
  static PairOptions options() {
    PairOptions made;
    made.recovery.stopped_peer_max = 5_s;
    return made;
  }
  StoppedForFiveSeconds() : StoppedPeerTest(options()) {}
};

TEST_F(StoppedForFiveSeconds, ThenTheRetriesCount) {
  const Instant begun = pair.now;
  send(1);
  stopped_for(5_s + kRetries - 10_ms - kRetries / 8);
  EXPECT_TRUE(pair.poll(0).empty());
  stopped_for(kRetries / 8 + 20_ms);
  const auto done = pair.poll(0);
  ASSERT_THAT(done, SizeIs(1));
  EXPECT_EQ(done[0].status, CompletionStatus::kRetryExceeded);
  for (const Query& query : queries()) EXPECT_LT(query.at - begun, 5_s) << "no reply would count";
}

class StoppedSwitchedOff : public StoppedPeerTest {
 protected:
  static PairOptions options() {
    PairOptions made;
    made.recovery.stopped_peer_max = Duration{};
    return made;
  }
  StoppedSwitchedOff() : StoppedPeerTest(options()) {}
};

TEST_F(StoppedSwitchedOff, NobodyIsAsked) {
  const Instant begun = pair.now;
  send(1);
  pair.run_for(kRetries / 2);
  reply(0);
  EXPECT_EQ(given_up() - begun, kRetries);
  EXPECT_THAT(queries(), SizeIs(0));
  EXPECT_EQ(count(Counter::kStoppedRepliesIgnored), 1u);
}

// Guessed, of another queue pair, from another host, damaged, repeated.
TEST_F(StoppedPeerTest, ForgedRepliesChangeNothing) {
  const Instant begun = pair.now;
  send(1);
  pair.run_for(kRetries / 4 - 1_ms);
  reply(0);
  EXPECT_EQ(count(Counter::kStoppedRepliesIgnored), 1u) << "nobody was asked yet";
  pair.run_for(2_ms);
  ASSERT_THAT(queries(), SizeIs(1));
  const std::uint64_t nonce = queries()[0].body.nonce;
  for (const std::uint64_t guess : {std::uint64_t{0}, nonce - 1, nonce + 1, ~nonce}) reply(guess);
  EXPECT_EQ(count(Counter::kStoppedRepliesIgnored), 5u);
  reply(nonce, peer_qpn() ^ 0x100);
  EXPECT_EQ(pair.side[0].count(DropReason::kBadControl), 1u);

  std::vector<std::byte> packet(wire::kStoppedReplyPacketSize);
  wire::emit_stopped_reply_packet({.peer_qpn = peer_qpn(), .nonce = nonce}, bth(wire::Control::kCaps, 0).dest_qpn,
                                  std::span<std::byte, wire::kStoppedReplyPacketSize>{packet});
  pair.inject(0, packet);
  EXPECT_EQ(pair.side[0].count(DropReason::kBadIcrc), 1u);
  Datagram elsewhere;
  elsewhere.source = IpAddress::v4(10, 0, 0, 77);
  elsewhere.destination = pair.side[0].address;
  elsewhere.source_port = 0xC000;
  elsewhere.ip_id_known = true;
  elsewhere.bytes = packet;
  store_le32(packet.data() + packet.size() - 4,
             wire::packet_icrc({elsewhere.source, elsewhere.destination, 0xC000, kRoceUdpPort, 0}, packet));
  pair.side[0].engine->handle_datagram(elsewhere, pair.now);
  EXPECT_EQ(pair.side[0].count(DropReason::kWrongPeer), 1u);
  packet.resize(packet.size() - 4);  // its ICRC is then the end of the body
  pair.sign(1, packet);
  pair.inject(0, packet);
  EXPECT_EQ(pair.side[0].count(DropReason::kBadControl), 2u);
  EXPECT_EQ(count(Counter::kStoppedReplies), 0u);
  EXPECT_EQ(given_up() - begun, kRetries);
}

TEST_F(StoppedPeerTest, AReplyCountsOnce) {
  send(1);
  pair.run_for(kRetries / 4);
  const std::uint64_t nonce = queries().at(0).body.nonce;
  reply(nonce);
  const Instant replied = pair.now;
  pair.run_for(kRetries / 2);
  reply(nonce);
  EXPECT_EQ(count(Counter::kStoppedRepliesIgnored), 1u);
  EXPECT_EQ(given_up() - replied, kRetries);
}

// A query is for QP 1, not for a queue pair.
TEST_F(StoppedPeerTest, AQueryToAQueuePairIsIgnored) {
  std::byte body[wire::kStoppedQuerySize];
  wire::emit_stopped_query({.source_qpn = peer_qpn(), .peer_qpn = 0x200, .nonce = 1}, body);
  control(bth(wire::Control::kStoppedQuery, 0), body);
  EXPECT_EQ(pair.side[0].count(DropReason::kBadControl), 1u);
}

// Peers of any kind may be queried, and standard ones get everything again each time.
class StoppedStandardPeer : public StoppedPeerTest {
 protected:
  static PairOptions options() {
    PairOptions made;
    made.mode[0] = made.mode[1] = RecoveryMode::kStandard;
    return made;
  }
  StoppedStandardPeer() : StoppedPeerTest(options()) {}
};

TEST_F(StoppedStandardPeer, IsWaitedForToo) {
  const Instant begun = pair.now;
  send(4);
  pair.run_for(kTimeout * 2 + kTick);
  ASSERT_THAT(queries(), SizeIs(1)) << "a quarter of eight timeouts";
  EXPECT_EQ(queries()[0].at - begun, kTimeout * 2);
  stopped_for(20_s);
  EXPECT_TRUE(pair.poll(0).empty());
  EXPECT_LE(count(Counter::kLocalAckTimeout), 155u) << "four in the time of the retries, no more";
  aeth(1003, wire::kSyndromeAck);
  EXPECT_THAT(pair.poll(0), SizeIs(1));
}

TEST_F(StoppedStandardPeer, WithoutAReplyItIsGivenUpAsEver) {
  const Instant begun = pair.now;
  send(4);
  EXPECT_EQ(given_up() - begun, kTimeout * 8);
}

class StoppedAtOnce : public StoppedPeerTest {
 protected:
  static PairOptions options() {
    PairOptions made;
    made.retry_count = 0;
    made.segments_max = 1;
    return made;
  }
  StoppedAtOnce() : StoppedPeerTest(options()) {}
};

TEST_F(StoppedAtOnce, WithoutRetriesToo) {
  send(2);
  stopped_for(30_s);
  EXPECT_TRUE(pair.poll(0).empty());
  ack({.base = 1002});
  EXPECT_THAT(pair.poll(0), SizeIs(1));
}

// Of several paths one may be silent: queries take each in turn.
TEST(StoppedPeerPaths, QueriesTakeEachPathInTurn) {
  std::set<std::uint16_t> ports;
  PairOptions options;
  options.paths = 4;
  HandPlayed hand{options};
  hand.send(1);
  hand.pair.run_for(kRetries);
  for (const Sent& each : hand.pair.wire) {
    if (each.from == 0 && each.control(wire::Control::kStoppedQuery)) ports.insert(each.source_port);
  }
  EXPECT_THAT(ports, SizeIs(4));
}

// --- this process is stopped ---

// The packet was lost, then a debugger stopped us for longer than all retries take. Our silence is not the peer's.
TEST_F(StoppedPeerTest, AfterAPauseOfOurOwnARetransmissionIsWaitedFor) {
  std::uint32_t acknowledged = 0;
  send(1);
  sent();
  for (const Duration before : {1_us, 500_ms, 2_s}) {
    pair.run_for(before);
    pair.paused[0] = true;
    pair.run_for(100_s);
    pair.paused[0] = false;
    sent();
    pair.run_for(1_ms);
    EXPECT_THAT(sent(), Each(Ge(1000u)));
    EXPECT_TRUE(pair.poll(0).empty()) << "its retransmission has just left";
    pair.run_for(kTimeout * 4 - 2_ms);
    EXPECT_TRUE(pair.poll(0).empty()) << "one retry's time is left in any case";
    ack({.base = 1001 + acknowledged});
    const auto done = pair.poll(0);
    ASSERT_THAT(done, SizeIs(1));
    EXPECT_EQ(done[0].status, CompletionStatus::kSuccess);
    ++acknowledged;
    send(1);
  }
}

TEST_F(StoppedPeerTest, AfterAPauseOfOurOwnADeadPeerIsStillGivenUp) {
  send(1);
  pair.run_for(kRetries / 2);
  pair.paused[0] = true;
  pair.run_for(100_s);
  pair.paused[0] = false;
  const Instant back = pair.now;
  const Duration left = given_up() - back;
  EXPECT_LE(left, kRetries / 2 + 200_ms);
  EXPECT_GE(left, kRetries / 2 - 200_ms) << "what had passed of the retries before has passed";
}

}  // namespace
}  // namespace brdma::test
