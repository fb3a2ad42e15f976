// Link-state inquiry and feedback on the wire: refusals, and a hop's changes. (Bytes: wire_document_test.cc.)
#include <gtest/gtest.h>

#include "support/bytes.h"
#include "wire/link_state.h"

namespace brdma::wire {
namespace {

using test::Bytes;

Bytes bytes_of(const LinkStateInquiry& inquiry) {
  Bytes out(kLinkStateInquirySize);
  emit_link_state_inquiry(inquiry, out.data());
  return out;
}

Bytes bytes_of(const LinkStateFeedback& feedback) {
  Bytes out(kLinkStateFeedbackSize);
  emit_link_state_feedback(feedback, out.data());
  return out;
}

// tests design WT-7 - the inquiry is forwarded to the next hop.
TEST(WireLinkState, AHopSendsTheInquiryOnWithOneMore) {
  Bytes body = bytes_of(LinkStateInquiry{.source_qpn = 0x1102, .hop = 0, .hop_limit = 2, .nonce = 5});
  forward_link_state_inquiry(body.data());
  EXPECT_EQ(body, bytes_of(LinkStateInquiry{.source_qpn = 0x1102, .hop = 1, .hop_limit = 2, .nonce = 5}));
  forward_link_state_inquiry(body.data());
  EXPECT_TRUE(parse_link_state_inquiry(body));  // at its limit
  forward_link_state_inquiry(body.data());
  EXPECT_FALSE(parse_link_state_inquiry(body));
}

TEST(WireLinkState, ImpossibleBodies) {
  const Bytes asked = bytes_of(LinkStateInquiry{.hop_limit = 1});
  EXPECT_TRUE(parse_link_state_inquiry(asked));
  EXPECT_FALSE(parse_link_state_inquiry(ConstBytes{asked}.first(kLinkStateInquirySize - 1)));

  const LinkStateFeedback good{.speed = 100, .link_rate = 100, .queue = 10, .queue_limit = 10};
  const Bytes said = bytes_of(good);
  EXPECT_TRUE(parse_link_state_feedback(said));
  EXPECT_FALSE(parse_link_state_feedback(ConstBytes{said}.first(kLinkStateFeedbackSize - 1)));
  const auto with = [&said](std::size_t at, std::uint8_t value) {
    Bytes changed = said;
    changed[at] = std::byte{value};
    return changed;
  };
  EXPECT_FALSE(parse_link_state_feedback(with(31, 101)));  // faster than its link
  EXPECT_FALSE(parse_link_state_feedback(with(43, 11)));   // a queue longer than it may be
  EXPECT_TRUE(parse_link_state_feedback(with(47, 0)));     // not bounded
  EXPECT_FALSE(parse_link_state_feedback(with(32, 1)));    // a link of 2^56 bytes a second
  const LinkStateFeedback unbounded{.speed = kLinkRateMax, .queue = 5};
  EXPECT_EQ(parse_link_state_feedback(bytes_of(unbounded)), unbounded);
  EXPECT_FALSE(parse_link_state_feedback(with(24, 1)));
}

// tests design WT-8: in whole thousands of packets a second; 0: not bounded.
TEST(WireLinkState, TheSwitchsSpeedIsInThousands) {
  struct Row {
    std::uint64_t given, stated;
  };
  for (const Row& row : {Row{0, 0}, Row{1, 1'000}, Row{1'000, 1'000}, Row{1'999, 1'000}, Row{2'500'000, 2'500'000},
                         Row{kSwitchSpeedMax, kSwitchSpeedMax}, Row{~std::uint64_t{0}, kSwitchSpeedMax}}) {
    const auto read = parse_link_state_feedback(bytes_of(LinkStateFeedback{.hop = 3, .switch_speed = row.given}));
    ASSERT_TRUE(read);
    EXPECT_EQ(read->switch_speed, row.stated) << row.given;
    EXPECT_EQ(read->hop, 3);
  }
}

// A hop's clock may tick between reading its queue and its limit.
TEST(WireLinkState, WhatIsSentIsPossible) {
  const auto read = parse_link_state_feedback(
      bytes_of(LinkStateFeedback{.speed = 300, .link_rate = 200, .queue = 30, .queue_limit = 20}));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->speed, 200u);
  EXPECT_EQ(read->queue, 20u);
}

}  // namespace
}  // namespace brdma::wire
