// tests design BR-17: the path of a batch of responses, and reports about paths (qp/paths/spray_responses.h).
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "qp/paths/path_probing.h"
#include "qp/paths/spray_responses.h"
#include "support/responder_parts.h"
#include "trace/events.h"
#include "trace/journal.h"

namespace brdma::qp {
namespace {

struct Sprayer : test::ResponderParts {
  Sprayer() {
    config.source_ports = {0xC000, 0xC001};
    identity.sending_paths = 2;
  }
  std::uint8_t next_path(std::uint32_t first, bool again = false, std::span<const recovery::PathFacts> sending = {}) {
    Response response;
    response.psn = Psn{first};
    response.replay = again;
    return sprayed().next_path(response, sending, now);
  }
  // A batch leaves for the first time. Returns its path.
  std::uint8_t leave(std::uint32_t first, std::uint32_t count) {
    const std::uint8_t path = next_path(first);
    for (std::uint32_t i = 0; i < count; ++i) (void)paths->sent(path, Psn{first + i}, false);
    paths->batch_left(path, now);
    return path;
  }
  void request_again(std::uint32_t first, std::uint32_t count) { sprayed().on_rerequest(Psn{first}, count, now); }
  // Three batches on each path leave, and those on the second are lost.
  void lose_second_path() {
    for (std::uint32_t batch = 0; batch < 6; ++batch) EXPECT_EQ(leave(990 + 2 * batch, 2), batch % 2);
    request_again(992, 2);
    request_again(996, 2);
    EXPECT_EQ(count(Counter::kPathSilent), 0U);
    request_again(1000, 2);
  }
  // It is probed, and the probe is not requested again.
  void probe_second_path() {
    pass(kProbeFirst);
    EXPECT_EQ(leave(1002, 1), 1);
    EXPECT_EQ(count(Counter::kPathReturned), 0U);
    pass(kProbeFirst);
    (void)next_path(1003);
  }
};

class Watcher : public trace::Sink {
 public:
  void record(Instant /*when*/, std::uint32_t qpn, const trace::Event& event) override {
    if (const auto* const fell = std::get_if<trace::PathDown>(&event)) down.emplace_back(qpn, fell->path);
    if (const auto* const rose = std::get_if<trace::PathUp>(&event)) up.emplace_back(qpn, rose->path);
  }
  using Seen = std::vector<std::pair<std::uint32_t, std::uint8_t>>;
  Seen down, up;
};

TEST(SprayedResponses, BatchesTakeTurns) {
  Sprayer sprayer;
  for (std::uint32_t batch = 0; batch < 4; ++batch) EXPECT_EQ(sprayer.leave(990 + 3 * batch, 3), batch % 2);
}

TEST(SprayedResponses, OneSentAgainAvoidsThePathThatLostIt) {
  Sprayer sprayer;
  EXPECT_EQ(sprayer.leave(990, 4), 0);
  EXPECT_EQ(sprayer.leave(994, 4), 1);
  EXPECT_EQ(sprayer.next_path(992, /*again=*/true), 1);
  EXPECT_EQ(sprayer.next_path(995, /*again=*/true), 0);
  EXPECT_EQ(sprayer.next_path(992), 0) << "the next in turn";
}

TEST(SprayedResponses, RoundTripsOfRequestsDecideWhereTheyShall) {
  Sprayer sprayer;
  sprayer.recovery.spraying = Spraying::kLeastRtt;
  EXPECT_EQ(sprayer.leave(990, 1), 0) << "now and then one goes in turn";
  std::array<recovery::PathFacts, 2> sending;
  sending[0].round_trip = 200_us;
  sending[1].round_trip = 100_us;
  EXPECT_EQ(sprayer.next_path(991, /*again=*/false, sending), 1);
  sending[1].round_trip = 300_us;
  EXPECT_EQ(sprayer.next_path(991, /*again=*/false, sending), 0);
}

TEST(SprayedResponses, APathThatLosesAllIsSetAside) {
  Sprayer sprayer;
  sprayer.lose_second_path();
  EXPECT_EQ(sprayer.count(Counter::kPathSilent), 1U);
  EXPECT_EQ(sprayer.leave(1002, 1), 0);
  EXPECT_EQ(sprayer.leave(1003, 1), 0);
}

TEST(SprayedResponses, AProbeThatArrivesBringsItBack) {
  Sprayer sprayer;
  sprayer.lose_second_path();
  sprayer.probe_second_path();
  EXPECT_EQ(sprayer.count(Counter::kPathReturned), 1U);
}

TEST(SprayedResponses, TraceAndJournalNameThePath) {
  Sprayer sprayer;
  Watcher watcher;
  trace::EventRing ring;
  trace::Journal journal{ring, sprayer.statistics};
  sprayer.environment.telemetry.sink = &watcher;
  sprayer.environment.telemetry.journal = &journal;
  sprayer.lose_second_path();
  sprayer.probe_second_path();
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

TEST(SprayedResponses, OnOnePathARerequestSaysNothingOfIt) {
  Sprayer sprayer;
  sprayer.request_again(990, 2);
  EXPECT_EQ(sprayer.paths, nullptr);
}

}  // namespace
}  // namespace brdma::qp
