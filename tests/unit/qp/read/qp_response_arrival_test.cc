// qp/read/response_arrival.h and middle_responses.h: what a response that arrives changes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "qp/read/middle_responses.h"
#include "qp/read/response_arrival.h"
#include "support/sender_parts.h"

namespace brdma::qp {
namespace {

constexpr std::uint16_t kPort = 0xC123;

struct Arriving : test::SendingParts {
  ResponseArrival::Request take(Sequence sequence) {
    const ResponseArrival arrival{{environment, identity, scoreboard, rtt, congestion, responses, timers, judge.get(),
                                   pace(), paths.get(), sent(), gaps()}};
    wire::Packet packet;
    packet.bitmap = true;
    packet.bth.psn = scoreboard.psn_of(sequence);
    return arrival.take(packet, sequence, messages.of(sequence), kPort, now);
  }
  [[nodiscard]] wire::Packet middle_packet(Sequence sequence) {
    payload.assign(kMtu, std::byte{0xAB});
    wire::Packet packet;
    packet.op = wire::RcOp::kReadResponseMiddle;
    packet.bitmap = true;
    packet.bth.psn = scoreboard.psn_of(sequence);
    packet.payload = payload;
    return packet;
  }
  bool take_middle(const wire::Packet& packet) {
    return MiddleResponses{
        {environment, identity, queue, messages, scoreboard, loss, judge != nullptr, responses, receiver, timers}}
        .take(packet, now);
  }
  // A READ whose request is executed, and whose first response is here.
  void begin_read(std::uint32_t packets) {
    ask(packets);
    scoreboard.set_cumulative(packets, now);
    acknowledge(0);
    EXPECT_EQ(scoreboard.advance(now), 1U);
  }
  void ask_on(std::uint8_t path) {
    const std::uint64_t number = post(WorkOpcode::kRdmaRead, 2 * kMtu);
    queue.begin_next();
    read(2, path);
    messages.back().wqe = number;
  }
  std::vector<std::byte> payload;
};

TEST(ResponseArrival, ItIsAcknowledgedAndNoLongerAwaited) {
  Arriving parts;
  parts.ask(3);
  const Instant sent = parts.now;
  parts.pass(20_us);
  const auto request = parts.take(1);
  EXPECT_TRUE(parts.scoreboard.is_acked(1));
  EXPECT_EQ(parts.responses.packets(), 2U);
  EXPECT_EQ(parts.responses.bytes(), 2 * parts.kMtu);
  EXPECT_EQ(parts.timers.progress(), parts.now);
  EXPECT_TRUE(request.once);
  EXPECT_EQ(request.sent, sent);
}

TEST(ResponseArrival, TheFirstOneToARequestSentOnceIsAnRttSample) {
  Arriving parts;
  parts.ask(3);
  parts.pass(20_us);
  (void)parts.take(1);
  EXPECT_FALSE(parts.rtt.has_sample()) << "it waited for the first";
  (void)parts.take(0);
  EXPECT_EQ(parts.rtt.smoothed(), 20_us);
  EXPECT_EQ(parts.responses.congestion().base_rtt(), 20_us);
}

// Karn's rule: it may answer either request.
TEST(ResponseArrival, OneThatWasRequestedAgainIsNoSample) {
  Arriving parts;
  parts.ask(2);
  parts.lose(0);
  parts.leaves_again(0);
  parts.pass(20_us);
  EXPECT_FALSE(parts.take(0).once);
  EXPECT_FALSE(parts.rtt.has_sample());
}

TEST(ResponseArrival, OnSeveralPathsItIsEvidenceOfItsPath) {
  Arriving parts;
  parts.identity.sending_paths = 2;
  parts.paths = std::make_unique<SendPaths>(2, Spraying::kRoundRobin);
  parts.ask_on(1);
  parts.pass(20_us);
  (void)parts.take(0);
  EXPECT_FALSE(parts.paths->facts()[0].round_trip > Duration{});
  EXPECT_EQ(parts.paths->facts()[1].round_trip, 20_us);
}

// --- MIDDLE packets ---

TEST(MiddleResponses, TheNextOneIsPlacedAndPassed) {
  Arriving parts;
  parts.begin_read(4);
  ASSERT_TRUE(parts.take_middle(parts.middle_packet(1)));
  EXPECT_EQ(parts.bytes[parts.kMtu], std::byte{0xAB});
  EXPECT_EQ(parts.bytes[2 * parts.kMtu - 1], std::byte{0xAB});
  EXPECT_NE(parts.bytes[2 * parts.kMtu], std::byte{0xAB});
  EXPECT_EQ(parts.scoreboard.base(), 2U);
  EXPECT_EQ(parts.receiver.seen(), 2U);
  EXPECT_EQ(parts.responses.packets(), 3U) << "the first was not counted here";
}

TEST(MiddleResponses, EverythingElseTakesTheGeneralPath) {
  struct Case {
    const char* why;
    void (*change)(Arriving&, wire::Packet&);
  };
  const Case cases[] = {
      {"a later one", [](Arriving& parts, wire::Packet& packet) { packet.bth.psn = parts.scoreboard.psn_of(2); }},
      {"the last", [](Arriving&, wire::Packet& packet) { packet.op = wire::RcOp::kReadResponseLast; }},
      {"its length is wrong",
       [](Arriving&, wire::Packet& packet) { packet.payload = packet.payload.first(packet.payload.size() - 1); }},
      {"it was requested again",
       [](Arriving& parts, wire::Packet&) {
         parts.lose(1);
         parts.leaves_again(1);
       }},
      {"losses", [](Arriving& parts, wire::Packet&) { (void)parts.sent().repairing(); }},
      {"several paths", [](Arriving& parts, wire::Packet&) { parts.identity.receiving_paths = 2; }},
      {"the sender judges",
       [](Arriving& parts, wire::Packet&) { parts.judge = std::make_unique<SenderJudge>(parts.recovery); }},
      {"paths are known",
       [](Arriving& parts, wire::Packet&) {
         parts.identity.receiving_paths = 2;
         (void)parts.receiver.paths_begun(parts.environment, parts.identity, parts.now);
         parts.identity.receiving_paths = 1;
       }},
      {"a timeout is undecided", [](Arriving& parts, wire::Packet&) { parts.timers.add_undecided(1, parts.now); }},
      {"of a READ by reference", [](Arriving& parts, wire::Packet&) { parts.messages.front().by_reference = 64; }},
      {"by reference", [](Arriving&, wire::Packet& packet) { packet.bxth.operation = wire::Bxth::kByReference; }},
      {"of another request",
       [](Arriving& parts, wire::Packet&) { parts.messages.front().kind = MessageKind::kConfirmed; }},
      {"its memory is gone", [](Arriving& parts, wire::Packet&) { parts.remove_region(); }},
  };
  for (const Case& one : cases) {
    Arriving parts;
    parts.begin_read(4);
    wire::Packet packet = parts.middle_packet(1);
    one.change(parts, packet);
    EXPECT_FALSE(parts.take_middle(packet)) << one.why;
    EXPECT_EQ(parts.scoreboard.base(), 1U) << one.why;
  }
  Arriving ahead;  // of the acknowledgement that its request is executed
  ahead.ask(4);
  ahead.acknowledge(0);
  EXPECT_FALSE(ahead.take_middle(ahead.middle_packet(1)));
}

TEST(MiddleResponses, NeitherTheFirstNorTheLastOneIsInTheMiddle) {
  Arriving first;
  first.ask(4);
  first.scoreboard.set_cumulative(4, first.now);
  EXPECT_FALSE(first.take_middle(first.middle_packet(0)));
  Arriving last;
  last.begin_read(2);
  EXPECT_FALSE(last.take_middle(last.middle_packet(1)));
}

TEST(MiddleResponses, NothingInFlightHasNone) {
  Arriving parts;
  parts.begin_read(1);
  ASSERT_TRUE(parts.scoreboard.empty());
  EXPECT_FALSE(parts.take_middle(parts.middle_packet(1)));
}

}  // namespace
}  // namespace brdma::qp
