// A path that needs more than 65,536 packets in flight. tests design BR-32, BR-46
#include <gtest/gtest.h>

#include "streams/stream.h"

namespace brdma::test {
namespace {

// 10 Gbit/s and 20 ms of round trip at a path MTU of 256: 75,000 packets, as 100 Gbit/s and 32 ms at 4096.
StreamConfig long_path() {
  StreamConfig config;
  config.rate_bps = 10'000'000'000;
  config.delay = 10_ms;
  config.queue_bytes = 14u << 20;  // takes the bursts of the start: only configured losses occur
  config.mtu = PathMtu::k256;
  config.window = 1u << 20;
  config.receive_packets = 1u << 20;
  config.receive_bytes = 1u << 30;
  config.requests_posted = 300;  // 76,800 packets
  config.warm_up = 400_ms;
  config.measured = 60_ms;
  return config;
}

TEST(LargeWindow, FillsAPathThatNeedsMoreThan65536Packets) {
  const StreamConfig config = long_path();
  const StreamResult result = run_stream(config);
  EXPECT_GT(result.most_in_flight, 65'536u);
  EXPECT_GT(result.share, 0.5) << "256 of some 400 bytes a packet are data: 0.64 at most";
  EXPECT_EQ(result.queue_dropped, 0u);
  EXPECT_EQ(result.retransmitted, result.by_probe + result.by_timeout) << "before a round trip is known";
}

TEST(LargeWindow, LossesAreRepairedOneByOne) {
  StreamConfig config = long_path();
  config.loss_ppm = 200;
  // Requests posted when a gap closes do not leave as one burst: the path stays full if twice that is posted.
  config.requests_posted = 600;
  const StreamResult result = run_stream(config);
  EXPECT_GT(result.most_in_flight, 65'536u);
  EXPECT_GT(result.lost, 50u);
  EXPECT_GT(result.share, 0.25) << "each loss keeps all behind it from completing, and new ones from being posted";
  EXPECT_EQ(result.queue_dropped, 0u);
  EXPECT_LE(result.retransmitted, result.lost + result.lost / 4);
}

}  // namespace
}  // namespace brdma::test
