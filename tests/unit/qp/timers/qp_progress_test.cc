// qp/timers/progress.h: the operator is notified of a peer that acknowledges nothing for 100 ms, once, and of its end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "qp/timers/progress.h"
#include "support/sender_parts.h"
#include "trace/journal.h"

namespace brdma::qp {
namespace {

using testing::IsEmpty;
using testing::SizeIs;
using trace::EventType;

// A packet is in flight, and events are recorded.
struct Watched : test::SenderParts {
  Watched() {
    environment.telemetry.journal = &journal;
    write(4);
  }
  [[nodiscard]] std::vector<trace::EventRecord> news() {
    std::vector<trace::EventRecord> found;
    EXPECT_EQ(trace::read_events(ring, read_so_far, found), 0U);
    return found;
  }
  void time_out_after(Duration silence) {
    pass(silence);
    progress().on_timeout(now);
  }

  trace::EventRing ring;
  std::uint64_t read_so_far = 0;
  trace::Journal journal{ring, statistics};
};

TEST(Progress, ATimeoutWithin100MsIsNoStall) {
  Watched parts;
  parts.time_out_after(Progress::kLongStall - kTick);
  EXPECT_FALSE(parts.timers.is_stalled());
  EXPECT_EQ(parts.count(Counter::kStallsBegun), 0U);
  EXPECT_THAT(parts.news(), IsEmpty());
}

TEST(Progress, AStallBeginsOnce) {
  Watched parts;
  parts.time_out_after(100_ms);
  EXPECT_TRUE(parts.timers.is_stalled());
  EXPECT_EQ(parts.count(Counter::kStallsBegun), 1U);
  const auto found = parts.news();
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].type, EventType::kStallBegun);
  EXPECT_EQ(found[0].when_ns, parts.now.ns());
  EXPECT_EQ(found[0].qpn, 17U);
  EXPECT_EQ(found[0].values[0], 1000U) << "the PSN of the base";
  parts.time_out_after(200_ms);
  EXPECT_EQ(parts.count(Counter::kStallsBegun), 1U);
  EXPECT_THAT(parts.news(), IsEmpty());
}

TEST(Progress, AnAcknowledgementEndsItOnce) {
  Watched parts;
  parts.time_out_after(100_ms);
  (void)parts.news();
  parts.pass(1_ms);
  parts.acknowledge(0);
  parts.scoreboard.set_cumulative(1, parts.now);
  ASSERT_EQ(parts.scoreboard.advance(parts.now), 1U);
  parts.progress().on_acknowledged(parts.now);
  EXPECT_FALSE(parts.timers.is_stalled());
  EXPECT_EQ(parts.count(Counter::kStallsEnded), 1U);
  const auto found = parts.news();
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].type, EventType::kStallEnded);
  EXPECT_EQ(found[0].when_ns, parts.now.ns());
  EXPECT_EQ(found[0].qpn, 17U);
  EXPECT_EQ(found[0].values[0], 1001U);
  parts.progress().on_acknowledged(parts.now);
  parts.progress().end_stall(parts.now);
  EXPECT_EQ(parts.count(Counter::kStallsEnded), 1U);
  EXPECT_THAT(parts.news(), IsEmpty());
}

TEST(Progress, WithoutAStallNoneEnds) {
  Watched parts;
  parts.progress().end_stall(parts.now);
  parts.progress().on_acknowledged(parts.now);
  EXPECT_EQ(parts.count(Counter::kStallsEnded), 0U);
  EXPECT_THAT(parts.news(), IsEmpty());
}

// A queue pair that goes to the error state, say.
TEST(Progress, AStallMayEndWithoutAnAcknowledgement) {
  Watched parts;
  const Instant begun = parts.now;
  parts.time_out_after(100_ms);
  parts.progress().end_stall(parts.now);
  EXPECT_FALSE(parts.timers.is_stalled());
  EXPECT_EQ(parts.count(Counter::kStallsEnded), 1U);
  EXPECT_EQ(parts.timers.progress(), begun) << "which is no progress";
}

TEST(Progress, AnAcknowledgementRestartsTheTimers) {
  Watched parts;
  parts.pass(5_ms);
  parts.timers.on_timeout(parts.now);
  parts.pass(1_ms);
  parts.progress().on_acknowledged(parts.now);
  EXPECT_EQ(parts.timers.progress(), parts.now);
  EXPECT_EQ(parts.timers.backoff(), 0);
}

TEST(Progress, TheNextSilenceIsAnotherStall) {
  Watched parts;
  parts.time_out_after(100_ms);
  parts.progress().on_acknowledged(parts.now);
  parts.time_out_after(Progress::kLongStall - kTick);
  EXPECT_FALSE(parts.timers.is_stalled()) << "counted from the acknowledgement";
  parts.time_out_after(kTick);
  EXPECT_EQ(parts.count(Counter::kStallsBegun), 2U);
  EXPECT_EQ(parts.count(Counter::kStallsEnded), 1U);
}

}  // namespace
}  // namespace brdma::qp
