// tests design BR-23, BR-27 - which of the packets that a receiver names are retransmitted.
#include <gtest/gtest.h>

#include "recovery/retransmit_request.h"

namespace brdma::recovery {
namespace {

using bitmap::EntryState;
using Kind = FeedbackOrder::Kind;

TEST(RetransmitRequest, IsHeededUnlessARuleSpeaksAgainstIt) {
  struct Case {
    EntryState state;
    bool sent_again;
    Duration since_sent;
    bool overtaken;
    RequestVerdict verdict;
  };
  const Case cases[] = {
      {EntryState::kSentUnacked, false, 0_us, false, RequestVerdict::kResend},
      {EntryState::kSentUnacked, false, 0_us, true, RequestVerdict::kResend},
      {EntryState::kSuspectedLost, false, 0_us, false, RequestVerdict::kResend},
      {EntryState::kAcked, false, 0_us, false, RequestVerdict::kAcknowledged},
      {EntryState::kAcked, true, 1_s, true, RequestVerdict::kAcknowledged},
      {EntryState::kRetransmitPending, false, 1_s, false, RequestVerdict::kPending},
      {EntryState::kRetransmitPending, true, 0_us, true, RequestVerdict::kPending},
      {EntryState::kRetransmittedUnacked, true, 49_us, false, RequestVerdict::kRecent},
      {EntryState::kRetransmittedUnacked, true, 50_us, false, RequestVerdict::kResend},
      {EntryState::kRetransmittedUnacked, true, 50_us, true, RequestVerdict::kOutdated},
      {EntryState::kSuspectedLost, true, 49_us, false, RequestVerdict::kRecent},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(judge_request({c.state, c.sent_again, c.since_sent}, 50_us, c.overtaken), c.verdict)
        << static_cast<int>(c.state) << " " << c.sent_again << " " << c.since_sent.ns() << " " << c.overtaken;
  }
}

TEST(FeedbackOrder, DistinguishesNewOvertakenRepeatedAndOld) {
  for (const std::uint32_t begin : {0u, 5u, 0xFFFF'FFFEu, 0x7FFF'FFFFu}) {
    FeedbackOrder order;
    EXPECT_EQ(order.take(begin), Kind::kNew);
    EXPECT_EQ(order.take(begin), Kind::kDuplicate);
    EXPECT_EQ(order.take(begin + 3), Kind::kNew);
    EXPECT_EQ(order.take(begin + 1), Kind::kOvertaken);
    EXPECT_EQ(order.take(begin + 1), Kind::kDuplicate);
    EXPECT_EQ(order.take(begin), Kind::kDuplicate);
    EXPECT_EQ(order.take(begin + 66), Kind::kNew);
    EXPECT_EQ(order.take(begin + 3), Kind::kDuplicate) << "63 behind";
    EXPECT_EQ(order.take(begin + 2), Kind::kStale) << "64 behind";
    EXPECT_EQ(order.take(begin + 1000), Kind::kNew);
    EXPECT_EQ(order.take(begin + 937), Kind::kOvertaken);
    EXPECT_EQ(order.take(begin + 936), Kind::kStale);
  }
}

}  // namespace
}  // namespace brdma::recovery
