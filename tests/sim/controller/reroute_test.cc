// A stream between two sites whose shorter path is cut, or becomes slow; a controller moves it to a path half as long
// again. tests design WT-12, WT-19
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

#include "controller/controlled_world.h"
#include "qp/state/queue_pair.h"
#include "streams/stream_pair.h"

namespace brdma::test {
namespace {

constexpr std::uint32_t kRequest = 65536;
constexpr std::uint64_t kMbps = 1000;

struct After {
  double mbps = 0;         // over 3 s
  std::uint64_t lost = 0;  // by queues, and by the cut
  Duration base;           // round trip, the sender's value at the end
};

After leave(Duration delay, CongestionControl control, bool cut) {
  ControlledWorldConfig config;
  config.delay = delay;
  config.recovery.congestion.control = control;
  const auto holds = static_cast<std::uint64_t>((delay * 2).ns()) * kMbps / 8000;
  while (std::uint64_t{config.window} * 4096 < holds * 4) config.window *= 2;
  ControlledWorld world{config};
  EndpointConfig endpoint;
  endpoint.mtu = PathMtu::k4096;
  endpoint.timeout = 19;
  endpoint.send_wr_max = static_cast<std::uint32_t>(std::max<std::uint64_t>(64, holds * 2 / kRequest));
  StreamPair stream{world.world(), world.host(0), world.host(1), endpoint, 0, kRequest};
  const auto run_for = [&](Duration how_long) {
    const std::uint64_t before = stream.completed();
    world.world().run_until(
        [&] {
          stream.take();
          stream.post(WorkOpcode::kRdmaWrite, endpoint.send_wr_max);
          return false;
        },
        how_long);
    return stream.completed() - before;
  };
  run_for(std::max(2_s, delay * 80));
  const std::uint64_t lost = world.lost();
  cut ? world.cut() : world.slow_down(20);
  const std::uint64_t done = run_for(3_s);
  return {.mbps = static_cast<double>(done * kRequest) * 8 / 3e6,
          .lost = world.lost() - lost,
          .base = stream.qp()->requester().snapshot().base_rtt};
}

// Each direction becomes a quarter of the round trip longer, at times of its own. The difference to the 977 Mbit/s that
// the link carries: the time until routes have moved, and half a round trip or two until each change is recognized.
TEST(Reroute, ASlowPathIsLeftWithoutOverflowingTheNextOne) {
  for (const CongestionControl control : {CongestionControl::kWindow, CongestionControl::kPaced}) {
    SCOPED_TRACE(static_cast<int>(control));
    const After after = leave(10_ms, control, /*cut=*/false);
    EXPECT_GT(after.mbps, 860);
    EXPECT_EQ(after.lost, 0u);
    EXPECT_GT(after.base, 30_ms);
    EXPECT_LT(after.base, 31_ms);
  }
}

TEST(Reroute, ASlowPathIsLeftOverALongRoundTrip) {
  const After after = leave(50_ms, CongestionControl::kWindow, /*cut=*/false);
  EXPECT_GT(after.mbps, 790);
  EXPECT_EQ(after.lost, 0u);
  EXPECT_GT(after.base, 150_ms);
  EXPECT_LT(after.base, 152_ms);
}

TEST(Reroute, ACutPathIsLeft) {
  const After after = leave(10_ms, CongestionControl::kWindow, /*cut=*/true);
  EXPECT_GT(after.mbps, 860);
  EXPECT_GT(after.base, 30_ms);
  EXPECT_LT(after.base, 31_ms);
}

}  // namespace
}  // namespace brdma::test
