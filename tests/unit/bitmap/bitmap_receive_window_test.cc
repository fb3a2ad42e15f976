// tests design BR-1 to BR-5, BR-32 to BR-34.
#include <gtest/gtest.h>

#include <array>

#include "base/bytes.h"
#include "bitmap/receive_window.h"
#include "support/checks.h"

namespace brdma::bitmap {
namespace {

SegmentPool pool;

TEST(ReceiveWindow, ClassifiesBothSidesOfEachLimit) {
  ReceiveWindow window{Psn{1000}, WindowShape{.window = 16}, pool};
  window.receive(Psn{1003});
  EXPECT_EQ(window.classify(Psn{999}), Arrival::kBeforeBase);
  EXPECT_EQ(window.classify(Psn{1000}), Arrival::kNew);
  EXPECT_EQ(window.classify(Psn{1003}), Arrival::kDuplicate);
  EXPECT_EQ(window.classify(Psn{1015}), Arrival::kNew);
  EXPECT_EQ(window.classify(Psn{1016}), Arrival::kBeyondWindow);
  EXPECT_EQ(window.classify(Psn{1000 + 0x7FFFFF}), Arrival::kBeyondWindow);
  EXPECT_EQ(window.classify(Psn{1000 + 0x800000}), Arrival::kBeforeBase);
}

TEST(ReceiveWindow, BaseMovesOverTheRunThatIsComplete) {
  ReceiveWindow window{Psn{0xFFFFFE}, WindowShape{.window = 4096}, pool};
  for (const std::uint32_t psn : {0xFFFFFEu, 0xFFFFFFu, 0u, 2u}) window.receive(Psn{psn});
  EXPECT_EQ(window.highest(), Psn{2});
  EXPECT_EQ(window.next_hole(window.base()).start, Psn{1});
  EXPECT_EQ(window.next_hole(window.base()).length, 1u);
  EXPECT_EQ(window.advance(), 3u);
  EXPECT_EQ(window.base(), Psn{1});
  window.receive(Psn{1});
  EXPECT_EQ(window.advance(), 2u);
  EXPECT_TRUE(window.empty());
  EXPECT_EQ(window.highest(), Psn{2});
}

TEST(ReceiveWindow, AFullWindowAdvancesAsAWhole) {
  ReceiveWindow window{Psn{77}, WindowShape{.window = 256}, pool};
  for (std::uint32_t i = 256; i-- > 0;) EXPECT_EQ(window.receive(Psn{77 + i}), Arrival::kNew);
  EXPECT_EQ(window.receive(Psn{77 + 256}), Arrival::kBeyondWindow);
  EXPECT_EQ(window.advance(), 256u);
  EXPECT_EQ(window.receive(Psn{77 + 256 + 255}), Arrival::kNew);
}

TEST(ReceiveWindow, InOrderItTakesNoMemory) {
  ReceiveWindow window{Psn{5}, WindowShape{.window = 1u << 20}, pool};
  for (std::uint32_t i = 0; i < 10'000; ++i) {
    window.receive(Psn{5 + i});
    window.advance();
  }
  EXPECT_EQ(window.use().bytes, 0u);
  EXPECT_FALSE(window.use().segmented);
  EXPECT_EQ(window.use().length, 128u) << "the base length";
}

TEST(ReceiveWindow, GetsLongerInStepsAndTakesOnlyTheSegmentsThatPacketsFallInto) {
  ReceiveWindow window{Psn{512}, WindowShape{.window = 1u << 20, .base = 128, .extension = 1024, .segment = 512}, pool};
  window.receive(window.base() + 100);
  EXPECT_FALSE(window.use().segmented);
  EXPECT_LE(window.use().bytes, 64u);
  window.receive(window.base() + 3000);  // the sixth segment
  EXPECT_TRUE(window.use().segmented);
  EXPECT_EQ(window.use().length, 128u + 3 * 1024);
  EXPECT_EQ(window.use().segments, 2u);
  window.receive(window.base() + (1u << 20) - 1);
  EXPECT_EQ(window.use().segments, 3u) << "a packet far ahead costs one segment, and the directory";
  EXPECT_LE(window.use().bytes, 3 * 64u + 4096 * 8);
  EXPECT_EQ(window.use().length, 128u + 1024 * 1024);
  window.advance_over(1000);  // the first is behind the base now
  EXPECT_EQ(window.use().segments, 2u);
  EXPECT_TRUE(window.has(Psn{512 + 3000}));
  window.advance_over(1u << 20);
  EXPECT_EQ(window.use().bytes, 0u) << "nothing is waiting: nothing is kept";
  EXPECT_EQ(window.use().length, 128u);
}

TEST(ReceiveWindow, GetsShorterWhenTheLoadGoes) {
  ReceiveWindow window{Psn{0}, WindowShape{.window = 1u << 16, .base = 128, .extension = 512, .segment = 512}, pool};
  window.receive(Psn{20'000});
  const std::uint32_t longest = window.use().length;
  EXPECT_GE(longest, 20'000u);
  window.advance_over(19'900);
  // From now on never more than 300 packets are waiting.
  std::uint32_t length = longest;
  for (std::uint32_t i = 0; i < 400'000; i += 100) {
    window.receive(window.base() + 300);
    window.advance_over(100);
    ASSERT_LE(window.use().length, length);
    length = window.use().length;
  }
  EXPECT_LE(length, 128u + 2 * 512);
}

TEST(ReceiveWindow, SegmentsComeFromThePoolWithoutAllocationOnceWarm) {
  SegmentPool own;
  ReceiveWindow window{Psn{0}, WindowShape{.window = 1u << 16}, own};
  std::uint64_t allocations = 0;
  for (int round = 0; round < 100; ++round) {
    if (round == 2) allocations = own.allocations();
    window.receive(window.base() + 40'000);
    window.advance_over(30'000);
    for (std::uint32_t i = 0; i < 40; ++i) window.receive(window.base() + 1000 * i);
    window.advance_over(60'000);
  }
  EXPECT_EQ(own.allocations(), allocations);
  EXPECT_EQ(own.used_bytes(), 0u);
}

TEST(ReceiveWindow, ABitOfSeveralPacketsIsSetWhenAllHaveArrived) {
  ReceiveWindow window{Psn{1002}, WindowShape{.window = 4096, .granularity = 16}, pool};
  window.receive(Psn{1009});  // the run 1008 .. 1023
  EXPECT_EQ(window.partial_runs(), 1u);
  EXPECT_TRUE(window.has(Psn{1009}));
  EXPECT_FALSE(window.has(Psn{1008})) << "exact while the run is incomplete";
  EXPECT_EQ(window.classify(Psn{1009}), Arrival::kDuplicate);
  EXPECT_EQ(window.classify(Psn{1010}), Arrival::kNew);
  EXPECT_EQ(window.next_hole(Psn{1002}).length, 7u);
  for (std::uint32_t psn = 1010; psn < 1024; ++psn) window.receive(Psn{psn});
  EXPECT_EQ(window.partial_runs(), 1u);
  window.receive(Psn{1008});
  EXPECT_EQ(window.partial_runs(), 0u) << "one bit says it all";
  EXPECT_EQ(window.next_hole(Psn{1002}).length, 6u);
  // The base's own run: PSNs before the base count as arrived.
  for (std::uint32_t psn = 1002; psn < 1008; ++psn) window.receive(Psn{psn});
  EXPECT_EQ(window.partial_runs(), 0u);
  EXPECT_EQ(window.advance(), 22u);
}

TEST(ReceiveWindow, OnlySoManyRunsMayBeIncomplete) {
  ReceiveWindow window{Psn{0}, WindowShape{.window = 1u << 16, .granularity = 4}, pool};
  std::uint32_t taken = 0;
  for (std::uint32_t psn = 1; psn < 1u << 16; psn += 4) {
    if (!window.can_receive(Psn{psn})) continue;
    window.receive(Psn{psn});
    ++taken;
  }
  EXPECT_EQ(taken, kPartialRunsMax - 1) << "one is left for a stretch's other end";
  EXPECT_TRUE(window.can_receive(Psn{2})) << "its run has a record";
  EXPECT_FALSE(window.can_receive(Psn{60'000}));
  for (const std::uint32_t psn : {0u, 2u, 3u}) window.receive(Psn{psn});
  EXPECT_EQ(window.advance(), 4u);
  EXPECT_TRUE(window.can_receive(Psn{60'000})) << "a run is complete";
}

TEST(ReceiveWindow, TheEdgeSlidesInSteps) {
  ReceiveWindow window{Psn{1000}, WindowShape{.window = 64, .slide_step = 16}, pool};
  window.receive(Psn{1063});
  for (std::uint32_t psn = 1000; psn < 1015; ++psn) window.receive(Psn{psn});
  EXPECT_EQ(window.advance(), 15u);
  EXPECT_EQ(window.base(), Psn{1015}) << "the base is exact";
  EXPECT_EQ(window.open(), 49u);
  EXPECT_EQ(window.classify(Psn{1064}), Arrival::kBeyondWindow) << "the edge has not moved";
  window.receive(Psn{1015});
  window.advance();
  EXPECT_EQ(window.open(), 64u);
  EXPECT_EQ(window.classify(Psn{1079}), Arrival::kNew);
  for (std::uint32_t psn = 1016; psn < 1063; ++psn) window.receive(Psn{psn});
  window.advance();
  EXPECT_TRUE(window.empty());
  EXPECT_EQ(window.open(), 64u) << "with nothing waiting there is nothing to slide over";
}

TEST(ReceiveWindow, AReadOccupiesARun) {
  ReceiveWindow window{Psn{100}, WindowShape{.window = 32}, pool};
  EXPECT_EQ(window.receive_run(Psn{104}, 8), 8u);
  EXPECT_EQ(window.receive_run(Psn{104}, 8), 0u);
  EXPECT_EQ(window.receive_run(Psn{98}, 4), 2u) << "what lies before the base is left out";
  EXPECT_EQ(window.receive_run(Psn{130}, 4), 2u) << "what lies beyond the window too";
  EXPECT_EQ(window.highest(), Psn{131});
  EXPECT_EQ(window.advance(), 2u);
  window.advance_over(1000);  // longer than the window, done as a whole
  EXPECT_EQ(window.base(), Psn{1102});
  EXPECT_TRUE(window.empty());
  EXPECT_EQ(window.receive(Psn{1102 + 31}), Arrival::kNew);
}

TEST(ReceiveWindow, ExportsBitsInWireOrder) {
  ReceiveWindow window{Psn{1000}, WindowShape{.window = 64}, pool};
  for (const std::uint32_t psn : {1001u, 1031u, 1032u, 1039u}) window.receive(Psn{psn});
  std::array<std::byte, 8> bytes{};
  window.export_bits(40, bytes.data());
  EXPECT_EQ(load_be32(bytes.data()), 0x40000001u);
  EXPECT_EQ(load_be32(bytes.data() + 4), 0x81000000u);
  window.export_bits(39, bytes.data());
  EXPECT_EQ(load_be32(bytes.data() + 4), 0x80000000u) << "bits from the count on are zero";
}

TEST(ReceiveWindow, SteppingOverWhatHasNotComeIsOurBug) {
  const test::ThrowingChecks checks;
  ReceiveWindow window{Psn{1}, WindowShape{.window = 8}, pool};
  EXPECT_THROW(window.advance_one(), test::CheckFailed);
  EXPECT_THROW((ReceiveWindow{Psn{1}, WindowShape{.window = 0}, pool}), test::CheckFailed);
  EXPECT_THROW((ReceiveWindow{Psn{1}, WindowShape{.window = kWindowMax + 1}, pool}), test::CheckFailed);
}

}  // namespace
}  // namespace brdma::bitmap
