// The delay window in a closed loop: flows over one bottleneck with a finite queue, modelled packet by packet.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <queue>
#include <tuple>
#include <vector>

#include "base/random.h"
#include "congestion/delay_window.h"
#include "congestion/window/base_round_trip.h"

namespace brdma::congestion {
namespace {

constexpr std::uint64_t kPacket = 4156;
constexpr std::uint64_t kPacketsPerAckMax = 16, kAcksPerWindow = 4;  // as the requester requests them

struct Path {
  Bandwidth rate;
  std::uint64_t queue_bytes = 256 * 1024;
  Duration round_trip = 100_us;  // without queueing
  std::uint32_t loss_ppm = 0;
  // Once every `stall_every`, the receiver is not scheduled for `stall`: packets of that time are acknowledged at its
  // end.
  Duration stall_every{}, stall{};
  bool waits_known = false;  // acknowledgements carry the time they lay in the receiver's host
};

struct Result {
  double utilisation = 0;  // delivered, as a share of the rate
  double dropped = 0;      // by the queue, as a share of the sent packets
  std::vector<std::uint64_t> delivered;
};

void expect_alike(const Result& result, std::uint64_t times = 2) {
  const auto [least, most] = std::minmax_element(result.delivered.begin(), result.delivered.end());
  EXPECT_LT(*most, *least * times);
}

// Sends as much as each flow's window allows, at least one packet; the window of one of many flows at the rate that it
// gives, as the requester does. A lost packet leaves its flow's flight when its acknowledgement was due.
class Bottleneck {
 public:
  Bottleneck(const Path& path, std::size_t flows) : path_(path), flows_(flows), random_(1) {}

  void set_round_trip(Duration round_trip) { path_.round_trip = round_trip; }
  void set_rate(Bandwidth rate) { path_.rate = rate; }
  void set_wait(Duration wait) { wait_ = wait; }
  void set_spread() {
    for (Flow& flow : flows_) flow.window.set_spread(true);
  }
  void shift_base(std::size_t flow, Duration by) { flows_[flow].window.shift_base(by); }
  [[nodiscard]] const DelayWindow& window(std::size_t flow) const { return flows_[flow].window; }

  Result run(Duration how_long) {
    const Instant end = now_ + how_long;
    for (auto& flow : flows_) flow.delivered = 0;
    sent_ = dropped_ = 0;
    for (std::size_t i = 0; i < flows_.size(); ++i) fill(i);
    while (!answers_.empty() && answers_.top().at <= end) {
      const Answer answer = answers_.top();
      answers_.pop();
      now_ = answer.at;
      handle(answer);
    }
    now_ = end;
    Result result;
    std::uint64_t total = 0;
    for (const auto& flow : flows_) {
      result.delivered.push_back(flow.delivered);
      total += flow.delivered;
    }
    result.utilisation = static_cast<double>(path_.rate.time_for(total).ns()) / static_cast<double>(how_long.ns());
    result.dropped = static_cast<double>(dropped_) / static_cast<double>(sent_);
    return result;
  }

 private:
  struct Answer {
    Instant at;
    std::uint64_t order;
    std::size_t flow;
    Instant sent;
    bool lost;
    Duration waited;
    bool wakes = false;  // no answer: the flow may send now
    bool operator>(const Answer& other) const { return at != other.at ? at > other.at : order > other.order; }
  };
  struct Flow {
    DelayWindow window;
    std::uint64_t in_flight = 0, unreported = 0, delivered = 0;
    unsigned packets_unreported = 0;
    Instant next;  // of one of many flows
    bool waits = false;
    Duration round_trip = 100_us;
  };

  void fill(std::size_t index) {
    Flow& flow = flows_[index];
    const bool small = flow.window.is_paced();
    while (flow.in_flight + (small ? 1 : kPacket) <= flow.window.bytes() || flow.in_flight == 0) {
      if (small && now_ < flow.next) {
        if (!flow.waits) answers_.push({flow.next, order_++, index, now_, false, {}, true});
        flow.waits = true;
        return;
      }
      if (small) flow.next = now_ + spacing(flow);
      flow.in_flight += kPacket;
      send(index);
    }
  }
  // Within an eighth, as timers are: flows in step with each other would keep their places in the queue.
  [[nodiscard]] Duration spacing(const Flow& flow) {
    const std::uint64_t even = static_cast<std::uint64_t>(flow.round_trip.ns()) * kPacket / flow.window.bytes();
    return Duration::from_ns(static_cast<std::int64_t>(even - even / 8 + random_.below(even / 4 + 1)));
  }
  void send(std::size_t flow) {
    ++sent_;
    free_at_ = std::max(free_at_, now_);
    const bool full = free_at_ - now_ + path_.rate.time_for(kPacket) > path_.rate.time_for(path_.queue_bytes);
    const bool lost = full || random_.chance_per_million(path_.loss_ppm);
    if (full) {
      ++dropped_;
    } else {
      free_at_ = free_at_ + path_.rate.time_for(kPacket);
    }
    const Instant answer = free_at_ + path_.round_trip, received = stalled(answer + wait_);
    answers_.push({received, order_++, flow, now_, lost, path_.waits_known ? received - answer : Duration{}});
  }
  [[nodiscard]] Instant stalled(Instant at) const {
    if (path_.stall_every == Duration{}) return at;
    const Duration into = Duration::from_ns(at.ns() % path_.stall_every.ns());
    return into < path_.stall ? at + (path_.stall - into) : at;
  }
  void handle(const Answer& answer) {
    Flow& flow = flows_[answer.flow];
    if (answer.wakes) flow.waits = false;
    if (answer.wakes) return fill(answer.flow);
    flow.round_trip = now_ - answer.sent;
    const bool limited = flow.in_flight + 2 * kPacket > flow.window.bytes();
    if (!answer.lost) {
      flow.delivered += kPacket;
      flow.unreported += kPacket;
    } else {
      flow.window.on_loss(kPacket, kPacket, now_);
    }
    flow.in_flight -= kPacket;
    const std::uint64_t wanted = flow.window.bytes() / (kPacket * kAcksPerWindow);
    if (++flow.packets_unreported >= std::clamp<std::uint64_t>(wanted, 1, kPacketsPerAckMax)) {
      flow.window.on_acknowledgement(flow.unreported, {now_ - answer.sent, answer.waited}, limited, now_);
      flow.unreported = 0;
      flow.packets_unreported = 0;
    }
    fill(answer.flow);
  }

  Path path_;
  std::vector<Flow> flows_;
  Random random_;
  std::priority_queue<Answer, std::vector<Answer>, std::greater<>> answers_;
  Instant now_, free_at_;
  Duration wait_;
  std::uint64_t order_ = 0, sent_ = 0, dropped_ = 0;
};

Bandwidth gbit(std::uint64_t g) { return Bandwidth::from_bps(g * 1'000'000'000); }

TEST(DelayWindow, FillsTheLinkAndNotItsQueue) {
  struct Case {
    std::uint64_t gbit;
    Duration round_trip;
  };
  // Up to twice the queue on the path. Beyond that an unpaced window's bursts overflow it, not its size.
  const Case cases[] = {{1, 20_us},  {1, 100_us}, {1, 1_ms},   {1, 4_ms},    {2, 100_us},  {2, 1_ms},   {5, 20_us},
                        {5, 100_us}, {5, 400_us}, {10, 20_us}, {10, 100_us}, {10, 200_us}, {10, 400_us}};
  for (const auto& [rate, round_trip] : cases) {
    SCOPED_TRACE(std::to_string(rate) + " Gbit/s, " + std::to_string(round_trip.ns() / 1000) + " us");
    Bottleneck link{{.rate = gbit(rate), .round_trip = round_trip}, 1};
    link.run(std::max(20_ms, round_trip * 60));  // warm-up
    const Result steady = link.run(1_s);
    EXPECT_GT(steady.utilisation, 0.97);
    EXPECT_LT(steady.dropped, 0.001);
  }
}

TEST(DelayWindow, StartsWithinAFewRoundTrips) {
  Bottleneck link{{.rate = gbit(10), .round_trip = 200_us}, 1};
  EXPECT_GT(link.run(2_ms).utilisation, 0.5);
}

// Doubling continues until a queue forms, and not until it overflows.
TEST(DelayWindow, StartsWithoutOverflowingTheQueue) {
  for (const std::uint64_t rate : {1, 2, 5, 10}) {
    SCOPED_TRACE(std::to_string(rate) + " Gbit/s");
    Bottleneck link{{.rate = gbit(rate)}, 1};
    EXPECT_EQ(link.run(3_ms).dropped, 0);
    EXPECT_GT(link.run(1_ms).utilisation, 0.97);
  }
}

TEST(DelayWindow, FlowsShareABottleneckEvenly) {
  for (const std::uint64_t rate : {1, 10}) {
    for (const std::size_t flows : {2, 4, 8}) {
      SCOPED_TRACE(std::to_string(rate) + " Gbit/s, flows: " + std::to_string(flows));
      Bottleneck link{{.rate = gbit(rate)}, flows};
      link.run(4_s);  // they start at the same instant and see each other's queue as the path: a few drains correct it
      const Result steady = link.run(1_s);
      EXPECT_GT(steady.utilisation, 0.96) << "drains take the rest";
      EXPECT_LT(steady.dropped, 0.002);
      // Of a queue that is a few packets long, a flow with one of them meets one less than a flow with half a one.
      expect_alike(steady, rate == 1 && flows == 8 ? 4 : 2);
    }
  }
}

TEST(DelayWindow, RandomLossDoesNotShrinkIt) {
  Bottleneck link{{.rate = gbit(10), .loss_ppm = 50'000}, 1};
  link.run(20_ms);
  EXPECT_GT(link.run(100_ms).utilisation, 0.92);  // 0.95 is the maximum
}

TEST(DelayWindow, ADescheduledPeerCostsLittleMoreThanTheTimeItIsAway) {
  // 4 ms away in every 40: 0.9 is the maximum, and every packet of that time shows an RTT of up to 4 ms.
  Bottleneck link{{.rate = gbit(10), .stall_every = 40_ms, .stall = 4_ms}, 1};
  link.run(80_ms);
  EXPECT_GT(link.run(400_ms).utilisation, 0.85);
}

TEST(DelayWindow, AQueueShorterThanTheTargetIsNotFloodedWithoutBound) {
  Bottleneck link{{.rate = gbit(10), .queue_bytes = 64 * 1024}, 1};
  link.run(20_ms);
  const Result steady = link.run(100_ms);
  EXPECT_GT(steady.utilisation, 0.95);
  EXPECT_LE(link.window(0).bytes(),
            10'000'000'000 / 8 * 270 / 1'000'000);  // rate * (base + target), and a step of growth
}

TEST(DelayWindow, LearnsThatThePathHasBecomeLonger) {
  Bottleneck link{{.rate = gbit(5)}, 1};
  link.run(50_ms);
  link.set_round_trip(2_ms);
  link.run(BaseRoundTripConfig{}.base_rtt_period * 2 + 300_ms);
  EXPECT_GE(link.window(0).base_rtt(), 2_ms);
  EXPECT_LT(link.window(0).base_rtt(), 2_ms + 100_us);
  EXPECT_GT(link.run(200_ms).utilisation, 0.95);
}

// No switch reports the drops: they show as loss at the longest RTTs. 128 KiB are just the target at 10 Gbit/s: of two
// flows over 100 us one gets 1.2 times the other's bytes here, and up to 5.6 times if packets reach the queue up to a
// packet's time later, at random.
TEST(DelayWindow, AShortQueueIsNotKeptFull) {
  for (const auto& [round_trip, queue_bytes] :
       {std::pair{100_us, 64u * 1024}, {100_us, 128u * 1024}, {1_ms, 128u * 1024}}) {
    for (const std::size_t flows : {1, 2}) {
      SCOPED_TRACE(std::to_string(queue_bytes) + " bytes, " + std::to_string(flows) + " flows");
      Bottleneck link{{.rate = gbit(10), .queue_bytes = queue_bytes, .round_trip = round_trip}, flows};
      EXPECT_LT(link.run(1_s).dropped, 0.02);
      const Result steady = link.run(2_s);
      EXPECT_LT(steady.dropped, 0.01);
      EXPECT_GT(steady.utilisation, 0.9);
      expect_alike(steady);
    }
  }
}

// Random loss is not taken for a queue's, whether that has room or not.
TEST(DelayWindow, ChanceBesideAQueueThatStandsDoesNotShrinkIt) {
  for (const std::uint32_t loss : {1'000u, 10'000u, 50'000u}) {
    SCOPED_TRACE(loss);
    Bottleneck link{{.rate = gbit(10), .round_trip = 400_us, .loss_ppm = loss}, 2};
    link.run(500_ms);
    EXPECT_GT(link.run(1_s).utilisation, 0.97 - loss / 1e6);
  }
}

// A change of route without notification: recognized by the next drain, not after a second or two.
TEST(DelayWindow, GivesUpABaseThatNoLongerHolds) {
  const Duration drain = BaseRoundTripConfig{}.drain_period;
  for (const auto& [rate, before, after] : {std::tuple{1, 2_ms, 3_ms}, {5, 100_us, 400_us}, {1, 4_ms, 6_ms}}) {
    SCOPED_TRACE(std::to_string(before.ns() / 1000) + " us");
    Bottleneck link{{.rate = gbit(static_cast<std::uint64_t>(rate)), .round_trip = before}, 1};
    link.run(drain + 50_ms);
    link.set_round_trip(after);
    link.run(drain + after * 20);
    EXPECT_GE(link.window(0).base_rtt(), after);
    EXPECT_LT(link.window(0).base_rtt(), after + after / 8);
    EXPECT_GT(link.run(after * 20).utilisation, 0.9);
  }
}

// It recognizes a queue of its own by sending less.
TEST(DelayWindow, ASlowerPathIsNoLongerOne) {
  Bottleneck link{{.rate = gbit(1), .round_trip = 2_ms}, 1};
  link.run(100_ms);
  link.set_rate(Bandwidth::from_bps(50'000'000));
  link.run(900_ms);
  EXPECT_LT(link.window(0).base_rtt(), 2'400_us);
}

// If a queue drops most of the packets in flight, half of them fill it as well: the round trip does not change.
TEST(DelayWindow, AQueueThatIsFullIsNoLongerPath) {
  Bottleneck link{{.rate = gbit(1), .queue_bytes = 312 * 1024, .round_trip = 20_ms}, 1};
  link.run(100_ms);
  link.set_spread();
  link.run(2_s);
  link.set_rate(Bandwidth::from_bps(50'000'000));
  link.run(4_s);
  EXPECT_LT(link.window(0).base_rtt(), 24_ms);
  EXPECT_LT(link.window(0).bytes(), 600'000u);
  EXPECT_LT(link.run(1_s).dropped, 0.01);
}

// Longer paths are used from here on, and the caller reports it: no queue is seen in it.
TEST(DelayWindow, AShiftedBaseIsNoQueueing) {
  Bottleneck link{{.rate = gbit(10)}, 1};
  (void)link.run(100_ms);
  link.set_round_trip(300_us);
  link.shift_base(0, 200_us);
  EXPECT_GT(link.run(100_ms).utilisation, 0.96);
  EXPECT_LT(link.window(0).base_rtt(), 320_us);
  link.set_round_trip(100_us);
  link.shift_base(0, 0_us - 200_us);
  (void)link.run(100_ms);
  EXPECT_LT(link.window(0).bytes(), 400'000u);  // 125 KB in flight, as many in the queue
}

TEST(DelayWindow, GrowsOnlyWhenItIsInUse) {
  DelayWindow window;
  const std::uint64_t before = window.bytes();
  Instant now;
  for (int i = 0; i < 1000; ++i) window.on_acknowledgement(100'000, 50_us, false, now = now + 10_us);
  EXPECT_EQ(window.bytes(), before);
  for (int i = 0; i < 1000; ++i) window.on_acknowledgement(100'000, 50_us, true, now = now + 10_us);
  EXPECT_GT(window.bytes(), before);
}

// Packets lie in the receiver's host for 300 us, because its program shares a core. A sender that takes that for a
// queue sends less and less.
TEST(DelayWindow, WhatWaitsInAHostIsNoQueue) {
  Path path;
  path.rate = Bandwidth::from_bps(10'000'000'000);
  Bottleneck unknown{path, 1};
  path.waits_known = true;
  Bottleneck known{path, 1};
  for (Bottleneck* link : {&unknown, &known}) {
    (void)link->run(20_ms);
    link->set_wait(300_us);
    (void)link->run(100_ms);
  }
  EXPECT_GT(known.run(100_ms).utilisation, 0.95);
  EXPECT_LT(unknown.run(100_ms).utilisation, 0.6);
  EXPECT_LT(known.window(0).base_rtt(), 110_us);
}

TEST(DelayWindow, ATimeoutHalvesDownToTheMinimum) {
  DelayWindow window;
  const std::uint64_t before = window.bytes();
  window.on_timeout();
  EXPECT_EQ(window.bytes(), before / 2);
  for (int i = 0; i < 10; ++i) window.on_timeout();
  EXPECT_EQ(window.bytes(), DelayWindowConfig{}.min_bytes);
}

// Sending continues for a while at the known capacity of the path.
TEST(DelayWindow, ASilenceIsBridgedAtTheDeliveredRateWithinBounds) {
  DelayWindow window;
  Instant now = Instant::from_ns(1'000'000);
  EXPECT_EQ(window.bridge_bytes(now + 1_ms), 0u) << "nothing is known of the path";
  for (int i = 0; i < 2000; ++i) window.on_acknowledgement(1250, 100_us, true, now = now + 10_us);  // 1 Gbit/s
  EXPECT_EQ(window.bridge_bytes(now + 50_us), 0u) << "half a round trip is no silence";
  EXPECT_NEAR(static_cast<double>(window.bridge_bytes(now + 1050_us)), 125'000, 15'000);
  const auto next = window.next_bridge(0);
  ASSERT_TRUE(next.has_value());
  EXPECT_GE(window.bridge_bytes(*next), DelayWindowConfig{}.bridge_step_min);
  EXPECT_LE(window.bridge_bytes(now + 1_s), DelayWindowConfig{}.bridge_bytes_max);
  EXPECT_EQ(window.next_bridge(window.bridge_bytes(now + 1_s)), std::nullopt);
}

TEST(DelayWindow, TheQueueCoversTheSilencesOfLateWithinBounds) {
  DelayWindow window;
  Instant now = Instant::from_ns(1'000'000);
  const auto run = [&](Duration how_long) {  // 1 Gbit/s: beyond 200 us the window is its own queue
    for (const Instant end = now + how_long; now < end;) {
      const auto rtt = Duration::from_ns(static_cast<std::int64_t>(window.bytes() * 8));
      window.on_acknowledgement(1250, std::max(200_us, rtt), true, now = now + 10_us);
    }
  };
  // The whole window is in flight, is acknowledged at once after it, and its last packet left before it.
  const auto silence = [&](Duration how_long) {
    window.on_acknowledgement(window.bytes(), how_long, true, now = now + how_long);
  };
  run(1_s);  // with drains, which find the path
  EXPECT_EQ(window.queueing(), DelayWindowConfig{}.target_queueing);
  silence(500_us);
  EXPECT_EQ(window.queueing(), 500_us);
  run(4_ms);
  silence(8_ms);
  EXPECT_LE(window.queueing(), 700_us) << "64 KiB";
  EXPECT_GT(window.queueing(), 500_us);
  run(2_s);
  EXPECT_EQ(window.queueing(), DelayWindowConfig{}.target_queueing) << "forgotten";
}

TEST(DelayWindow, KeepsToAPartOfAReportedQueue) {
  DelayWindow window;
  Instant now = Instant::from_ns(1'000'000);
  const auto run = [&](Duration how_long) {
    for (const Instant end = now + how_long; now < end;) {
      window.on_acknowledgement(1250, 20_us, true, now = now + 10_us);
    }
  };
  run(1_ms);
  window.on_drops({.bytes = 4096, .drain = 80_us, .packet_bytes = 1024}, now);
  EXPECT_EQ(window.queueing(), 20_us);
  window.on_drops({.bytes = 4096, .drain = 800_us, .packet_bytes = 1024}, now);
  EXPECT_EQ(window.queueing(), 20_us) << "of several queues the shortest";
  run(DelayWindowConfig{}.room_doubles + 20_us);
  EXPECT_EQ(window.queueing(), 40_us);
  run(2_s);
  EXPECT_EQ(window.queueing(), DelayWindowConfig{}.target_queueing) << "forgotten";
}

// Whose packets filled it may have gone. Without a report a loss is dearer, and the limit stays for 32 ms.
TEST(DelayWindow, AfterAReportTheWindowGrowsAgainWithinSomeRounds) {
  DelayWindow window;
  Instant now = Instant::from_ns(1'000'000);
  const auto run = [&](int rounds) {
    for (int i = 0; i < rounds * 8; ++i)
      window.on_acknowledgement(window.bytes() / 8, 20_us, true, now = now + Duration::from_ns(2'500));
  };
  run(6);
  const std::uint64_t before = window.bytes();
  window.on_drops({.bytes = before / 4, .drain = 80_us, .packet_bytes = 1024}, now);
  const std::uint64_t cut = window.bytes();
  EXPECT_LT(cut, before);
  run(4);
  EXPECT_EQ(window.bytes(), cut);
  run(60);
  EXPECT_GT(window.bytes(), before) << "1.2 ms later";
}

// With many flows a queue may have room for one packet of each.
TEST(DelayWindow, ReportedDropsLeaveAtLeastOnePacket) {
  DelayWindow window;
  Instant now = Instant::from_ns(1'000'000);
  for (int round = 0; round < 64; ++round) {
    window.on_acknowledgement(1024, 20_us, true, now = now + 40_us);
    window.on_drops({.bytes = 1 << 20, .drain = 20_us, .packet_bytes = 1024}, now);
  }
  EXPECT_EQ(window.bytes(), 1024u);
}

TEST(DelayWindow, ExtremeSamplesAreHarmless) {
  DelayWindow window;
  Instant now;
  for (const Duration rtt : {0_ns, 1_ns, 3600_s, Duration::from_ns(-5), 1_us}) {
    for (const std::uint64_t acked : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1} << 40}) {
      now = now + 1_ms;
      window.on_acknowledgement(acked, rtt, true, now);
      window.on_acknowledgement(acked, rtt, true, now);
      EXPECT_GE(window.bytes(), DelayWindowConfig{}.min_bytes);
      EXPECT_LE(window.bytes(), DelayWindowConfig{}.max_bytes);
    }
  }
}

TEST(DelayWindow, TheStartOfASlowLongPathDoesNotOverflowItsQueue) {
  Bottleneck link{{.rate = gbit(1), .queue_bytes = 4u << 20, .round_trip = 20_ms}, 1};
  EXPECT_EQ(link.run(600_ms).dropped, 0);
  EXPECT_GT(link.run(400_ms).utilisation, 0.97);
}

}  // namespace
}  // namespace brdma::congestion
