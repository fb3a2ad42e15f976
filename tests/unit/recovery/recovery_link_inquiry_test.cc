// When links are inquired, and which answers count. tests design WT-6, WT-10
#include <gtest/gtest.h>

#include "recovery/link_inquiry.h"

namespace brdma::recovery {
namespace {

constexpr Instant kStart = Instant{} + 1_s;

TEST(LinkInquiry, AfterMoreThanXTimeoutsAndNotTooOften) {
  const WanConfig config{.inquiry_timeouts = 3, .inquiry_interval = 100_ms};
  LinkInquiry inquiry;
  for (int i = 0; i < 3; ++i) inquiry.timed_out();
  EXPECT_FALSE(inquiry.is_due(config, kStart));
  inquiry.timed_out();
  EXPECT_TRUE(inquiry.is_due(config, kStart));
  inquiry.asked(1, kStart + 10_ms, kStart);
  for (int i = 0; i < 4; ++i) inquiry.timed_out();
  EXPECT_FALSE(inquiry.is_due(config, kStart + 200_ms)) << "answers are waited for";
  inquiry.close();
  EXPECT_FALSE(inquiry.is_due(config, kStart + 99_ms));
  EXPECT_TRUE(inquiry.is_held_back(config, kStart + 99_ms));
  EXPECT_TRUE(inquiry.is_due(config, kStart + 100_ms));
  EXPECT_FALSE(inquiry.is_due({.inquiry_timeouts = 0}, kStart + 100_ms));
}

TEST(LinkInquiry, RestsWhileNoTimeMakesItDue) {
  const WanConfig config{.inquiry_timeouts = 3, .inquiry_interval = 100_ms};
  LinkInquiry inquiry;
  EXPECT_TRUE(inquiry.is_idle(config));
  inquiry.timed_out(3);
  EXPECT_TRUE(inquiry.is_idle(config));
  inquiry.timed_out();
  EXPECT_FALSE(inquiry.is_idle(config));
  EXPECT_TRUE(inquiry.is_idle({.inquiry_timeouts = 0}));
  inquiry.asked(1, kStart + 10_ms, kStart);
  EXPECT_FALSE(inquiry.is_idle(config)) << "answers are waited for";
  inquiry.close();
  EXPECT_TRUE(inquiry.is_idle(config));
  inquiry.timed_out(4);
  EXPECT_FALSE(inquiry.is_idle(config)) << "it will be due, if not yet";
}

TEST(LinkInquiry, AnswersThatCount) {
  const WanConfig config{.hop_limit = 4};
  LinkInquiry inquiry;
  EXPECT_EQ(inquiry.on_reply(0, {.hop = 0}, config), LinkInquiry::Verdict::kUnasked);
  inquiry.asked(77, kStart + 10_ms, kStart);
  EXPECT_EQ(inquiry.on_reply(76, {.hop = 0}, config), LinkInquiry::Verdict::kUnasked);
  EXPECT_EQ(inquiry.on_reply(77, {.hop = 0, .over_limits = true}, config), LinkInquiry::Verdict::kTaken);
  EXPECT_EQ(inquiry.on_reply(77, {.hop = 0, .over_limits = true}, config), LinkInquiry::Verdict::kRepeated);
  EXPECT_EQ(inquiry.on_reply(77, {.hop = 2}, config), LinkInquiry::Verdict::kTaken);
  EXPECT_EQ(inquiry.on_reply(77, {.hop = 4}, config), LinkInquiry::Verdict::kRepeated) << "beyond the limit";
  EXPECT_EQ(inquiry.congested(), 1u);
  EXPECT_EQ(inquiry.links().size(), 2u);
  inquiry.close();
  EXPECT_EQ(inquiry.on_reply(77, {.hop = 1}, config), LinkInquiry::Verdict::kUnasked) << "too late";
}

TEST(LinkInquiry, CongestedLinks) {
  const WanConfig config{.link_queue_percent = 50, .link_speed_percent = 25};
  EXPECT_FALSE(is_congested({.speed = 26, .link_rate = 100, .queue = 49, .queue_limit = 100}, config));
  EXPECT_TRUE(is_congested({.speed = 100, .link_rate = 100, .queue = 50, .queue_limit = 100}, config));
  EXPECT_TRUE(is_congested({.speed = 25, .link_rate = 100}, config));
  EXPECT_TRUE(is_congested({.over_limits = true, .speed = 100, .link_rate = 100}, config));
  EXPECT_FALSE(is_congested({.speed = 0, .queue = 1u << 30}, config)) << "neither is bounded";
}

}  // namespace
}  // namespace brdma::recovery
