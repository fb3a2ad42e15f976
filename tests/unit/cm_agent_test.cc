// The connection manager: two of them over a wire that passes, drops, delays and repeats messages as each test says;
// what forged and late messages do; and a few thousand connections over a lossy wire, of which every one must end the
// same way at both ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <functional>
#include <set>

#include "cm/agent.h"
#include "support/forgeries.h"

namespace brdma::cm {
namespace {

using test::forgeries;

constexpr std::uint64_t kService = 0x0106'1C06;
constexpr IpAddress kAddressA = IpAddress::v4(10, 0, 0, 1), kAddressB = IpAddress::v4(10, 0, 0, 2);
constexpr Endpoints kEndpointsA{kAddressA, kAddressB}, kEndpointsB{kAddressB, kAddressA};
using Kind = Event::Kind;

wire::CmReq request(std::uint32_t qpn = 0x111) {
  wire::CmReq req;
  req.service_id = kService;
  req.ca_guid = 0xA;
  req.qpn = qpn;
  req.path_mtu_code = 3;
  return req;
}
wire::CmRep reply(std::uint32_t qpn = 0x222) {
  wire::CmRep rep;
  rep.ca_guid = 0xB;
  rep.qpn = qpn;
  return rep;
}

// "a" asks, "b" listens.
class Managers : public testing::Test {
 protected:
  struct Side {
    Outbox outbox;
    Agent agent;
    Endpoints endpoints;
    std::vector<Event> events;
    Side(std::uint16_t prefix, const Endpoints& at) : agent(config(prefix), outbox), endpoints(at) {}
  };
  static Config config(std::uint16_t prefix) {
    Config config;
    config.id_prefix = prefix;
    config.seed = prefix;
    return config;
  }

  void SetUp() override { ASSERT_TRUE(b_.agent.listen(kService, 4).ok()); }

  using Passes = std::function<bool(const wire::CmMad&)>;
  static bool everything(const wire::CmMad&) { return true; }

  // Carries messages until there are none. Those that do not pass are lost.
  void carry(const Passes& passes = everything) {
    OutgoingMad out;
    for (bool any = true; any;) {
      any = false;
      for (auto [from, to] : {std::pair{&a_, &b_}, std::pair{&b_, &a_}}) {
        while (from->outbox.poll(out)) {
          any = true;
          ASSERT_EQ(out.endpoints, from->endpoints);
          const auto mad = wire::parse_cm(out.mad);
          ASSERT_TRUE(mad);
          sent_.push_back(mad->message.index());
          if (passes(*mad)) to->agent.handle(to->endpoints, *mad, now_);
        }
      }
    }
    take_events();
  }
  void take_events() {
    for (Side* side : {&a_, &b_})
      while (auto event = side->agent.poll_event()) side->events.push_back(std::move(*event));
  }
  // Lets `duration` pass, carrying what the timers send.
  void pass(Duration duration, const Passes& passes = everything) {
    const Instant end = now_ + duration;
    for (;;) {
      std::optional<Instant> next;
      for (Side* side : {&a_, &b_}) {
        const auto at = side->agent.next_timeout();
        if (at && (!next || *at < *next)) next = at;
      }
      if (!next || *next > end) break;
      now_ = *next;
      a_.agent.handle_timeout(now_);
      b_.agent.handle_timeout(now_);
      carry(passes);
    }
    now_ = end;
  }
  CommId connect(const Passes& passes = everything) {
    const auto id = a_.agent.connect(kEndpointsA, request(), now_);
    EXPECT_TRUE(id);
    carry(passes);
    return id.value();
  }
  // Up to kEstablished at both ends.
  std::pair<CommId, CommId> established() {
    const CommId a = connect();
    const CommId b = b_.events.at(0).id;
    EXPECT_TRUE(b_.agent.accept(b, reply(), now_).ok());
    carry();
    EXPECT_TRUE(a_.agent.ready(a).ok());
    carry();
    EXPECT_EQ(a_.agent.state(a), ConnectionState::kEstablished);
    EXPECT_EQ(b_.agent.state(b), ConnectionState::kEstablished);
    return {a, b};
  }
  static std::vector<Kind> kinds(const Side& side) {
    std::vector<Kind> kinds;
    for (const Event& event : side.events) kinds.push_back(event.kind);
    return kinds;
  }
  template <class Message>
  static Passes all_but_first(unsigned count) {
    return [left = count](const wire::CmMad& mad) mutable {
      if (!std::holds_alternative<Message>(mad.message) || left == 0) return true;
      --left;
      return false;
    };
  }

  Instant now_ = Instant::from_ns(1'000'000'000);
  Side a_{0xA, kEndpointsA}, b_{0xB, kEndpointsB};
  std::vector<std::size_t> sent_;  // kinds of messages, as indices of wire::CmMessage
};

TEST_F(Managers, ConnectAndDisconnect) {
  const auto [a, b] = established();
  EXPECT_EQ(a >> 16, 0xAu);
  EXPECT_EQ(b >> 16, 0xBu);
  EXPECT_EQ(std::get<wire::CmReq>(b_.events[0].message).qpn, 0x111u);
  EXPECT_EQ(std::get<wire::CmRep>(a_.events[0].message).qpn, 0x222u);
  ASSERT_TRUE(a_.agent.disconnect(a, now_).ok());
  carry();
  EXPECT_TRUE(b_.agent.disconnect(b, now_).ok()) << "who is told of the end may end it too";
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

TEST_F(Managers, ARefusalCarriesItsWordsAndIsSaidAgain) {
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

// Each message lost once, twice and three times: the connection comes up and goes down all the same.
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

TEST_F(Managers, DataSaysWhatTheLostRtuWouldHave) {
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

TEST_F(Managers, DestroyingTellsThePeer) {
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

// At a's address, with a's queue pair number, after a crash: the old connection is asked after, and nobody knows it.
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

// The same said by a forger: the peer says that the connection is what it was.
TEST_F(Managers, ARequestInAnothersNameEndsNothing) {
  const auto [a, b] = established();
  wire::CmReq req = request();
  req.local_comm_id = 77;
  req.path = {.local_gid = kAddressA, .remote_gid = kAddressB};
  b_.agent.handle(kEndpointsB, {.transaction = 5, .message = req}, now_);
  carry();
  EXPECT_EQ(b_.agent.state(b), ConnectionState::kEstablished);
  EXPECT_EQ(a_.agent.state(a), ConnectionState::kEstablished);
  EXPECT_THAT(kinds(b_), testing::ElementsAre(Kind::kRequest, Kind::kReady));
  EXPECT_THAT(kinds(a_), testing::ElementsAre(Kind::kReply));
  ASSERT_TRUE(a_.agent.disconnect(a, now_).ok());
  carry();
  EXPECT_EQ(kinds(b_).back(), Kind::kDisconnected);
}

// Nor does one with the peer's id: the connection still names it when it ends.
TEST_F(Managers, ARequestWithAnothersIdTakesItNotAway) {
  const auto [a, b] = established();
  wire::CmReq req = request(0x999);
  req.local_comm_id = a;
  req.path = {.local_gid = kAddressA, .remote_gid = kAddressB};
  b_.agent.handle(kEndpointsB, {.transaction = 5, .message = req}, now_);
  ASSERT_TRUE(b_.agent.disconnect(b, now_).ok());
  carry();
  EXPECT_THAT(kinds(a_), testing::ElementsAre(Kind::kReply, Kind::kDisconnected));
  pass(3_s);
  EXPECT_EQ(b_.agent.connections(), 1u) << "the forged request, which the application has not answered";
}

// From its own address, with the victim's GUID and queue pair number: another connection, and the victim's own request
// is not taken for a stale one either.
TEST_F(Managers, AStrangersRequestWithAnothersQueuePairIsJustAnother) {
  const Endpoints stranger{kAddressB, IpAddress::v4(10, 0, 0, 3)};
  wire::CmReq req = request();
  req.local_comm_id = 77;
  req.path = {.local_gid = stranger.remote, .remote_gid = kAddressB};
  b_.agent.handle(stranger, {.transaction = 5, .message = req}, now_);
  take_events();
  ASSERT_THAT(kinds(b_), testing::ElementsAre(Kind::kRequest));
  b_.events.clear();
  const auto [a, b] = established();
  req.local_comm_id = 78;
  b_.agent.handle(stranger, {.transaction = 6, .message = req}, now_);
  OutgoingMad out;
  ASSERT_TRUE(b_.outbox.poll(out));
  EXPECT_EQ(out.endpoints, stranger);
  EXPECT_EQ(std::get<wire::CmRej>(wire::parse_cm(out.mad)->message).reason, wire::reject::kStaleConnection);
  EXPECT_FALSE(b_.outbox.poll(out)) << "nobody else is told, or asked";
  take_events();
  EXPECT_EQ(b_.agent.state(b), ConnectionState::kEstablished);
  EXPECT_THAT(kinds(b_), testing::ElementsAre(Kind::kRequest, Kind::kReady));
}

// Who gives up says so: the other side, which may be up already, must not wait for ever.
TEST_F(Managers, WhoGivesUpTellsTheOther) {
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

TEST_F(Managers, IdsAreNotCountedUp) {
  std::set<std::uint32_t> steps;
  CommId last = 0;
  for (std::uint32_t i = 0; i < 100; ++i) {
    const auto id = a_.agent.connect(kEndpointsA, request(i), now_);
    ASSERT_TRUE(id);
    EXPECT_EQ(id.value() >> 16, 0xAu);
    steps.insert(id.value() - last);
    last = id.value();
  }
  EXPECT_GT(steps.size(), 95u);
}

// Who guesses one of three numbers knows nothing of the others: a transaction and two ids.
TEST_F(Managers, BlindForgeriesOfEachKindEndNothing) {
  const auto [a, b] = established();
  const unsigned tries = forgeries();
  Random random{7, "forger"};
  const auto forge = [&](Side& side, CommId ours, CommId theirs, std::uint32_t qpn) {
    const auto any = [&](CommId right) { return random.below(2) == 0 ? right : static_cast<CommId>(random.next()); };
    const CommId to = any(ours);
    CommId from = any(theirs);
    if (to == ours && from == theirs) from ^= 1 + static_cast<CommId>(random.below(255));
    const std::uint64_t transaction = random.next();
    const auto handle = [&](const wire::CmMessage& message) {
      side.agent.handle(side.endpoints, {.transaction = transaction, .message = message}, now_);
    };
    wire::CmRep rep = reply(qpn);
    switch (random.below(8)) {
      case 0:  // both ids are right, and the transaction is not; or no id at all
        return handle(wire::CmRej{.local_comm_id = random.below(2) == 0 ? theirs : 0,
                                  .remote_comm_id = random.below(2) == 0 ? ours : 0,
                                  .reason = static_cast<std::uint16_t>(random.below(40))});
      case 1:
        rep.local_comm_id = from;
        rep.remote_comm_id = to;
        return handle(rep);
      case 2:
        return handle(wire::CmRtu{.local_comm_id = from, .remote_comm_id = to});
      case 3:
        return handle(wire::CmDreq{.local_comm_id = from, .remote_comm_id = to, .remote_qpn = qpn});
      case 4:
        return handle(wire::CmDrep{.local_comm_id = theirs, .remote_comm_id = ours});
      case 5:
        return handle(wire::CmMra{.local_comm_id = theirs, .remote_comm_id = ours});
      case 6:
        return handle(wire::CmLap{.local_comm_id = from, .remote_comm_id = to});
      default: {
        wire::CmReq req = request(qpn);
        req.local_comm_id = from;
        req.path = {.local_gid = side.endpoints.remote, .remote_gid = side.endpoints.local};
        return handle(req);
      }
    }
  };
  for (unsigned i = 0; i < tries; ++i) {
    forge(a_, a, b, 0x111);
    forge(b_, b, a, 0x222);
    for (OutgoingMad out; a_.outbox.poll(out) || b_.outbox.poll(out);) {
    }
  }
  EXPECT_EQ(a_.agent.state(a), ConnectionState::kEstablished);
  EXPECT_EQ(b_.agent.state(b), ConnectionState::kEstablished);
  take_events();
  for (const Side* side : {&a_, &b_}) {
    for (const Event& event : side->events) EXPECT_NE(event.kind, Kind::kDisconnected);
  }
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

TEST_F(Managers, ForgedMessagesChangeNothing) {
  const auto [a, b] = established();
  const std::size_t events = a_.events.size() + b_.events.size();
  const auto expect_nothing = [&](const Endpoints& from, const wire::CmMessage& message, std::size_t answers) {
    b_.agent.handle(from, {.transaction = 1, .message = message}, now_);
    take_events();
    EXPECT_EQ(a_.events.size() + b_.events.size(), events);
    EXPECT_EQ(b_.agent.state(b), ConnectionState::kEstablished);
    std::size_t sent = 0;
    for (OutgoingMad out; b_.outbox.poll(out); ++sent) EXPECT_EQ(out.endpoints.remote, from.remote);
    EXPECT_EQ(sent, answers);
  };
  const Endpoints stranger{kAddressB, IpAddress::v4(10, 0, 0, 3)};
  expect_nothing(stranger, wire::CmDreq{.local_comm_id = a, .remote_comm_id = b, .remote_qpn = 0x222}, 1);
  expect_nothing(kEndpointsB, wire::CmDreq{.local_comm_id = a + 1, .remote_comm_id = b, .remote_qpn = 0x222}, 1);
  expect_nothing(kEndpointsB, wire::CmDreq{.local_comm_id = a, .remote_comm_id = b, .remote_qpn = 0x223}, 0);
  expect_nothing(stranger, wire::CmRej{.local_comm_id = a, .remote_comm_id = b}, 0);
  expect_nothing(kEndpointsB, wire::CmDrep{.local_comm_id = a, .remote_comm_id = b}, 0);
  expect_nothing(kEndpointsB, wire::CmRtu{.local_comm_id = a, .remote_comm_id = b}, 0);
  expect_nothing(kEndpointsB, wire::CmMra{.local_comm_id = a, .remote_comm_id = b}, 0);
  expect_nothing(kEndpointsB, wire::CmLap{.local_comm_id = a, .remote_comm_id = b}, 1);
  expect_nothing(kEndpointsB, wire::CmApr{.local_comm_id = a, .remote_comm_id = b}, 0);
  expect_nothing(kEndpointsB, wire::CmSidrRep{.request_id = b}, 0);
  wire::CmReq req = request();
  req.local_comm_id = 77;
  req.path = {.local_gid = kAddressA, .remote_gid = kAddressB};
  expect_nothing(stranger, req, 0);  // the answer would go to a third host
}

// Whatever is lost, repeated and late: each connection is told of its beginning once at each end, and of its end once.
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
