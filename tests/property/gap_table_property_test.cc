// tests design BR-9, BR-10. The gap table, driven as a responder drives it, against the holes of the receive window.
#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "bitmap/gap_table.h"
#include "support/seeds.h"

namespace brdma::bitmap {
namespace {

SegmentPool pool;

std::vector<ReceiveWindow::Hole> holes_of(const ReceiveWindow& window) {
  std::vector<ReceiveWindow::Hole> holes;
  for (auto hole = window.next_hole(window.base()); hole.length != 0;
       hole = window.next_hole(hole.start + hole.length)) {
    holes.push_back(hole);
  }
  return holes;
}

// Every record is a hole; complete tables have every hole, in order.
void expect_holes_recorded(const GapTable& gaps, const ReceiveWindow& window) {
  const auto holes = holes_of(window);
  std::map<std::uint32_t, std::uint32_t> by_start;
  for (const auto& hole : holes) by_start[hole.start.value()] = hole.length;
  for (std::size_t i = 0; i < gaps.size(); ++i) {
    ASSERT_TRUE(by_start.contains(gaps[i].start.value())) << "record " << i << " start " << gaps[i].start.value();
    ASSERT_EQ(by_start[gaps[i].start.value()], gaps[i].length);
    if (i > 0) {
      ASSERT_GT(distance(gaps[i].start, gaps[i - 1].start), 0);
    }
  }
  ASSERT_LE(gaps.size(), kGapsMax);
  std::size_t waiting = 0;
  while (waiting < gaps.size() && gaps[waiting].state != GapState::kWaiting) ++waiting;
  ASSERT_EQ(gaps.first_waiting(), waiting);
  if (!gaps.incomplete()) {
    ASSERT_EQ(gaps.size(), holes.size());
  }
}

TEST(GapTableProperty, RecordsExactlyTheHoles) {
  test::for_each_seed(40, [](Random& random) {
    const auto window_packets = static_cast<std::uint32_t>(16 + random.below(3000));
    const auto spread = 2 + random.below(window_packets);  // how far ahead packets come: few or very many gaps
    ReceiveWindow window{Psn{0xFFFF00u + static_cast<std::uint32_t>(random.below(512))},
                         WindowShape{.window = window_packets}, pool};
    GapTable gaps;
    Instant now;
    for (int step = 0; step < 1500; ++step) {
      now = now + 1_us;
      const Psn psn =
          random.below(8) == 0 ? window.base() : window.base() + static_cast<std::uint32_t>(random.below(spread));
      const Psn highest = window.highest();
      if (window.receive(psn) == Arrival::kNew) {
        if (distance(psn, highest) > 0) {
          const bool recorded = gaps.open(highest, psn, 0, now, now);
          ASSERT_TRUE(recorded || gaps.incomplete());
        } else {
          const bool was_complete = !gaps.incomplete();
          const auto filled = gaps.fill(psn);
          ASSERT_TRUE(filled.found || !was_complete);
        }
      }
      if (window.advance() > 0) gaps.drop_before(window.base());
      if (random.below(4) == 0) gaps.refill(window, now, now);
      for (std::size_t i = 0; i < gaps.size() && random.below(20) != 0; ++i) {
        if (random.below(3) != 0) gaps[i].state = GapState::kPromoted;
      }
      const Psn any = window.base() + static_cast<std::uint32_t>(random.below(spread));
      const GapRecord* const covering = gaps.covering(any);
      if (covering != nullptr || !gaps.incomplete()) {
        const bool missing = distance(any, window.highest()) < 0 && !window.has(any);
        ASSERT_EQ(covering != nullptr, missing);
      }
      ASSERT_NO_FATAL_FAILURE(expect_holes_recorded(gaps, window)) << "step " << step;
    }
    gaps.refill(window, now, now);
    ASSERT_EQ(gaps.size(), std::min(kGapsMax, holes_of(window).size()));
  });
}

// The property above must reach overflow, or it proves nothing about it.
TEST(GapTableProperty, ManyGapsOverflowAndAreFoundAgain) {
  ReceiveWindow window{Psn{10}, WindowShape{.window = 4096}, pool};
  GapTable gaps;
  for (std::uint32_t i = 0; i < 300; ++i) {
    const Psn psn = Psn{11 + 2 * i};
    const Psn highest = window.highest();
    window.receive(psn);
    EXPECT_EQ(gaps.open(highest, psn, 0, Instant{}, Instant{}), i < kGapsMax);
  }
  EXPECT_TRUE(gaps.incomplete());
  for (std::uint32_t i = 0; i < 100; ++i) {
    window.receive(Psn{10 + 2 * i});
    gaps.fill(Psn{10 + 2 * i});
  }
  EXPECT_EQ(gaps.size(), kGapsMax - 100);
  EXPECT_EQ(gaps.refill(window, Instant{} + 5_us, Instant{}), 300 - kGapsMax);
  EXPECT_FALSE(gaps.incomplete());
  EXPECT_EQ(gaps[gaps.size() - 1].start, Psn{10 + 2 * 299});
  EXPECT_EQ(gaps[gaps.size() - 1].first_seen, Instant{} + 5_us);
}

}  // namespace
}  // namespace brdma::bitmap
