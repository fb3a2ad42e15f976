// qp/read/response_gaps.h: which responses are missing, when they count as lost, and when they are requested again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "qp/read/response_gaps.h"

namespace brdma::qp {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::uint32_t kMtu = 1024;

// A requester that awaits the responses of READs, whose first PSN is 1000 and first sequence 0.
struct Reader {
  Reader() {
    identity.recovery = &recovery;
    identity.attributes.path_mtu = PathMtu::k1024;
    identity.bitmap_agreed = true;
    scoreboard.begin_from(Psn{1000});
  }
  ~Reader() { loss.end(environment.pools.loss_recovery); }

  void read(std::uint32_t packets) {
    messages.push_back(
        {.first = scoreboard.next(), .packets = packets, .length = packets * kMtu, .kind = MessageKind::kRead});
    scoreboard.sent_request(packets, 0, now);
    awaited.on_requested(packets, packets * kMtu);
  }
  void response(Sequence sequence, bool again = false, std::uint8_t path = 0) {
    wire::Packet packet;
    packet.op = wire::RcOp::kReadResponseMiddle;
    packet.bth.psn = scoreboard.psn_of(sequence);
    packet.bitmap = true;
    packet.bxth.retransmitted = again;
    packet.bxth.path = path;
    const Instant sent = scoreboard.sent_at(sequence, now);
    if (identity.receiving_paths > 1) gaps().note_path(packet, now);
    awaited.on_response(kMtu, true);
    scoreboard.acknowledge_response(sequence);
    gaps().on_response(packet, sequence, sent, now);
  }
  // The responses that are requested again, which leave at once.
  std::vector<Sequence> judged() {
    std::vector<Sequence> again;
    gaps().judge(now, now, [&](Sequence at) {
      again.push_back(at);
      return scoreboard.request_retransmission(at, 0);
    });
    for (const Sequence at : again) scoreboard.left_again(at, 0, 0, now);
    return again;
  }
  [[nodiscard]] ResponseGaps gaps() {
    return ResponseGaps{{environment, identity, scoreboard, messages, rtt, awaited, receiver, loss}};
  }
  void pass(Duration time) { now = now + time; }
  [[nodiscard]] Duration too_old() const { return recovery.age_max + Duration::from_ns(1); }

  EngineConfig config;
  memory::MemoryTable memory{SecretRandom{1, "keys"}};
  Statistics statistics;
  Environment environment{.config = config, .memory = memory, .telemetry = {.statistics = statistics}};
  RecoveryConfig recovery;
  Identity identity;
  Scoreboard scoreboard{window_shape(recovery), environment.pools.segments};
  MessageTable messages;
  recovery::RttEstimator rtt;
  ResponseAdmission awaited;
  ResponseReceiver receiver;
  PooledLossRecovery loss;
  Instant now = Instant{} + 1_s;
};

TEST(ResponseGaps, InOrderNothingIsKept) {
  Reader reader;
  reader.read(4);
  for (Sequence at = 0; at < 4; ++at) {
    EXPECT_EQ(reader.gaps().first_missing(), at);
    reader.response(at);
    EXPECT_EQ(reader.receiver.seen(), at + 1);
  }
  EXPECT_EQ(reader.gaps().first_missing(), 4U);
  EXPECT_FALSE(reader.loss);
  EXPECT_THAT(reader.judged(), IsEmpty());
}

TEST(ResponseGaps, AGapIsOfOneMessage) {
  Reader reader;
  reader.read(4);
  reader.read(4);
  reader.response(0);
  reader.response(6);
  ASSERT_TRUE(reader.loss);
  const bitmap::GapTable& found = reader.loss->response_gaps;
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].start, Psn{1001});
  EXPECT_EQ(found[0].length, 3U);
  EXPECT_EQ(found[1].start, Psn{1004});
  EXPECT_EQ(found[1].length, 2U);
}

TEST(ResponseGaps, LostByDepth) {
  Reader reader;
  reader.read(32);
  reader.response(0);
  for (Sequence at = 3; at <= 10; ++at) {
    reader.response(at);
    EXPECT_THAT(reader.judged(), IsEmpty()) << at;
  }
  reader.response(11);  // the ninth beyond it
  EXPECT_THAT(reader.judged(), ElementsAre(1, 2));
  EXPECT_THAT(reader.judged(), IsEmpty()) << "once";
}

TEST(ResponseGaps, LostByAge) {
  Reader reader;
  reader.read(8);
  reader.response(0);
  reader.response(3);
  EXPECT_THAT(reader.judged(), IsEmpty());
  EXPECT_EQ(reader.loss->response_judge_at, reader.now + reader.too_old());
  reader.pass(reader.too_old());
  EXPECT_THAT(reader.judged(), ElementsAre(1, 2));
  EXPECT_EQ(reader.loss->response_gaps[0].feedbacks, 1);
}

// Without an RTT sample a re-request waits for 500 us, and each later one twice as long, up to 8 ms.
TEST(ResponseGaps, ReRequestsAreRepeatedEverMoreSeldom) {
  Reader reader;
  reader.read(8);
  reader.response(0);
  reader.response(2);
  EXPECT_THAT(reader.judged(), IsEmpty());
  reader.pass(reader.too_old());
  EXPECT_THAT(reader.judged(), ElementsAre(1));
  for (const Duration wait : {500_us, 1_ms, 2_ms, 4_ms, 8_ms, 8_ms}) {
    EXPECT_EQ(reader.loss->response_judge_at, reader.now + wait);
    reader.pass(wait - 1_us);
    EXPECT_THAT(reader.judged(), IsEmpty());
    reader.pass(1_us);
    reader.loss->last_response = reader.now;  // other responses come
    EXPECT_THAT(reader.judged(), ElementsAre(1));
  }
}

// The peer has gone. Nine re-requests in the first 128 ms, and then one each time the silence has doubled.
TEST(ResponseGaps, ASilentPeerIsAskedEverMoreSeldom) {
  Reader reader;
  reader.read(8);
  reader.response(0);
  reader.response(2);
  const Instant end = reader.now + 8_s;
  std::size_t requests = 0;
  for (Instant next = reader.now + reader.too_old(); next < end; next = *reader.loss->response_judge_at) {
    reader.pass(next - reader.now);
    requests += reader.judged().size();
  }
  EXPECT_EQ(requests, 15U);
}

// Responses come in request order: one that was requested after the re-request shows that the repetition is lost.
TEST(ResponseGaps, ALaterRequestsResponseIsEvidenceAgainstTheReRequest) {
  Reader reader;
  reader.rtt.sample(2_ms, reader.now);
  reader.read(8);
  reader.response(0);
  reader.response(2);
  EXPECT_THAT(reader.judged(), IsEmpty());
  reader.pass(reader.too_old());
  EXPECT_THAT(reader.judged(), ElementsAre(1));
  reader.pass(reader.recovery.age_max * 2);
  reader.read(4);  // 8 to 11, requested much later
  reader.pass(2_ms + 1_us);
  EXPECT_THAT(reader.judged(), IsEmpty());
  reader.response(8);
  EXPECT_THAT(reader.judged(), ElementsAre(1));
}

// Within a round trip of its last transmission a response is not requested again, whatever was said of it.
TEST(ResponseGaps, OneReRequestARoundTrip) {
  Reader reader;
  reader.rtt.sample(10_ms, reader.now);
  reader.read(8);
  reader.response(0);
  reader.response(2);
  EXPECT_THAT(reader.judged(), IsEmpty());
  reader.pass(reader.too_old());
  EXPECT_THAT(reader.judged(), ElementsAre(1));
  reader.pass(5_ms);
  std::vector<Sequence> probed;
  const auto probe = [&](Sequence at) {
    probed.push_back(at);
    return true;
  };
  reader.gaps().request_all(reader.now, probe);
  EXPECT_THAT(probed, IsEmpty());
  reader.pass(5_ms);
  reader.gaps().request_all(reader.now, probe);
  EXPECT_THAT(probed, ElementsAre(1));
}

TEST(ResponseGaps, ALateResponseTeaches) {
  Reader reader;
  reader.read(32);
  reader.response(0);
  for (Sequence at = 2; at <= 21; ++at) reader.response(at);
  EXPECT_THAT(reader.judged(), ElementsAre(1));
  reader.response(1);  // the original, overtaken by 20
  EXPECT_EQ(reader.gaps().limits_at(reader.now).depth_max, 25U);
  EXPECT_TRUE(reader.loss->response_gaps.empty());
}

TEST(ResponseGaps, AnAnswerToAReRequestTeachesNothing) {
  Reader reader;
  reader.read(32);
  reader.response(0);
  for (Sequence at = 2; at <= 21; ++at) reader.response(at);
  EXPECT_THAT(reader.judged(), ElementsAre(1));
  reader.response(1, true);
  EXPECT_EQ(reader.gaps().limits_at(reader.now).depth_max, reader.recovery.depth_max);
}

TEST(ResponseGaps, AnOperatorNamesOneGap) {
  Reader reader;
  reader.read(16);
  reader.response(0);
  reader.response(3);
  reader.response(6);
  std::vector<Psn> named;
  std::vector<Sequence> again;
  const auto note = [&](const bitmap::GapRecord& gap) { named.push_back(gap.start); };
  const auto resend = [&](Sequence at) {
    again.push_back(at);
    return true;
  };
  reader.gaps().request_by_hand(Psn{1005}, reader.now, note, resend);
  EXPECT_THAT(named, ElementsAre(Psn{1004}));
  EXPECT_THAT(again, ElementsAre(4, 5));
  reader.gaps().request_by_hand(std::nullopt, reader.now, note, resend);
  EXPECT_THAT(named, ElementsAre(Psn{1004}, Psn{1001}, Psn{1004}));
  reader.gaps().request_by_hand(Psn{1006}, reader.now, note, resend);
  EXPECT_EQ(named.size(), 3U) << "that one is here";
}

}  // namespace
}  // namespace brdma::qp
