// The responder's reaction to explicit drop notifications (design DN-10): dropped responses leave again from memory,
// acknowledgements are repeated; forged, replayed or absurd notifications change nothing.
#include "support/responder_script.h"

namespace brdma::test {
namespace {

wire::Edn about(std::uint32_t first, std::uint32_t last, std::optional<Duration> left = {}) {
  wire::Edn edn{.first = Psn{first}, .last = Psn{last}, .responses = true};
  if (left) edn.timestamp = wire::timestamp_of(Instant{} + *left);
  return edn;
}
wire::Edn about_ack(std::uint32_t psn) { return {.first = Psn{psn}, .last = Psn{psn}, .acknowledgement = true}; }

// A READ of four packets was executed and answered at 10 us.
class ResponderEdn : public testing::Test {
 protected:
  ResponderEdn() {
    for (std::size_t i = 0; i < 4096; ++i) rx.region_bytes[i] = static_cast<std::byte>(i * 31 >> 3);
    rx.at(10_us).gets(rx.read(1000, 1000, 64)).forget();
  }
  ResponderScript rx;
};

TEST_F(ResponderEdn, SendsAgainWhatIsNamedAndNothingElse) {
  const auto before = rx.read_answers;
  rx.read_answers.clear();
  rx.at(12_us).gets_edn(about(1001, 1002, 10_us));
  rx.reports({"bitmap read_first 1001 256B index=1", "bitmap read_last 1002 256B index=2"});
  rx.gets_edn(about(1003, 1003, 10_us)).reports({"bitmap read_only 1003 232B index=3"});
  for (const auto& [psn, bytes] : rx.read_answers) EXPECT_EQ(bytes, before.at(psn)) << psn;
  rx.counts(Counter::kRetransmittedEdn, 3).counts(Counter::kEdnResponses, 0);
}

// Memory as it is now, as in any retransmission.
TEST_F(ResponderEdn, ReadsMemoryAgain) {
  rx.region_bytes[64] ^= std::byte{1};
  rx.at(12_us).gets_edn(about(1000, 1000, 10_us)).forget();
  EXPECT_EQ(rx.read_answers.at(1000)[0], rx.region_bytes[64]);
}

TEST_F(ResponderEdn, ReplayedItChangesNothing) {
  rx.at(12_us).gets_edn(about(1001, 1001, 10_us)).forget();
  for (int i = 0; i < 10; ++i) rx.at(Duration{20_us + 1_us * i}).gets_edn(about(1001, 1001, 10_us)).is_silent();
  rx.counts(Counter::kEdnPacketsRecent, 10);
}

TEST_F(ResponderEdn, ARetransmissionThatWasDroppedTooLeavesAgainAtOnce) {
  rx.at(12_us).gets_edn(about(1001, 1001, 10_us)).forget();
  rx.at(14_us).gets_edn(about(1001, 1001, 12_us)).reports({"bitmap read_only 1001 256B index=1"});
  rx.at(16_us).gets_edn(about(1001, 1001, 15_us)).is_silent();  // no such time: forged
}

// Into a full queue it is not sent for ever: the requester will ask.
TEST_F(ResponderEdn, AFullQueueIsTriedOnce) {
  wire::Edn edn = about(1001, 1001, 10_us);
  edn.drain = 50_us;
  rx.at(12_us).gets_edn(edn).reports({"bitmap read_only 1001 256B index=1"});
  edn.timestamp = wire::timestamp_of(Instant{} + 12_us);
  rx.at(14_us).gets_edn(edn).is_silent();
}

TEST_F(ResponderEdn, WithoutATimestampNotTwiceWithinTheQuietTime) {
  rx.at(12_us).gets_edn(about(1001, 1001)).reports({"bitmap read_only 1001 256B index=1"});
  rx.at(20_us).gets_edn(about(1001, 1001)).is_silent();
  rx.at(70_us).gets_edn(about(1001, 1001)).reports({"bitmap read_only 1001 256B index=1"});
}

TEST_F(ResponderEdn, WhatWasNeverAnsweredIsNot) {
  rx.at(12_us).gets_edn(about(1004, 1004, 10_us)).is_silent().counts(Counter::kEdnStale, 1);
  rx.gets_edn(about(900, 950, 10_us)).is_silent().counts(Counter::kEdnResponses, 1);
  rx.gets_edn(about(1001, 1001, 9_us)).is_silent().counts(Counter::kEdnPacketsRecent, 1);  // before it was requested
  rx.gets_edn(about(1002, 1002 + (1u << 22), 10_us));
  rx.reports({"bitmap read_first 1002 256B index=2", "bitmap read_last 1003 232B index=3"});
}

TEST_F(ResponderEdn, WhatWaitsToLeaveLeavesOnce) {
  rx.at(12_us).gets(rx.read(1004, 512)).gets_edn(about(1004, 1005, 12_us));
  rx.reports({"bitmap read_first 1004 256B index=0", "bitmap read_last 1005 256B index=1"});
  rx.counts(Counter::kEdnPacketsPending, 2);
}

// The requester misses it too, and sends a re-request: it does not know yet.
TEST_F(ResponderEdn, WhoAsksForWhatHasJustLeftIsNotAnsweredTwice) {
  rx.at(12_us).gets_edn(about(1001, 1002, 10_us)).forget();
  rx.at(60_us).gets(rx.again(rx.read(1001, 512, 64 + 256))).is_silent().counts(Counter::kReplaysEdn, 1);
  rx.gets(rx.again(rx.read(1001, 768 - 24, 64 + 256))).forget();  // 1003 as well: all of it
  rx.counts(Counter::kReplaysEdn, 1);
  EXPECT_EQ(rx.statistics.get(DropReason::kDuplicate), 1u);
  rx.at(400_us).gets(rx.again(rx.read(1001, 512, 64 + 256)));
  rx.reports({"bitmap read_first 1001 256B index=0", "bitmap read_last 1002 256B index=1"});
}

// The READ is done, its region may be gone: that is no error.
TEST_F(ResponderEdn, MemoryThatIsGoneIsNotRead) {
  ASSERT_TRUE(rx.table().remove(rx.region).ok());
  rx.at(12_us).gets_edn(about(1001, 1001, 10_us)).is_silent().counts(Counter::kEdnPacketsGone, 1);
  EXPECT_FALSE(rx.failed);
}

TEST_F(ResponderEdn, OnlyTheLastReadsAreKnown) {
  for (std::uint32_t i = 0; i < 4; ++i) rx.gets(rx.read(1004 + i, 100));  // as many as max_dest_rd_atomic
  rx.forget().at(12_us).gets_edn(about(1000, 1000, 10_us)).is_silent().counts(Counter::kEdnResponses, 1);
  rx.gets_edn(about(1004, 1004, 10_us)).reports({"bitmap read_only 1004 100B index=0"});
}

TEST_F(ResponderEdn, AnAtomicIsAnsweredAgainNotDoneAgain) {
  rx.gets(rx.fetch_add(1004, 8, 5)).forget();
  rx.at(12_us).gets_edn(about(1004, 1004, 10_us)).forget();
  EXPECT_EQ(rx.atomic_answers.at(1004).size(), 1u);
  rx.counts(Counter::kRetransmittedEdn, 1).counts(Counter::kAtomicRequests, 1);
}

TEST(ResponderEdnAcknowledgement, IsSaidAgainAtOnce) {
  ResponderScript rx;
  rx.at(0_us).gets(rx.asking(rx.data(1000))).sends({"back base=1001 msn=1"});
  rx.at(1_us).gets_edn(about_ack(1001)).sends({"back base=1001 msn=1"}).counts(Counter::kEdnAcks, 1);
  rx.gets(rx.asking(rx.data(1001))).sends({"back base=1002 msn=2"});
  rx.gets_edn(about_ack(1001 - 1)).sends({}).counts(Counter::kEdnStale, 1);  // a later one has left
  rx.gets_edn(about_ack(1500)).sends({}).counts(Counter::kEdnStale, 2);      // never sent
}

// A standard acknowledgement has the PSN before the base.
TEST(ResponderEdnAcknowledgement, OfAStandardPeerToo) {
  ScriptOptions options;
  options.bitmap_agreed = false;
  ResponderScript rx{options};
  rx.at(0_us).gets(rx.asking(rx.data(1000))).sends({"ack 1000 msn=1"});
  rx.at(1_us).gets_edn(about_ack(1000)).sends({"ack 1000 msn=1"});
  // The requester re-requests READ responses: it takes nothing out of order.
  rx.gets(rx.read(1001, 512)).forget();
  rx.at(2_us).gets_edn(about(1001, 1001)).is_silent().counts(Counter::kEdnResponses, 1);
}

}  // namespace
}  // namespace brdma::test
