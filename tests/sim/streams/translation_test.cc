// ECN into round-trip time over whole engines (ER-16): the sender, which uses only round-trip times, keeps a shorter
// queue if the switch translates its marks.
#include <gtest/gtest.h>

#include "streams/stream.h"

namespace brdma::test {
namespace {

StreamConfig congested() {
  StreamConfig config;
  config.rate_bps = 1'000'000'000;
  config.requests_posted = 128;
  config.measured = 300_ms;
  config.marking = fabric::MarkingConfig{4 * 1024, 16 * 1024, 200'000};
  return config;
}

TEST(Translation, LengthensTheRoundTripThatTheSenderMeasures) {
  const StreamResult alone = run_stream(congested());
  EXPECT_GT(alone.marked, alone.packets * 9 / 10);
  EXPECT_EQ(alone.rewritten, 0u);
  StreamConfig config = congested();
  config.translation = fabric::RttTranslator::Config{.increment = {.longest = 200_us}};
  const StreamResult translated = run_stream(config);
  EXPECT_GT(translated.rewritten, 100u);
  EXPECT_GT(translated.srtt, alone.srtt + 100_us);
  EXPECT_LT(translated.srtt, alone.srtt + 400_us);
  EXPECT_GT(translated.share, 0.97 * alone.share);
  EXPECT_EQ(translated.retransmitted, translated.queue_dropped);
}

TEST(Translation, ChangesNothingWithoutCongestion) {
  StreamConfig config = congested();
  config.marking = fabric::MarkingConfig{200 * 1024, 250 * 1024, 200'000};
  const StreamResult alone = run_stream(config);
  config.translation = fabric::RttTranslator::Config{.increment = {.longest = 200_us}};
  const StreamResult translated = run_stream(config);
  EXPECT_EQ(translated.rewritten, 0u);
  EXPECT_EQ(translated.packets, alone.packets);
}

}  // namespace
}  // namespace brdma::test
