// Who wants to send, and how urgently (base/transmit_interest.h): of one queue pair, of the engine, and the driver's
// other questions.
#include <gmock/gmock.h>

#include "support/two_engines.h"

namespace brdma::test {
namespace {

constexpr Duration kDelay = RecoveryConfig{}.ack_delay;

TEST(TransmitInterest, IsMergedByTheGreater) {
  using enum TransmitInterest;
  static_assert(kNone < kDeferrable && kDeferrable < kNewData && kNewData < kResponse);
  static_assert(kResponse < kRetransmission && kRetransmission < kForced);
  EXPECT_EQ(merge(kNone, kDeferrable), kDeferrable);
  EXPECT_EQ(merge(kForced, kNewData), kForced);
  EXPECT_EQ(merge(kResponse, kResponse), kResponse);
}

// Side 1 sends nothing by itself: its packets are delivered by hand.
class Interest : public testing::Test {
 protected:
  explicit Interest(const PairOptions& options = {}) : pair(options) { pair.paused[1] = true; }
  [[nodiscard]] TransmitInterest of(int i) const { return pair.side[i].qp->interest(pair.now); }
  // The requests that side 0 posted leave, and are here.
  void arrive() {
    pair.round();
    const std::size_t until = pair.wire.size();
    for (; delivered < until; ++delivered) {
      if (pair.wire[delivered].from == 0) deliver(pair.wire[delivered]);
    }
  }
  void deliver(const Sent& sent, std::uint8_t traffic_class = 0) {
    pair.side[1].engine->handle_datagram({.source = pair.side[0].address,
                                          .destination = pair.side[1].address,
                                          .source_port = sent.source_port,
                                          .traffic_class = traffic_class,
                                          .ip_id_known = true,
                                          .bytes = sent.bytes},
                                         pair.now);
  }
  void write_to(int i, std::uint32_t bytes) { ASSERT_TRUE(pair.post(1 - i, pair.write(1 - i, 0, bytes, 1)).ok()); }
  void expect_engine(int i, TransmitInterest level) {
    for (int times = 0; times < 2; ++times) {  // asking changes nothing
      const Engine::Interest interest = pair.side[i].engine->transmit_interest();
      EXPECT_EQ(interest.level, level);
      EXPECT_EQ(interest.only, level == TransmitInterest::kNone ? nullptr : pair.side[i].qp);
    }
  }

  TwoEngines pair;
  std::size_t delivered = 0;
};

TEST_F(Interest, OfAQueuePairWithNothingToSendIsNone) {
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(of(i), TransmitInterest::kNone);
    expect_engine(i, TransmitInterest::kNone);
  }
}

TEST_F(Interest, OfARequestIsNewDataUntilItHasLeft) {
  write_to(1, 8);
  EXPECT_EQ(of(0), TransmitInterest::kNewData);
  expect_engine(0, TransmitInterest::kNewData);
  pair.round();
  EXPECT_EQ(of(0), TransmitInterest::kNone) << "it is in flight";
  expect_engine(0, TransmitInterest::kNone);
}

TEST_F(Interest, OfAnAcknowledgementThatWasAskedForIsDeferrableForItsDelay) {
  write_to(1, 8);
  arrive();
  EXPECT_EQ(of(1), TransmitInterest::kDeferrable);
  EXPECT_EQ(pair.side[1].qp->interest(pair.now + kDelay - Duration::from_ns(1)), TransmitInterest::kDeferrable);
  EXPECT_EQ(pair.side[1].qp->interest(pair.now + kDelay), TransmitInterest::kForced);
  expect_engine(1, TransmitInterest::kDeferrable);
}

TEST_F(Interest, OfAnAcknowledgementThatIsNotDueIsNone) {
  write_to(1, 3 * 1024);
  pair.round();
  deliver(pair.wire.front());
  ASSERT_FALSE(pair.wire.front().bth().ack_request);
  EXPECT_EQ(of(1), TransmitInterest::kNone);
  expect_engine(1, TransmitInterest::kNone);
  EXPECT_EQ(pair.side[1].qp->interest(pair.now + kDelay), TransmitInterest::kForced)
      << "no reply comes in the middle of a message";
}

TEST_F(Interest, OfAReplyIsNewDataAndNotItsAcknowledgements) {
  write_to(1, 8);
  arrive();
  write_to(0, 8);
  EXPECT_EQ(of(1), TransmitInterest::kNewData);
  expect_engine(1, TransmitInterest::kNewData);
  EXPECT_EQ(pair.side[1].qp->interest(pair.now + kDelay), TransmitInterest::kForced) << "the acknowledgement's";
}

TEST_F(Interest, OfAReadsResponseIsAboveThatOfNewData) {
  ASSERT_TRUE(pair.post(0, pair.request(0, WorkOpcode::kRdmaRead, 0, 8, 1)).ok());
  arrive();
  EXPECT_EQ(of(1), TransmitInterest::kResponse);
  write_to(0, 8);
  EXPECT_EQ(of(1), TransmitInterest::kResponse);
  expect_engine(1, TransmitInterest::kResponse);
}

TEST_F(Interest, OfNewDataBehindALostPacketIsThatOfTheRetransmission) {
  pair.drop = [](const Sent& sent) { return sent.from == 0; };
  write_to(1, 8);
  pair.round();
  pair.paused[0] = true;
  for (int timers = 0; timers < 10 && of(0) == TransmitInterest::kNone; ++timers) {
    const auto due = pair.side[0].engine->next_timeout();
    ASSERT_TRUE(due.has_value());
    pair.now = *due;
    pair.side[0].engine->handle_timeout(pair.now);
  }
  EXPECT_EQ(of(0), TransmitInterest::kRetransmission);
  write_to(1, 8);
  EXPECT_EQ(of(0), TransmitInterest::kRetransmission);
  expect_engine(0, TransmitInterest::kRetransmission);
}

TEST_F(Interest, OfAMarkedPacketsNotificationIsForced) {
  write_to(1, 8);
  pair.round();
  deliver(pair.wire.back(), 3);
  EXPECT_EQ(of(1), TransmitInterest::kForced);
}

TEST_F(Interest, OfANakIsForcedThoughTheQueuePairHasEnded) {
  SendRequest request = pair.write(0, 0, 8, 1);
  request.rkey ^= 1;
  ASSERT_TRUE(pair.post(0, request).ok());
  arrive();
  ASSERT_EQ(pair.state(1), QpState::kErr);
  EXPECT_EQ(of(1), TransmitInterest::kForced);
  expect_engine(1, TransmitInterest::kForced);
  pair.paused[1] = false;
  pair.round();
  EXPECT_EQ(of(1), TransmitInterest::kNone);
}

TEST(NegotiationInterest, IsForced) {
  PairOptions options;
  options.settle = false;
  const TwoEngines pair{options};
  EXPECT_EQ(pair.side[0].qp->interest(pair.now), TransmitInterest::kForced);
}

// Its work requests complete when the next batch is asked for.
TEST(UnreliableInterest, IsForcedUntilTheDriverHasSentTheBatch) {
  PairOptions options;
  options.type = QpType::kUc;
  TwoEngines pair{options};
  TwoEngines::Side& side = pair.side[0];
  ASSERT_TRUE(pair.post(0, pair.write(0, 0, 8, 1)).ok());
  EXPECT_EQ(side.engine->transmit_interest().level, TransmitInterest::kNewData);
  TransmitBuffer buffer;
  Transmit out;
  ASSERT_TRUE(side.engine->poll_transmit(buffer, out, pair.now));
  EXPECT_TRUE(out.more);
  EXPECT_EQ(side.qp->interest(pair.now), TransmitInterest::kNone);
  const Engine::Interest interest = side.engine->transmit_interest();
  EXPECT_EQ(interest.level, TransmitInterest::kForced);
  EXPECT_EQ(interest.only, side.qp);
  EXPECT_THAT(pair.poll(0), testing::IsEmpty());
  EXPECT_FALSE(side.engine->poll_transmit(buffer, out, pair.now));
  EXPECT_THAT(pair.poll(0), testing::SizeIs(1));
  EXPECT_EQ(side.engine->transmit_interest().level, TransmitInterest::kNone);
}

// Two queue pairs of each side.
class InterestOfTwo : public Interest {
 protected:
  InterestOfTwo() {
    first[0] = pair.side[0].qp;
    first[1] = pair.side[1].qp;
    for (auto& side : pair.side) {
      QpCreate create{.pd = side.pd,
                      .send_cq = side.send_cq,
                      .receive_cq = side.receive_cq,
                      .capabilities = pair.options.capabilities,
                      .user = &side};
      side.qp = side.engine->create_qp(create).value();
    }
    pair.paused[1] = false;
    pair.connect(0);
    pair.connect(1);
    pair.run_for(2_ms);
    pair.wire.clear();
    pair.paused[1] = true;
  }
  void write_on_first() {
    ASSERT_TRUE(pair.side[0].engine->post_send(first[0], pair.write(0, 0, 8, 1), pair.now).ok());
  }

  QueuePair* first[2];
};

TEST_F(InterestOfTwo, IsTheGreaterOneAndOfNoneAlone) {
  Engine& engine = *pair.side[0].engine;
  write_on_first();
  EXPECT_EQ(engine.transmit_interest().only, first[0]);
  write_to(1, 8);
  const Engine::Interest interest = engine.transmit_interest();
  EXPECT_EQ(interest.level, TransmitInterest::kNewData);
  EXPECT_EQ(interest.only, nullptr);
}

TEST_F(InterestOfTwo, IsDeferrableIfBothAre) {
  write_on_first();
  write_to(1, 8);
  arrive();
  const Engine::Interest interest = pair.side[1].engine->transmit_interest();
  EXPECT_EQ(interest.level, TransmitInterest::kDeferrable);
  EXPECT_EQ(interest.only, nullptr);
}

TEST_F(InterestOfTwo, IsOfTheOneThatHasAnyThoughBothAreReady) {
  Engine& engine = *pair.side[1].engine;
  ASSERT_TRUE(pair.side[0].engine->post_send(first[0], pair.write(0, 0, 3 * 1024, 1), pair.now).ok());
  pair.round();
  deliver(pair.wire.front());  // its acknowledgement is not due
  write_to(0, 8);
  const Engine::Interest interest = engine.transmit_interest();
  EXPECT_EQ(interest.level, TransmitInterest::kNewData);
  EXPECT_EQ(interest.only, pair.side[1].qp);
}

TEST_F(Interest, MoreIsTrueUntilTheLastBatch) {
  Engine& engine = *pair.side[0].engine;
  TransmitBuffer buffer;
  Transmit out;
  write_to(1, 3 * 16 * 1024);
  for (int batch = 1; batch <= 3; ++batch) {
    ASSERT_TRUE(engine.poll_transmit(buffer, out, pair.now));
    EXPECT_EQ(out.segments, 16u);
    EXPECT_EQ(out.more, batch < 3) << batch;
  }
  EXPECT_FALSE(engine.poll_transmit(buffer, out, pair.now));
}

TEST_F(Interest, LoadCountsPacketsInFlightAndRequests) {
  Engine& engine = *pair.side[0].engine;
  const auto load = [&] { return engine.load(pair.side[0].qp); };
  EXPECT_EQ(load().per_batch, 16u);
  write_to(1, 3 * 1024);
  EXPECT_TRUE(load().requests);
  EXPECT_EQ(load().in_flight, 0u);
  pair.round();
  EXPECT_EQ(load().in_flight, 3u);
  EXPECT_EQ(load().awaited, 3u);
  EXPECT_FALSE(load().receiving);
  pair.paused[1] = false;
  ASSERT_TRUE(pair.run_until_idle());
  EXPECT_EQ(load().in_flight, 0u);
  EXPECT_FALSE(load().requests);
}

TEST(LoadOfAStandardPeer, HasNoBatchesWorthWaitingFor) {
  PairOptions options;
  options.mode[1] = RecoveryMode::kStandard;
  TwoEngines pair{options};
  EXPECT_EQ(pair.side[0].engine->load(pair.side[0].qp).per_batch, 1u);
}

TEST(LoadOfUnreliable, IsZero) {
  PairOptions options;
  options.type = QpType::kUc;
  TwoEngines pair{options};
  ASSERT_TRUE(pair.post(0, pair.write(0, 0, 8, 1)).ok());
  const Engine::Load load = pair.side[0].engine->load(pair.side[0].qp);
  EXPECT_EQ(load.in_flight + load.awaited, 0u);
  EXPECT_FALSE(load.requests || load.receiving);
  EXPECT_EQ(load.per_batch, 1u);
}

class Notifications : public Interest {
 protected:
  // Before, and after queue pairs are settled.
  void expect_some() {
    Engine& engine = *pair.side[1].engine;
    EXPECT_TRUE(engine.has_notifications());
    (void)engine.transmit_interest();
    EXPECT_TRUE(engine.has_notifications());
    (void)engine.next_timeout();
    EXPECT_TRUE(engine.has_notifications());
  }
};

TEST_F(Notifications, AreThereForAnEventOfAQueuePair) {
  SendRequest request = pair.write(0, 0, 8, 1);
  request.rkey ^= 1;
  ASSERT_TRUE(pair.post(0, request).ok());
  EXPECT_FALSE(pair.side[1].engine->has_notifications());
  arrive();
  expect_some();
  EXPECT_EQ(pair.side[1].engine->poll_notification()->kind, Notification::Kind::kQpAccessError);
  EXPECT_FALSE(pair.side[1].engine->has_notifications());
}

TEST_F(Notifications, AreThereForACompletionOfAnArmedQueue) {
  ASSERT_TRUE(pair.post_receive(1, 0, 64, 7).ok());
  pair.side[1].engine->request_notify(pair.side[1].receive_cq, false);
  EXPECT_FALSE(pair.side[1].engine->has_notifications());
  ASSERT_TRUE(pair.post(0, pair.request(0, WorkOpcode::kSend, 0, 8, 1)).ok());
  arrive();
  expect_some();
  EXPECT_EQ(pair.side[1].engine->poll_notification()->kind, Notification::Kind::kCompletion);
  EXPECT_FALSE(pair.side[1].engine->has_notifications());
}

TEST_F(Notifications, AreThereForAWriteToAWatchedRegion) {
  ASSERT_TRUE(pair.side[1].engine->watch_writes(pair.side[1].region, nullptr).ok());
  write_to(1, 8);
  arrive();
  expect_some();
  EXPECT_TRUE(pair.side[1].engine->poll_write_arrival().has_value());
  EXPECT_FALSE(pair.side[1].engine->has_notifications());
}

}  // namespace
}  // namespace brdma::test
