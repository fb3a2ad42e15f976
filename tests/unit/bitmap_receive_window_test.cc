// tests spec 1: windows and mapping.
#include <gtest/gtest.h>

#include <array>

#include "base/bytes.h"
#include "bitmap/receive_window.h"
#include "support/checks.h"

namespace brdma::bitmap {
namespace {

TEST(ReceiveWindow, ClassifiesBothSidesOfEachLimit) {
  ReceiveWindow window{Psn{1000}, 16};
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
  ReceiveWindow window{Psn{0xFFFFFE}, 4096};
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
  ReceiveWindow window{Psn{77}, 256};
  for (std::uint32_t i = 256; i-- > 0;) EXPECT_EQ(window.receive(Psn{77 + i}), Arrival::kNew);
  EXPECT_EQ(window.receive(Psn{77 + 256}), Arrival::kBeyondWindow);
  EXPECT_EQ(window.advance(), 256u);
  EXPECT_EQ(window.receive(Psn{77 + 256 + 255}), Arrival::kNew);
}

TEST(ReceiveWindow, GrowsWithWhatIsOutOfOrderAndGivesItBack) {
  ReceiveWindow window{Psn{5}, 1u << 20};
  EXPECT_EQ(window.allocated_bytes(), 0u);
  for (std::uint32_t i = 0; i < 10'000; ++i) {
    window.receive(Psn{5 + i});
    window.advance();
  }
  EXPECT_EQ(window.allocated_bytes(), 0u) << "in order needs no ring";
  window.receive(window.base() + 4095);
  EXPECT_EQ(window.allocated_bytes(), 4096u / 8);
  window.shrink();
  EXPECT_EQ(window.allocated_bytes(), 4096u / 8) << "a bit is set";
  window.advance_over(4096);
  window.shrink();
  EXPECT_EQ(window.allocated_bytes(), 0u);
}

TEST(ReceiveWindow, AReadOccupiesARun) {
  ReceiveWindow window{Psn{100}, 32};
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
  ReceiveWindow window{Psn{1000}, 64};
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
  ReceiveWindow window{Psn{1}, 8};
  EXPECT_THROW(window.advance_one(), test::CheckFailed);
  EXPECT_THROW((ReceiveWindow{Psn{1}, 0}), test::CheckFailed);
  EXPECT_THROW((ReceiveWindow{Psn{1}, kWindowMax + 1}), test::CheckFailed);
}

}  // namespace
}  // namespace brdma::bitmap
