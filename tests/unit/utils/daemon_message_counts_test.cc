// brdmad's counts of connection managers' messages, by kind and address.
#include <gtest/gtest.h>

#include "connections/message_counts.h"

namespace brdma::daemon {
namespace {

constexpr std::size_t kReq = 0, kMra = 1;
constexpr IpAddress kHere = IpAddress::v4(10, 0, 0, 1), kPeer = IpAddress::v4(10, 0, 0, 2);

wire::CmMad mad(std::uint64_t transaction, const wire::CmMessage& message = wire::CmReq{}) {
  return {.transaction = transaction, .message = message};
}
const MessageCounts::Counts& of(const MessageCounts& counts, const IpAddress& address) {
  return counts.by_address().at(address);
}

TEST(MessageCounts, ByKindDirectionAndAddress) {
  MessageCounts counts;
  counts.sent(kHere, kPeer, mad(1));
  counts.received(kPeer, kHere, mad(1));
  counts.sent(kPeer, kHere, mad(1, wire::CmMra{}));
  EXPECT_EQ(of(counts, kHere)[MessageCounts::kSent][kReq], 1u);
  EXPECT_EQ(of(counts, kHere)[MessageCounts::kReceived][kReq], 0u);
  EXPECT_EQ(of(counts, kPeer)[MessageCounts::kReceived][kReq], 1u);
  EXPECT_EQ(of(counts, kPeer)[MessageCounts::kSent][kMra], 1u);
  EXPECT_EQ(of(counts, kPeer)[MessageCounts::kRetried][kMra], 0u);
}

TEST(MessageCounts, SameTransactionIsARepetition) {
  MessageCounts counts;
  for (int i = 0; i < 3; ++i) {
    counts.sent(kHere, kPeer, mad(1));
    counts.received(kHere, kPeer, mad(1));
  }
  counts.sent(kHere, kPeer, mad(2));
  EXPECT_EQ(of(counts, kHere)[MessageCounts::kSent][kReq], 4u);
  EXPECT_EQ(of(counts, kHere)[MessageCounts::kRetried][kReq], 2u);
  EXPECT_EQ(of(counts, kHere)[MessageCounts::kDuplicate][kReq], 2u);
}

// Peers choose transactions and addresses: memory is bounded.
TEST(MessageCounts, ForgetsTheOldest) {
  MessageCounts counts;
  for (std::uint64_t i = 0; i <= MessageCounts::kRecentMax; ++i) counts.received(kHere, kPeer, mad(i));
  counts.received(kHere, kPeer, mad(1));
  EXPECT_EQ(of(counts, kHere)[MessageCounts::kDuplicate][kReq], 1u);
  counts.received(kHere, kPeer, mad(0));
  EXPECT_EQ(of(counts, kHere)[MessageCounts::kDuplicate][kReq], 1u);
}

TEST(MessageCounts, AddressesAreBounded) {
  MessageCounts counts;
  for (unsigned i = 0; i < MessageCounts::kAddressesMax + 9; ++i) {
    counts.received(IpAddress::v4(10, 1, static_cast<std::uint8_t>(i >> 8), static_cast<std::uint8_t>(i)), kPeer,
                    mad(i));
  }
  EXPECT_EQ(counts.by_address().size(), MessageCounts::kAddressesMax);
}

}  // namespace
}  // namespace brdma::daemon
