// Refusals of qp/respond/response_sender.h: READs whose memory is gone, and NAKs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>

#include "serving_parts.h"
#include "support/survive_faults.h"

namespace brdma::qp {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// --- memory that goes away ---

TEST(ResponseSender, TheKeyIsLookedUpWhenAPacketLeaves) {
  Serving responder;
  responder.config.segments_max = 2;
  responder.push(responder.read(1000, 10 * kMtu));
  responder.push(Serving::atomic(1011, 42));
  EXPECT_THAT(responder.poll_psns(), ElementsAre(1000U, 1001U));
  responder.remove_region();
  EXPECT_THAT(responder.poll_psns(), IsEmpty()) << "later responses are dropped";
  EXPECT_TRUE(responder.added);
  responder.expect_refused(1002);
}

TEST(ResponseSender, WhatCanBeReadOfARunLeaves) {
  Serving responder;
  Response read = responder.read(1000, 6 * kMtu);
  read.address += 13 * kMtu;  // the region has 16
  responder.push(read);
  EXPECT_THAT(responder.poll_psns(), ElementsAre(1000U, 1001U, 1002U));
  responder.expect_refused(1003);
}

TEST(ResponseSender, AQueuePairFailsOnce) {
  Serving responder;
  responder.halted = true;
  responder.remove_region();
  responder.push(responder.read(1000, kMtu));
  EXPECT_THAT(responder.poll_psns(), IsEmpty());
  EXPECT_FALSE(responder.responses.read_refused);
  EXPECT_EQ(responder.count(Counter::kRemoteAccessErrors), 0U);
  EXPECT_EQ(responder.naks.size(), 1U);
}

TEST(ResponseSender, TheMsnBeforeTheFirstIsTheLast) {
  Serving responder;
  responder.remove_region();
  Response read = responder.read(1000, kMtu);
  read.msn = 0;
  responder.push(read);
  (void)responder.poll();
  ASSERT_EQ(responder.naks.size(), 1U);
  EXPECT_EQ(responder.naks[0].msn, 0xFF'FFFFU);
}

TEST(ResponseSender, OfAReportedDropMemoryThatIsGoneIsNoError) {
  Serving responder;
  responder.remove_region();
  responder.push(Serving::again(responder.read(1000, 3 * kMtu), /*unasked=*/true));
  EXPECT_THAT(responder.poll_psns(), IsEmpty());
  EXPECT_FALSE(responder.added || responder.halted);
  EXPECT_FALSE(responder.responses.read_refused);
  EXPECT_EQ(responder.count(Counter::kEdnPacketsGone), 3U);
  EXPECT_TRUE(responder.resources.empty());
}

// 64 KiB may be read, and the 64 KiB behind it no more.
struct Pages {
  static constexpr std::size_t kSize = 65'536;
  Pages() {
    EXPECT_NE(at, MAP_FAILED);
    EXPECT_EQ(::mprotect(static_cast<std::byte*>(at) + kSize, kSize, PROT_NONE), 0);
  }
  ~Pages() { ::munmap(at, 2 * kSize); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  void* at = ::mmap(nullptr, 2 * kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
};

// The READ begins three packets before the end of what may be read.
TEST(ResponseSender, MemoryThatIsUnmappedIsRefusedToo) {
  test::survive_faults();
  const Pages pages;
  Serving responder;
  responder.memory.be_careful();
  const auto address = reinterpret_cast<std::uintptr_t>(pages.at);
  const MemoryRegion* const region =
      responder.memory.add(responder.identity.pd, address, 2 * Pages::kSize, address, kAccessRemoteRead).value();
  Response read = responder.read(1000, 6 * kMtu);
  read.rkey = region->key;
  read.address = address + Pages::kSize - 3 * kMtu;
  responder.push(read);
  EXPECT_THAT(responder.poll_psns(), ElementsAre(1000U, 1001U, 1002U));
  responder.expect_refused(1003);
}

// --- NAKs ---

TEST(ResponseSender, ANakStandsBehindResponsesToEarlierRequests) {
  Serving responder;
  responder.push(responder.read(1009, kMtu));
  responder.push(Serving::nak(1010));
  EXPECT_THAT(responder.poll_psns(), ElementsAre(1009U));
  EXPECT_THAT(responder.naks, ElementsAre(Nak{wire::kSyndromeNakSequence, Serving::kMsn, Psn{1010}, true}));
  EXPECT_EQ(responder.count(Counter::kSentSeqNak), 1U);
  EXPECT_TRUE(responder.resources.empty());
}

TEST(ResponseSender, OnSeveralPathsItWaitsForItsOwn) {
  Serving responder;
  responder.push(responder.read(1009, kMtu));
  responder.push(Serving::nak(1010));
  responder.push(Serving::atomic(1010, 42));
  EXPECT_THAT(responder.poll_psns(/*naks_too=*/false), ElementsAre(1009U));
  EXPECT_THAT(responder.poll_psns(/*naks_too=*/false), IsEmpty());
  EXPECT_FALSE(responder.added);
  EXPECT_THAT(responder.naks, IsEmpty());
  EXPECT_EQ(responder.resources.size(), 2U);
}

TEST(ResponseSender, AnRnrNakIsNoSequenceNak) {
  Serving responder;
  responder.push(Serving::nak(1010, wire::kSyndromeRnr));
  (void)responder.poll();
  EXPECT_EQ(responder.naks.size(), 1U);
  EXPECT_EQ(responder.count(Counter::kSentSeqNak), 0U);
}

TEST(ResponseSender, OfAPacketThatHasComeNoNakLeaves) {
  Serving responder;
  responder.push(Serving::nak(1009));
  responder.push(Serving::atomic(1009, 42));
  EXPECT_THAT(responder.poll_psns(), ElementsAre(1009U));
  EXPECT_THAT(responder.naks, IsEmpty());
  responder.push(Serving::nak(1009));
  (void)responder.poll();
  EXPECT_FALSE(responder.added);
}

// A BitmapAck's NAK is of the base. Of another PSN, a peer in bitmap mode takes none without a token.
TEST(ResponseSender, AfterAnErrorItLeavesInAnyCase) {
  Serving responder;
  responder.halted = true;
  responder.push(Serving::nak(1009, wire::kSyndromeNakInvalidRequest));
  (void)responder.poll();
  EXPECT_THAT(responder.naks,
              ElementsAre(Nak{wire::kSyndromeNakInvalidRequest, Serving::kMsn, Psn{1009}, /*bitmap=*/true}));
}

TEST(ResponseSender, TheNakThatEndsTheConnectionIsKept) {
  Serving responder;
  responder.push(Serving::nak(1010));
  (void)responder.poll();
  EXPECT_EQ(responder.responses.refusal, nullptr) << "a sequence NAK ends nothing";
  responder.halted = true;
  responder.push(Serving::nak(1010, wire::kSyndromeNakRemoteAccess));
  (void)responder.poll();
  ASSERT_NE(responder.responses.refusal, nullptr);
  EXPECT_EQ(responder.responses.refusal->psn, Psn{1010});
  EXPECT_EQ(responder.responses.refusal->syndrome, wire::kSyndromeNakRemoteAccess);
}

TEST(ResponseSender, AStandardPeersNakIsStandard) {
  Serving responder;
  responder.push(Serving::standard(Serving::nak(1010)));
  (void)responder.poll();
  ASSERT_EQ(responder.naks.size(), 1U);
  EXPECT_FALSE(responder.naks[0].bitmap);
}

TEST(ResponseSender, ANakThatDoesNotFitWaits) {
  Serving responder;
  responder.naks_fit = false;
  responder.push(Serving::nak(1010));
  (void)responder.poll();
  EXPECT_FALSE(responder.added);
  EXPECT_EQ(responder.count(Counter::kSentSeqNak), 0U);
  EXPECT_EQ(responder.resources.size(), 1U);
}

}  // namespace
}  // namespace brdma::qp
