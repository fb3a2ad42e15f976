// qp/paths/path_evidence.h: what arrivals say of the paths: RTT samples, silence, coming back, doubt.
#include <gtest/gtest.h>

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "qp/paths/path_evidence.h"
#include "support/sender_parts.h"
#include "trace/events.h"
#include "trace/journal.h"

namespace brdma::qp {
namespace {

constexpr std::uint16_t kPort = 0xD000, kOtherPort = 0xD001;  // of the acknowledgements
constexpr Duration kSilence = 2_ms;                           // the probe timeout, while the path is unknown

struct Sprayer : test::SenderParts {
  Sprayer() {
    config.source_ports = {0xC000, 0xC001};
    identity.sending_paths = 2;
    paths = std::make_unique<SendPaths>(2, Spraying::kRoundRobin);
    EXPECT_EQ(lengths().probe(), kSilence);
  }

  // An acknowledgement echoes a packet of that path, which reached the peer at `there` by its clock.
  struct Echo {
    std::uint8_t path = 0;
    Instant sent;
    Duration round_trip = 100_us;
    std::uint64_t there = 0;
    std::uint16_t port = kPort;
    Duration waited{};
  };
  Duration echo(const Echo& given) {
    wire::BitmapAck ack;
    ack.path = given.path;
    ack.tr = given.there;
    ack.waited = given.waited;
    return evidence().on_echo(ack, given.port, given.sent, given.round_trip, now);
  }
  // Of a packet that left this round trip ago; the peer's clock is ours.
  Duration echo(std::uint8_t path, Duration round_trip) {
    const Instant sent = now - round_trip;
    return echo({.path = path, .sent = sent, .round_trip = round_trip, .there = ns(sent)});
  }
  Duration response(std::uint8_t path, Duration round_trip) {
    return evidence().on_response(path, kPort, now - round_trip, now);
  }
  void lose(std::initializer_list<Sequence> sequences) {
    for (const Sequence at : sequences) {
      EXPECT_TRUE(sent().retransmit(at, sent().message_of(at), Counter::kRetransmittedTimeout, now));
    }
  }
  // A request is lost, and leaves again on another path.
  void repeat(Sequence first, std::uint8_t path) {
    const Sequence end = sent().message_of(first).end();
    (void)sent().retransmit_range(first, end, Counter::kRetransmittedTimeout, now);
    for (Sequence at = first; at < end; ++at) leaves_again(at, path);
  }
  void any_response(Sequence sequence) { evidence().on_any_response(sequence, sent().message_of(sequence), now); }

  [[nodiscard]] static std::uint64_t ns(Instant at) { return static_cast<std::uint64_t>(at.ns()); }
  [[nodiscard]] bool in_use(std::uint8_t path) const { return paths->status(path).in_use; }
  [[nodiscard]] bool in_doubt(std::uint8_t path) const { return in_use(path) && paths->is_probe(path); }
};

// --- RTT samples ---

// 64 us more on the second path: the mean of the paths moves by a 64th of that, and so does the base.
TEST(PathEvidence, AnEchoGivesASampleAndShiftsTheBase) {
  Sprayer sprayer;
  sprayer.congestion.on_acknowledgement(Sprayer::kMtu, {100_us}, false, sprayer.now);
  EXPECT_EQ(sprayer.echo(0, 100_us), 100_us);
  EXPECT_EQ(sprayer.congestion.base_rtt(), 100_us);
  EXPECT_EQ(sprayer.echo(1, 164_us), 101_us) << "a longer path is not a fuller one";
  EXPECT_EQ(sprayer.congestion.base_rtt(), 101_us);
  EXPECT_EQ(sprayer.echo(1, 170_us), 107_us + 984_ns) << "6 us of queue, and another 64th of 63 us";
}

TEST(PathEvidence, AResponseGivesOneOfTheReturnPath) {
  Sprayer sprayer;
  sprayer.congestion.on_acknowledgement(Sprayer::kMtu, {100_us}, false, sprayer.now);
  sprayer.responses.congestion().on_acknowledgement(Sprayer::kMtu, {100_us}, false, sprayer.now);
  EXPECT_EQ(sprayer.response(0, 100_us), 100_us);
  EXPECT_EQ(sprayer.response(1, 164_us), 101_us);
  EXPECT_EQ(sprayer.responses.congestion().base_rtt(), 101_us);
  EXPECT_EQ(sprayer.congestion.base_rtt(), 100_us) << "not of requests";
}

TEST(PathEvidence, AnEchoWithoutAPathGivesThePlainRoundTrip) {
  Sprayer sprayer;
  sprayer.congestion.on_acknowledgement(Sprayer::kMtu, {100_us}, false, sprayer.now);
  (void)sprayer.echo(0, 100_us);
  EXPECT_EQ(sprayer.echo(200, 164_us), 164_us);
  EXPECT_EQ(sprayer.congestion.base_rtt(), 100_us);
}

TEST(PathEvidence, TimeInEitherHostIsNotOfThePath) {
  Sprayer sprayer;
  sprayer.environment.waited = 10_us;
  const Instant sent = sprayer.now - 100_us;
  (void)sprayer.echo({.path = 0, .sent = sent, .there = Sprayer::ns(sent), .waited = 20_us});
  EXPECT_EQ(sprayer.paths->status(0).round_trip_min, 70_us);

  Sprayer reader;
  reader.environment.waited = 30_us;
  EXPECT_EQ(reader.response(0, 100_us), 100_us);
  reader.environment.waited = {};
  EXPECT_EQ(reader.response(1, 134_us), 71_us) << "70 us, and a 64th of what the second is longer";
}

// Another return path is measured without the forward queue, which both arrivals show; but there was none: the packet
// waited at the peer.
TEST(PathEvidence, TimeAtThePeerIsNoQueueOnTheForwardPath) {
  Sprayer sprayer;
  const Instant sent = sprayer.now - 120_us;
  (void)sprayer.echo({.path = 0, .sent = sent, .there = Sprayer::ns(sent + 50_us)});
  (void)sprayer.echo({.path = 0,
                      .sent = sent,
                      .round_trip = 120_us,
                      .there = Sprayer::ns(sent + 70_us),
                      .port = kOtherPort,
                      .waited = 20_us});
  EXPECT_EQ(sprayer.paths->status(0).round_trip_min, 100_us);
}

// The time of arrival is any number. Two that are 2^64 - 1 ns apart: the second packet's queue takes all of its trip.
TEST(PathEvidence, HugeTimesOfArrivalAreBounded) {
  constexpr std::uint64_t kFar = std::uint64_t{1} << 63;
  Sprayer sprayer;
  const Instant sent = sprayer.now - 100_us;
  EXPECT_EQ(sprayer.echo({.path = 0, .sent = sent, .there = Sprayer::ns(sent) + kFar}), 100_us);
  (void)sprayer.echo({.path = 0, .sent = sent, .there = Sprayer::ns(sent) + kFar - 1, .port = kOtherPort});
  EXPECT_EQ(sprayer.paths->status(0).round_trip_min, kTick);
}

// --- silence ---

// Of five packets on the second path three are lost, and none is acknowledged; two leave on the first a millisecond
// later.
struct Silent : Sprayer {
  Silent() {
    write(5, 1);
    lose({0, 1, 2});
    pass(1_ms);
    write(2, 0);
    pass(kSilence - 1_ms);
  }
};

TEST(PathEvidence, ASilentPathIsSetAsideAndItsPacketsTakeAnother) {
  Silent sprayer;
  (void)sprayer.echo(0, 1_ms);
  EXPECT_FALSE(sprayer.in_use(1));
  EXPECT_TRUE(sprayer.in_use(0));
  EXPECT_EQ(sprayer.count(Counter::kPathSilent), 1U);
  for (Sequence at = 0; at < 5; ++at) EXPECT_TRUE(sprayer.pending(at)) << at;
  EXPECT_FALSE(sprayer.pending(5)) << "another path";
  EXPECT_FALSE(sprayer.pending(6));
  EXPECT_EQ(sprayer.count(Counter::kRetransmittedPath), 2U) << "the others were pending already";
}

TEST(PathEvidence, NotBeforeTheProbeTimeout) {
  Silent sprayer;
  sprayer.now = sprayer.now - kTick;
  (void)sprayer.echo(0, 1_ms - kTick);
  EXPECT_TRUE(sprayer.in_use(1));
  EXPECT_FALSE(sprayer.pending(3));
  EXPECT_EQ(sprayer.count(Counter::kPathSilent), 0U);
}

// On a known path the timeout is longer than two round trips.
TEST(PathEvidence, TheProbeTimeoutFollowsTheRoundTrip) {
  Silent sprayer;
  sprayer.rtt.sample(10_ms, sprayer.now);
  (void)sprayer.echo(0, 1_ms);
  EXPECT_TRUE(sprayer.in_use(1));
}

// Before the agreement, packets may have left on paths that the peer does not distinguish: they count as the first's.
TEST(PathEvidence, PacketsOfAnUnknownPathAreTheFirstPaths) {
  Sprayer sprayer;
  auto agreed = std::move(sprayer.paths);
  sprayer.write(2, 7);
  sprayer.paths = std::move(agreed);
  for (Sequence at = 0; at < 2; ++at) sprayer.paths->reopened(sprayer.scoreboard.entry(at));
  sprayer.write(5, 0);
  sprayer.lose({2, 3, 4});
  sprayer.pass(1_ms);
  sprayer.write(2, 1);
  sprayer.pass(kSilence - 1_ms);
  (void)sprayer.echo(1, 1_ms);
  ASSERT_FALSE(sprayer.in_use(0));
  EXPECT_TRUE(sprayer.pending(0));
  EXPECT_TRUE(sprayer.pending(1));
}

TEST(PathEvidence, AResponseShowsSilenceToo) {
  Sprayer sprayer;
  sprayer.write(4, 1);
  sprayer.lose({0, 1, 2});
  sprayer.pass(1_ms);
  sprayer.read(1, 0);
  sprayer.pass(kSilence - 1_ms);
  (void)sprayer.response(0, 1_ms);
  EXPECT_FALSE(sprayer.in_use(1));
  EXPECT_TRUE(sprayer.pending(3));
  EXPECT_FALSE(sprayer.pending(4));
}

TEST(PathEvidence, WhatHasArrivedStays) {
  Sprayer sprayer;
  sprayer.write(6, 1);
  sprayer.report(5);
  sprayer.lose({0, 1, 2});
  sprayer.pass(1_ms);
  sprayer.write(1, 0);
  sprayer.pass(kSilence - 1_ms);
  (void)sprayer.echo(0, 1_ms);
  ASSERT_FALSE(sprayer.in_use(1));
  EXPECT_TRUE(sprayer.pending(3));
  EXPECT_TRUE(sprayer.pending(4));
  EXPECT_TRUE(sprayer.scoreboard.is_acked(5));
  EXPECT_EQ(sprayer.count(Counter::kRetransmittedPath), 2U);
}

// The responses take the peer's paths.
TEST(PathEvidence, AReadWhoseRequestHasArrivedIsNotRequestedAgain) {
  Sprayer sprayer;
  const Sequence arrived = sprayer.read(2, 1), open = sprayer.read(2, 1);
  sprayer.sent().request_arrived(sprayer.sent().message_of(arrived));
  const Sequence written = sprayer.write(3, 1);
  sprayer.lose({written, written + 1, written + 2});
  sprayer.pass(1_ms);
  sprayer.write(1, 0);
  sprayer.pass(kSilence - 1_ms);
  (void)sprayer.echo(0, 1_ms);
  ASSERT_FALSE(sprayer.in_use(1));
  EXPECT_FALSE(sprayer.pending(arrived));
  EXPECT_FALSE(sprayer.pending(arrived + 1));
  EXPECT_TRUE(sprayer.pending(open));
  EXPECT_TRUE(sprayer.pending(open + 1));
}

TEST(PathEvidence, APathThatComesBackIsUsedAgain) {
  Silent sprayer;
  (void)sprayer.echo(0, 1_ms);
  ASSERT_FALSE(sprayer.in_use(1));
  EXPECT_EQ(sprayer.count(Counter::kPathReturned), 0U);
  sprayer.pass(4_ms);
  (void)sprayer.echo(1, 100_us);
  EXPECT_TRUE(sprayer.in_use(1));
  EXPECT_EQ(sprayer.count(Counter::kPathReturned), 1U);
  (void)sprayer.echo(1, 100_us);
  EXPECT_EQ(sprayer.count(Counter::kPathReturned), 1U) << "once";
}

TEST(PathEvidence, AResponseBringsAPathBackToo) {
  Silent sprayer;
  (void)sprayer.echo(0, 1_ms);
  sprayer.pass(4_ms);
  (void)sprayer.response(1, 100_us);
  EXPECT_TRUE(sprayer.in_use(1));
  EXPECT_EQ(sprayer.count(Counter::kPathReturned), 1U);
}

class Watcher : public trace::Sink {
 public:
  void record(Instant /*when*/, std::uint32_t qpn, const trace::Event& event) override {
    if (const auto* const fell = std::get_if<trace::PathDown>(&event)) down.emplace_back(qpn, fell->path);
    if (const auto* const rose = std::get_if<trace::PathUp>(&event)) up.emplace_back(qpn, rose->path);
  }
  using Seen = std::vector<std::pair<std::uint32_t, std::uint8_t>>;
  Seen down, up;
};

TEST(PathEvidence, TraceAndJournalNameThePath) {
  Silent sprayer;
  Watcher watcher;
  trace::EventRing ring;
  trace::Journal journal{ring, sprayer.statistics};
  sprayer.environment.telemetry.sink = &watcher;
  sprayer.environment.telemetry.journal = &journal;
  (void)sprayer.echo(0, 1_ms);
  sprayer.pass(4_ms);
  (void)sprayer.echo(1, 100_us);
  EXPECT_EQ(watcher.down, (Watcher::Seen{{17, 1}}));
  EXPECT_EQ(watcher.up, (Watcher::Seen{{17, 1}}));
  std::vector<trace::EventRecord> records;
  std::uint64_t read = 0;
  EXPECT_EQ(trace::read_events(ring, read, records), 0U);
  ASSERT_EQ(records.size(), 2U);
  EXPECT_EQ(records[0].type, trace::EventType::kPathDown);
  EXPECT_EQ(records[1].type, trace::EventType::kPathUp);
  for (const trace::EventRecord& record : records) {
    EXPECT_EQ(record.qpn, 17U);
    EXPECT_EQ(record.values[0], 1U);
    EXPECT_EQ(record.values[1], 0xC001U);
  }
}

// --- doubt ---

TEST(PathEvidence, ARepetitionAnsweredElsewherePutsThePathInDoubt) {
  Sprayer sprayer;
  sprayer.read(2, 0);
  sprayer.repeat(0, 1);
  EXPECT_FALSE(sprayer.in_doubt(0));
  sprayer.any_response(0);
  EXPECT_TRUE(sprayer.in_doubt(0));
  EXPECT_FALSE(sprayer.in_doubt(1));
}

TEST(PathEvidence, NotIfTheRequestHadArrived) {
  Sprayer sprayer;
  sprayer.read(2, 0);
  sprayer.repeat(0, 1);
  sprayer.sent().request_arrived(sprayer.sent().message_of(0));
  sprayer.any_response(0);
  EXPECT_FALSE(sprayer.in_doubt(0)) << "a response is repeated, on the peer's paths";
}

TEST(PathEvidence, NorByARequestThatWasSentOnce) {
  Sprayer sprayer;
  sprayer.read(2, 0);
  sprayer.repeat(0, 1);
  const Sequence other = sprayer.read(2, 1);
  sprayer.any_response(other);
  EXPECT_FALSE(sprayer.in_doubt(0)) << "an ordinary answer is no evidence of the repetition";
}

}  // namespace
}  // namespace brdma::qp
