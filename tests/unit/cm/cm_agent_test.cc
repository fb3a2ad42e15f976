// The connection manager: two of them over a wire that passes, drops, delays and repeats messages as each test sets;
// and a few thousand connections over a lossy wire, each of which must end the same way at both ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <functional>
#include <set>

#include "support/cm/managers.h"

namespace brdma::cm {
namespace {

TEST_F(Managers, ConnectAndDisconnect) {
  const auto [a, b] = established();
  EXPECT_EQ(a >> 16, 0xAu);
  EXPECT_EQ(b >> 16, 0xBu);
  EXPECT_EQ(std::get<wire::CmReq>(b_.events[0].message).qpn, 0x111u);
  EXPECT_EQ(std::get<wire::CmRep>(a_.events[0].message).qpn, 0x222u);
  ASSERT_TRUE(a_.agent.disconnect(a, now_).ok());
  carry();
  EXPECT_TRUE(b_.agent.disconnect(b, now_).ok()) << "a notified side may end it too";
  pass(2_s);
  EXPECT_THAT(kinds(a_), testing::ElementsAre(Kind::kReply, Kind::kDisconnected, Kind::kTimeWaitExit));
  EXPECT_THAT(kinds(b_), testing::ElementsAre(Kind::kRequest, Kind::kReady, Kind::kDisconnected, Kind::kTimeWaitExit));
  EXPECT_EQ(sent_.size(), 5u) << "REQ, REP, RTU, DREQ, DREP";
  EXPECT_EQ(a_.agent.connections() + b_.agent.connections(), 0u);
}

TEST_F(Managers, NobodyListens) {
  b_.agent.stop_listening(kService);
  connect();
  ASSERT_THAT(kinds(a_), testing::ElementsAre(Kind::kRejected));
  EXPECT_EQ(std::get<wire::CmRej>(a_.events[0].message).reason, wire::reject::kInvalidServiceId);
  EXPECT_EQ(a_.agent.connections(), 0u);
}

TEST_F(Managers, ARefusalCarriesItsDataAndIsRepeated) {
  const CommId a = connect();
  const CommId b = b_.events.at(0).id;
  const std::array<std::byte, 2> words{std::byte{1}, std::byte{2}};
  ASSERT_TRUE(b_.agent.reject(b, wire::reject::kConsumer, words, now_).ok());
  carry(all_but_first<wire::CmRej>(1));
  EXPECT_EQ(a_.agent.state(a), ConnectionState::kReqSent);
  pass(30_ms);
  ASSERT_THAT(kinds(a_), testing::ElementsAre(Kind::kRejected));
  const auto& rej = std::get<wire::CmRej>(a_.events[0].message);
  EXPECT_EQ(rej.reason, wire::reject::kConsumer);
  EXPECT_EQ(rej.private_data[1], std::byte{2});
  pass(2_s);
  EXPECT_EQ(b_.agent.connections(), 0u);
  EXPECT_THAT(kinds(b_), testing::ElementsAre(Kind::kRequest));
}

TEST_F(Managers, AReplyCanBeRefused) {
  const CommId a = connect();
  ASSERT_TRUE(b_.agent.accept(b_.events.at(0).id, reply(), now_).ok());
  carry();
  ASSERT_TRUE(a_.agent.reject(a, wire::reject::kConsumer, {}, now_).ok());
  carry();
  EXPECT_THAT(kinds(b_), testing::ElementsAre(Kind::kRequest, Kind::kRejected));
  EXPECT_EQ(std::get<wire::CmRej>(b_.events[1].message).answered, wire::CmAnswered::kRep);
}

// Each message lost once, twice and three times: the connection still comes up and goes down.
template <class Message>
class Lost : public Managers {};
using Messages = testing::Types<wire::CmReq, wire::CmRep, wire::CmRtu, wire::CmDreq, wire::CmDrep>;
TYPED_TEST_SUITE(Lost, Messages);

TYPED_TEST(Lost, OnceToThreeTimes) {
  for (unsigned count = 1; count <= 3; ++count) {
    this->a_.events.clear();
    this->b_.events.clear();
    const auto passes = Managers::all_but_first<TypeParam>(count);
    const CommId a = this->connect(passes);
    this->pass(500_ms, passes);
    ASSERT_EQ(this->b_.events.size(), 1u);
    const CommId b = this->b_.events[0].id;
    ASSERT_TRUE(this->b_.agent.accept(b, reply(), this->now_).ok());
    this->pass(500_ms, passes);
    ASSERT_TRUE(this->a_.agent.ready(a).ok());
    this->carry(passes);
    this->pass(3_s, passes);
    EXPECT_EQ(this->b_.agent.state(b), ConnectionState::kEstablished);
    ASSERT_TRUE(this->a_.agent.disconnect(a, this->now_).ok());
    this->pass(3_s, passes);
    EXPECT_THAT(Managers::kinds(this->a_),
                testing::ElementsAre(Kind::kReply, Kind::kDisconnected, Kind::kTimeWaitExit));
    EXPECT_THAT(Managers::kinds(this->b_),
                testing::ElementsAre(Kind::kRequest, Kind::kReady, Kind::kDisconnected, Kind::kTimeWaitExit));
  }
}

TEST_F(Managers, NobodyAnswers) {
  const auto nothing = [](const wire::CmMad&) { return false; };
  connect(nothing);
  pass(60_s, nothing);
  EXPECT_THAT(kinds(a_), testing::ElementsAre(Kind::kUnreachable));
  EXPECT_EQ(sent_.size(), 13u) << "12 REQs, and that no answer is awaited any more";
  EXPECT_EQ(a_.agent.counters().resent, 11u);
  EXPECT_EQ(a_.agent.counters().timeouts, 1u);
}

TEST_F(Managers, APeerThatThinksIsWaitedFor) {
  connect();
  pass(60_s);
  EXPECT_THAT(kinds(a_), testing::IsEmpty()) << "MRAs keep it patient for longer than 12 tries in silence last";
  EXPECT_LT(sent_.size(), 120u) << "and rather quiet";
  ASSERT_TRUE(b_.agent.accept(b_.events.at(0).id, reply(), now_).ok());
  carry();
  EXPECT_THAT(kinds(a_), testing::ElementsAre(Kind::kReply));
}

TEST_F(Managers, AHalfOpenConnectionEnds) {
  connect();
  const CommId b = b_.events.at(0).id;
  ASSERT_TRUE(b_.agent.accept(b, reply(), now_).ok());
  pass(60_s, [](const wire::CmMad&) { return false; });
  EXPECT_THAT(kinds(b_), testing::ElementsAre(Kind::kRequest, Kind::kUnreachable));
  EXPECT_EQ(b_.agent.counters().half_open, 1u);
  EXPECT_EQ(b_.agent.connections(), 0u);
}

TEST_F(Managers, DataStandsInForALostRtu) {
  const CommId a = connect();
  const CommId b = b_.events.at(0).id;
  ASSERT_TRUE(b_.agent.accept(b, reply(), now_).ok());
  carry();
  ASSERT_TRUE(a_.agent.ready(a).ok());
  carry([](const wire::CmMad&) { return false; });
  ASSERT_TRUE(b_.agent.established(b).ok());
  EXPECT_EQ(b_.agent.established(b).error(), EINVAL);
  take_events();
  EXPECT_THAT(kinds(b_), testing::ElementsAre(Kind::kRequest, Kind::kReady));
}

TEST_F(Managers, DestroyingNotifiesThePeer) {
  const CommId waiting = connect();
  a_.agent.destroy(waiting, now_);  // before b has answered: named by a's own id alone
  carry();
  EXPECT_THAT(kinds(b_), testing::ElementsAre(Kind::kRequest, Kind::kRejected));
  EXPECT_EQ(std::get<wire::CmRej>(b_.events[1].message).reason, wire::reject::kTimeout);
  b_.events.clear();

  connect();
  b_.agent.destroy(b_.events.at(0).id, now_);
  carry();
  EXPECT_THAT(kinds(a_), testing::ElementsAre(Kind::kRejected));
  a_.events.clear();
  b_.events.clear();

  const auto [a, b] = established();
  a_.agent.destroy(a, now_);
  carry();
  EXPECT_THAT(kinds(b_), testing::ElementsAre(Kind::kRequest, Kind::kReady, Kind::kDisconnected));
  EXPECT_THAT(kinds(a_), testing::ElementsAre(Kind::kReply)) << "no events after destroy()";
  b_.agent.destroy(b, now_);
  pass(3_s);
  EXPECT_EQ(a_.agent.connections() + b_.agent.connections(), 0u);
}

TEST_F(Managers, BothEndItAtOnce) {
  const auto [a, b] = established();
  ASSERT_TRUE(a_.agent.disconnect(a, now_).ok());
  ASSERT_TRUE(b_.agent.disconnect(b, now_).ok());
  pass(3_s);
  EXPECT_THAT(kinds(a_), testing::ElementsAre(Kind::kReply, Kind::kDisconnected, Kind::kTimeWaitExit));
  EXPECT_THAT(kinds(b_), testing::ElementsAre(Kind::kRequest, Kind::kReady, Kind::kDisconnected, Kind::kTimeWaitExit));
}

TEST_F(Managers, AListenerTakesSoManyAtATime) {
  for (std::uint32_t i = 0; i < 5; ++i) ASSERT_TRUE(a_.agent.connect(kEndpointsA, request(0x100 + i), now_));
  carry();
  EXPECT_EQ(b_.events.size(), 4u);
  ASSERT_THAT(kinds(a_), testing::ElementsAre(Kind::kRejected));
  EXPECT_EQ(std::get<wire::CmRej>(a_.events[0].message).reason, wire::reject::kNoResources);
  EXPECT_EQ(b_.agent.counters().backlog_full, 1u);
  b_.agent.taken(b_.events[0].id);
  ASSERT_TRUE(a_.agent.connect(kEndpointsA, request(0x200), now_));
  carry();
  EXPECT_EQ(b_.events.size(), 5u);
  ASSERT_TRUE(b_.agent.accept(b_.events[0].id, reply(), now_).ok()) << "taken before: it must not count twice";
  ASSERT_TRUE(a_.agent.connect(kEndpointsA, request(0x201), now_));
  carry();
  EXPECT_EQ(b_.events.size(), 5u);
}

// A second listener takes over a service whose first one has stopped.
TEST_F(Managers, RequestsThatWaitCountInTheBacklogOfALaterListener) {
  for (std::uint32_t i = 0; i < 4; ++i) ASSERT_TRUE(a_.agent.connect(kEndpointsA, request(0x100 + i), now_));
  carry();
  ASSERT_EQ(b_.events.size(), 4u);
  b_.agent.stop_listening(kService);
  ASSERT_TRUE(a_.agent.connect(kEndpointsA, request(0x200), now_));
  carry();
  ASSERT_EQ(a_.events.size(), 1u);
  EXPECT_EQ(std::get<wire::CmRej>(a_.events[0].message).reason, wire::reject::kInvalidServiceId);

  ASSERT_TRUE(b_.agent.listen(kService, 5).ok());
  EXPECT_EQ(b_.agent.listen(kService, 5).error(), EADDRINUSE);
  for (std::uint32_t i = 0; i < 2; ++i) ASSERT_TRUE(a_.agent.connect(kEndpointsA, request(0x300 + i), now_));
  carry();
  EXPECT_EQ(b_.events.size(), 5u) << "four wait already";
  EXPECT_EQ(b_.agent.counters().backlog_full, 1u);

  for (std::size_t i = 0; i < 4; ++i) b_.agent.taken(b_.events[i].id);
  for (std::uint32_t i = 0; i < 5; ++i) ASSERT_TRUE(a_.agent.connect(kEndpointsA, request(0x400 + i), now_));
  carry();
  EXPECT_EQ(b_.events.size(), 9u) << "the first listener's requests make room for as many, not for more";
}

// The backlog is the later listener's own, also if it is smaller than what waits.
TEST_F(Managers, ALaterListenerMayHaveASmallerBacklog) {
  for (std::uint32_t i = 0; i < 3; ++i) ASSERT_TRUE(a_.agent.connect(kEndpointsA, request(0x100 + i), now_));
  carry();
  ASSERT_EQ(b_.events.size(), 3u);
  b_.agent.stop_listening(kService);
  ASSERT_TRUE(b_.agent.listen(kService, 1).ok());
  b_.agent.taken(b_.events[0].id);
  ASSERT_TRUE(a_.agent.connect(kEndpointsA, request(0x200), now_));
  carry();
  EXPECT_EQ(b_.events.size(), 3u) << "two wait, one may";
  for (std::size_t i = 1; i < 3; ++i) b_.agent.taken(b_.events[i].id);
  ASSERT_TRUE(a_.agent.connect(kEndpointsA, request(0x201), now_));
  carry();
  EXPECT_EQ(b_.events.size(), 4u);
}

TEST_F(Managers, AFullTableRefuses) {
  Outbox outbox;
  Config small = config(7);
  small.connections_max = 1;
  Agent agent{small, outbox};
  ASSERT_TRUE(agent.connect(kEndpointsA, request(), now_));
  const auto second = agent.connect(kEndpointsA, request(), now_);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.reason().error(), ENOMEM);
}

// At a's address, with a's queue pair number, after a crash: the old connection is queried, and nobody knows it.
TEST_F(Managers, AQueuePairThatComesAgainEndsItsOldConnection) {
  established();
  Outbox outbox;
  Agent restarted{config(0xC), outbox};
  ASSERT_TRUE(restarted.connect(kEndpointsA, request(), now_));
  OutgoingMad out;
  ASSERT_TRUE(outbox.poll(out));
  b_.agent.handle(kEndpointsB, *wire::parse_cm(out.mad), now_);
  ASSERT_TRUE(b_.outbox.poll(out));
  const auto rep = wire::parse_cm(out.mad);
  ASSERT_TRUE(std::holds_alternative<wire::CmRep>(rep->message));
  ASSERT_TRUE(b_.outbox.poll(out));
  const auto mad = wire::parse_cm(out.mad);
  EXPECT_EQ(std::get<wire::CmRej>(mad->message).reason, wire::reject::kStaleConnection);
  restarted.handle(kEndpointsA, *rep, now_);
  ASSERT_TRUE(outbox.poll(out));
  b_.agent.handle(kEndpointsB, *wire::parse_cm(out.mad), now_);
  take_events();
  EXPECT_EQ(kinds(b_).back(), Kind::kDisconnected);
}

// A side that gives up notifies the other, which may be up already and must not wait for ever.
TEST_F(Managers, GivingUpNotifiesTheOther) {
  const CommId a = connect();
  const CommId b = b_.events.at(0).id;
  ASSERT_TRUE(b_.agent.accept(b, reply(), now_).ok());
  carry();
  ASSERT_TRUE(a_.agent.ready(a).ok());
  const auto no_rtu = [](const wire::CmMad& mad) { return !std::holds_alternative<wire::CmRtu>(mad.message); };
  pass(60_s, no_rtu);
  EXPECT_EQ(b_.events.back().kind, Kind::kUnreachable);
  EXPECT_THAT(kinds(a_), testing::ElementsAre(Kind::kReply, Kind::kDisconnected, Kind::kTimeWaitExit));
}

TEST_F(Managers, CallsInTheWrongState) {
  EXPECT_EQ(a_.agent.ready(1).error(), ENOENT);
  EXPECT_EQ(a_.agent.accept(1, reply(), now_).error(), ENOENT);
  EXPECT_EQ(a_.agent.reject(1, 28, {}, now_).error(), ENOENT);
  EXPECT_EQ(a_.agent.disconnect(1, now_).error(), ENOENT);
  EXPECT_EQ(a_.agent.established(1).error(), ENOENT);
  const CommId a = connect();
  EXPECT_EQ(a_.agent.ready(a).error(), EINVAL);
  EXPECT_EQ(a_.agent.accept(a, reply(), now_).error(), EINVAL);
  EXPECT_EQ(a_.agent.disconnect(a, now_).error(), EINVAL);
  EXPECT_EQ(a_.agent.reject(a, 28, {}, now_).error(), EINVAL);
  EXPECT_EQ(b_.agent.listen(kService, 1).error(), EADDRINUSE);
  const std::array<std::byte, 149> much{};
  EXPECT_EQ(b_.agent.reject(b_.events.at(0).id, 28, much, now_).error(), EINVAL);
}

// For any loss, repetition and delay: each end of a connection gets one event of its beginning, and one of its end.
TEST_F(Managers, ManyConnectionsOverALossyWire) {
  Random random{7, "wire"};
  ASSERT_TRUE(b_.agent.listen(kService + 1, 5000).ok());
  struct Late {
    Instant at;
    Side* to;
    wire::CmMad mad;
  };
  std::vector<Late> under_way;
  const auto carry_late = [&] {
    OutgoingMad out;
    for (auto [from, to] : {std::pair{&a_, &b_}, std::pair{&b_, &a_}}) {
      while (from->outbox.poll(out)) {
        for (int copies = random.chance_per_million(300'000) ? 0 : 1 + (random.below(8) == 0); copies > 0; --copies) {
          const auto delay = Duration::from_ns(static_cast<std::int64_t>(random.below(60'000'000)));
          under_way.push_back({now_ + delay, to, *wire::parse_cm(out.mad)});
        }
      }
    }
  };
  std::map<CommId, std::vector<Kind>> a_told, b_told;
  std::uint32_t begun = 0;
  constexpr std::uint32_t kConnections = 1000;
  for (; now_ < Instant::from_ns(0) + 120_s; now_ = now_ + 1_ms) {
    for (std::uint32_t i = 0; i < 5 && begun < kConnections; ++i, ++begun) {
      auto req = request(0x1000 + begun);
      req.service_id = kService + 1;
      ASSERT_TRUE(a_.agent.connect(kEndpointsA, req, now_));
    }
    carry_late();
    for (std::size_t i = 0; i < under_way.size();) {
      if (under_way[i].at > now_) {
        ++i;
        continue;
      }
      under_way[i].to->agent.handle(under_way[i].to->endpoints, under_way[i].mad, now_);
      under_way[i] = under_way.back();
      under_way.pop_back();
    }
    a_.agent.handle_timeout(now_);
    b_.agent.handle_timeout(now_);
    while (const auto event = a_.agent.poll_event()) {
      a_told[event->id].push_back(event->kind);
      if (event->kind == Kind::kReply) {
        ASSERT_TRUE(a_.agent.ready(event->id).ok());
      }
    }
    while (const auto event = b_.agent.poll_event()) {
      b_told[event->id].push_back(event->kind);
      if (event->kind == Kind::kRequest) {
        ASSERT_TRUE(b_.agent.accept(event->id, reply(0x9000 + event->id), now_).ok());
      } else if (event->kind == Kind::kReady) {
        ASSERT_TRUE(b_.agent.disconnect(event->id, now_).ok());
      }
    }
  }
  EXPECT_EQ(a_.agent.connections() + b_.agent.connections(), 0u);
  std::size_t whole = 0;
  const std::vector<Kind> a_whole{Kind::kReply, Kind::kDisconnected, Kind::kTimeWaitExit};
  const std::vector<Kind> b_whole{Kind::kRequest, Kind::kReady, Kind::kDisconnected, Kind::kTimeWaitExit};
  for (const auto& [id, kinds] : a_told) whole += kinds == a_whole;
  EXPECT_EQ(whole, kConnections);
  EXPECT_EQ(a_told.size(), kConnections);
  whole = 0;
  for (const auto& [id, kinds] : b_told) whole += kinds == b_whole;
  EXPECT_EQ(whole, b_told.size());
  EXPECT_EQ(b_told.size(), kConnections) << "a REQ that came twice made one connection";
}

}  // namespace
}  // namespace brdma::cm
