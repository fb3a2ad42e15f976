// qp/inquiry/link_inquiries.h: packets that waited too long are counted, and what the links of the path have replied is
// reported to the controller. tests design WT-6, WT-11
#include <gtest/gtest.h>

#include <memory>

#include "qp/inquiry/link_inquiries.h"
#include "support/sender_parts.h"

namespace brdma::qp {
namespace {

using recovery::LinkInquiry;
using recovery::LinkReport;

// More than three packets that time out cause an inquiry, one a second at most.
struct Inquirer : test::SenderParts {
  Inquirer() {
    recovery.wan.inquiry_timeouts = 3;
    recovery.wan.inquiry_interval = 1_s;
    identity.attributes.local_address = IpAddress::v4(192, 0, 2, 1);
    identity.attributes.peer_address = IpAddress::v4(192, 0, 2, 2);
  }
  void time_out(std::uint32_t packets) { inquiries().on_timed_out(packets, now); }
  [[nodiscard]] LinkInquiry& inquiry() { return *signals->inquiry; }
  [[nodiscard]] bool due() { return inquiry().is_due(recovery.wan, now); }
  // The inquiry leaves; replies are awaited for 10 ms.
  void ask() { inquiry().asked(77, now + 10_ms, now); }
  void reply(std::uint8_t hop, bool congested) {
    EXPECT_EQ(inquiry().on_reply(77, {.hop = hop, .over_limits = congested, .switch_id = 40u + hop}, recovery.wan),
              LinkInquiry::Verdict::kTaken);
  }
  void conclude_after(Duration time) {
    pass(time);
    inquiries().conclude(now);
  }
  [[nodiscard]] std::size_t reports() const { return environment.links.reports.size(); }
};

// --- counted ---

TEST(LinkInquiries, NothingIsKeptBeforeAPacketTimesOut) {
  Inquirer parts;
  parts.time_out(0);
  EXPECT_EQ(parts.signals, nullptr);
  parts.conclude_after(1_s);
  EXPECT_EQ(parts.signals, nullptr);
}

TEST(LinkInquiries, MoreThanXTimeoutsTogetherAreAReason) {
  Inquirer parts;
  parts.time_out(1);
  ASSERT_TRUE(parts.signals && parts.signals->inquiry);
  parts.time_out(2);
  EXPECT_FALSE(parts.due());
  parts.time_out(1);
  EXPECT_TRUE(parts.due());
}

TEST(LinkInquiries, TheRestOfTheStateStaysAsItIs) {
  Inquirer parts;
  made(parts.signals).cnp_due = true;
  parts.time_out(1);
  EXPECT_TRUE(parts.signals->cnp_due);
  EXPECT_TRUE(parts.signals->inquiry);
}

// --- held back ---

TEST(LinkInquiries, ADueInquiryIsNotHeldBack) {
  Inquirer parts;
  parts.time_out(3);
  parts.time_out(1);
  ASSERT_TRUE(parts.due());
  EXPECT_EQ(parts.count(Counter::kLinkStateInquiriesLimited), 0U);
}

TEST(LinkInquiries, OneThatComesTooSoonIsHeldBackAndCounted) {
  Inquirer parts;
  parts.time_out(4);
  parts.ask();
  parts.time_out(3);
  EXPECT_EQ(parts.count(Counter::kLinkStateInquiriesLimited), 0U) << "no reason for another";
  parts.time_out(1);
  EXPECT_EQ(parts.count(Counter::kLinkStateInquiriesLimited), 1U) << "replies are awaited";
  parts.time_out(0);
  EXPECT_EQ(parts.count(Counter::kLinkStateInquiriesLimited), 1U) << "nothing has timed out";
  parts.conclude_after(10_ms);
  parts.time_out(1);
  EXPECT_EQ(parts.count(Counter::kLinkStateInquiriesLimited), 2U) << "too soon after the last";
  EXPECT_FALSE(parts.due());
  parts.pass(990_ms);
  parts.time_out(1);
  EXPECT_EQ(parts.count(Counter::kLinkStateInquiriesLimited), 2U);
  EXPECT_TRUE(parts.due());
}

TEST(LinkInquiries, NoneIsHeldBackIfThereAreNone) {
  Inquirer parts;
  parts.recovery.wan.inquiry_timeouts = 0;
  parts.time_out(100);
  EXPECT_FALSE(parts.due());
  EXPECT_EQ(parts.count(Counter::kLinkStateInquiriesLimited), 0U);
}

// --- concluded ---

TEST(LinkInquiries, RepliesAreReportedAtTheEndOfTheirTime) {
  Inquirer parts;
  parts.time_out(4);
  parts.ask();
  parts.reply(0, true);
  parts.reply(2, false);
  parts.conclude_after(10_ms - kTick);
  EXPECT_EQ(parts.reports(), 0U) << "more replies are awaited";
  EXPECT_EQ(parts.inquiry().links().size(), 2U);
  parts.conclude_after(kTick);
  ASSERT_EQ(parts.reports(), 1U);
  const LinkReport& report = parts.environment.links.reports.front();
  EXPECT_EQ(report.local, IpAddress::v4(192, 0, 2, 1));
  EXPECT_EQ(report.peer, IpAddress::v4(192, 0, 2, 2));
  EXPECT_EQ(report.qpn, 17U);
  EXPECT_EQ(report.congested, 1U);
  ASSERT_EQ(report.links.size(), 2U);
  EXPECT_EQ(report.links[0].switch_id, 40U);
  EXPECT_EQ(report.links[1].switch_id, 42U);
  EXPECT_EQ(parts.count(Counter::kLinkStateReports), 1U);
  EXPECT_EQ(parts.count(Counter::kLinkStateReportsLost), 0U);
}

TEST(LinkInquiries, OneIsReportedOnce) {
  Inquirer parts;
  parts.time_out(4);
  parts.ask();
  parts.reply(0, true);
  parts.conclude_after(10_ms);
  EXPECT_EQ(parts.inquiry().open_until(), std::nullopt);
  EXPECT_TRUE(parts.inquiry().links().empty());
  parts.conclude_after(10_ms);
  EXPECT_EQ(parts.reports(), 1U);
}

TEST(LinkInquiries, WithoutRepliesThereIsNothingToReport) {
  Inquirer parts;
  parts.time_out(4);
  parts.ask();
  parts.conclude_after(10_ms);
  EXPECT_EQ(parts.reports(), 0U);
  EXPECT_EQ(parts.count(Counter::kLinkStateReports), 0U);
  EXPECT_EQ(parts.inquiry().open_until(), std::nullopt) << "it is over all the same";
}

TEST(LinkInquiries, OnlyAnOpenOneIsConcluded) {
  Inquirer parts;
  made(parts.signals);
  parts.conclude_after(1_s);
  EXPECT_FALSE(parts.signals->inquiry) << "there is none";
  parts.time_out(4);
  parts.conclude_after(1_s);
  EXPECT_EQ(parts.reports(), 0U) << "it has not left";
  EXPECT_TRUE(parts.due());
}

TEST(LinkInquiries, ReportsThatNobodyReadsAreBounded) {
  Inquirer parts;
  parts.time_out(4);
  const auto inquire = [&] {
    parts.ask();
    parts.reply(0, true);
    parts.conclude_after(10_ms);
  };
  for (std::size_t i = 0; i < LinkReport::kWaitingMax; ++i) inquire();
  EXPECT_EQ(parts.reports(), 64U);
  EXPECT_EQ(parts.count(Counter::kLinkStateReportsLost), 0U);
  inquire();
  EXPECT_EQ(parts.reports(), 64U);
  EXPECT_EQ(parts.count(Counter::kLinkStateReports), 64U);
  EXPECT_EQ(parts.count(Counter::kLinkStateReportsLost), 1U);
  EXPECT_EQ(parts.inquiry().open_until(), std::nullopt);
  parts.environment.links.reports.pop_front();
  inquire();
  EXPECT_EQ(parts.reports(), 64U) << "there is room again";
  EXPECT_EQ(parts.count(Counter::kLinkStateReports), 65U);
}

}  // namespace
}  // namespace brdma::qp
