// tests design BR-2, BR-3. The receive window against a std::set of 64-bit sequence numbers.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <set>
#include <vector>

#include "base/bytes.h"
#include "bitmap/receive_window.h"
#include "support/seeds.h"

namespace brdma::bitmap {
namespace {

SegmentPool pool;

// The same window, the slow and obvious way: sequence numbers without wrap-around, one element for each received
// packet.
class Model {
 public:
  Model(std::uint64_t base, const WindowShape& shape)
      : base_(static_cast<std::int64_t>(base)), anchor_(base_), window_(shape.window), step_(shape.slide_step) {}

  Arrival receive(std::int64_t seq) {
    if (seq < base_) return Arrival::kBeforeBase;
    if (seq >= base_ - (base_ - anchor_) % step_ + window_) return Arrival::kBeyondWindow;
    return got_.insert(seq).second ? Arrival::kNew : Arrival::kDuplicate;
  }
  std::uint32_t receive_run(std::int64_t first, std::uint32_t count) {
    std::uint32_t fresh = 0;
    for (std::int64_t seq = first; seq < first + count; ++seq) fresh += receive(seq) == Arrival::kNew ? 1 : 0;
    return fresh;
  }
  std::uint32_t advance() {
    std::uint32_t steps = 0;
    for (; got_.contains(base_); ++steps) got_.erase(base_++);
    if (got_.empty()) anchor_ = base_;
    return steps;
  }
  void advance_over(std::uint32_t count) {
    base_ += count;
    got_.erase(got_.begin(), got_.lower_bound(base_));
    if (got_.empty()) anchor_ = base_;
  }
  void forget(std::int64_t seq) { got_.erase(seq); }
  [[nodiscard]] bool has(std::int64_t seq) const { return got_.contains(seq); }
  [[nodiscard]] std::int64_t highest() const { return got_.empty() ? base_ - 1 : *got_.rbegin(); }
  [[nodiscard]] std::int64_t base() const { return base_; }
  [[nodiscard]] std::vector<std::pair<std::int64_t, std::uint32_t>> holes() const {
    std::vector<std::pair<std::int64_t, std::uint32_t>> holes;
    std::int64_t expected = base_;
    for (const std::int64_t seq : got_) {
      if (seq > expected) holes.emplace_back(expected, static_cast<std::uint32_t>(seq - expected));
      expected = seq + 1;
    }
    return holes;
  }

 private:
  std::int64_t base_, anchor_;
  std::int64_t window_, step_;
  std::set<std::int64_t> got_;
};

Psn psn_of(std::int64_t seq) { return Psn{static_cast<std::uint32_t>(seq)}; }

void expect_same(const ReceiveWindow& window, const Model& model, Random& random) {
  ASSERT_EQ(window.base(), psn_of(model.base()));
  ASSERT_EQ(window.highest(), psn_of(model.highest()));
  ASSERT_EQ(window.empty(), model.highest() < model.base());
  const std::int64_t probe = model.base() + static_cast<std::int64_t>(random.below(window.window() + 200)) - 100;
  ASSERT_EQ(window.has(psn_of(probe)), model.has(probe)) << probe;
}

void expect_same_holes(const ReceiveWindow& window, const Model& model) {
  Psn from = window.base() - 5;  // before the base: taken as the base
  for (const auto& [start, length] : model.holes()) {
    const auto hole = window.next_hole(from);
    ASSERT_EQ(hole.start, psn_of(start));
    ASSERT_EQ(hole.length, length);
    from = hole.start + hole.length;
  }
  ASSERT_EQ(window.next_hole(from).length, 0u);
}

void expect_same_bits(const ReceiveWindow& window, const Model& model, Random& random) {
  const auto count = static_cast<std::uint32_t>(random.below(window.window() + 70));
  std::vector<std::byte> bytes((count + 31) / 32 * 4 + 1, std::byte{0xEE});
  window.export_bits(count, bytes.data());
  for (std::uint32_t i = 0; i < (count + 31) / 32 * 32; ++i) {
    const bool bit = (load_u8(&bytes[i / 8]) >> (7 - i % 8) & 1) != 0;
    ASSERT_EQ(bit, i < count && model.has(model.base() + i)) << "bit " << i << " of " << count;
  }
  ASSERT_EQ(bytes.back(), std::byte{0xEE});
}

WindowShape random_shape(Random& random, std::uint32_t window) {
  const auto power = [&random](unsigned from, unsigned to) { return 1u << (from + random.below(to - from + 1)); };
  return {.window = window,
          .base = power(6, 9),
          .extension = power(6, 11),
          .segment = power(6, 10),
          .granularity = power(0, 4),
          .slide_step = std::min(power(0, 6), std::bit_floor(window))};
}

// Memory follows the waiting packets: none if nothing waits, else the segments between base and highest PSN.
void expect_bounded(const ReceiveWindow& window, const Model& model) {
  const WindowUse use = window.use();
  const auto span = static_cast<std::uint32_t>(model.highest() + 1 - model.base());
  if (span == 0) {
    ASSERT_LE(use.bytes, 64u + 16 * 16);
    ASSERT_EQ(use.segments, 0u);
  }
  ASSERT_LE(use.segments, (span + 64) / 64 + 2);
  if (!use.segmented) {
    ASSERT_LE(use.bytes, 128u + 16 * 2 * kPartialRunsMax);
  }
}

TEST(ReceiveWindowProperty, EqualsASet) {
  test::for_each_seed(300, [](Random& random) {
    const auto window_packets = static_cast<std::uint32_t>(1 + random.below(random.below(2) != 0 ? 90 : 5000));
    const std::uint64_t start = random.below(3) == 0 ? random.below(1 << 24) : (1 << 24) - random.below(300);
    const WindowShape shape = random_shape(random, window_packets);
    SCOPED_TRACE("window " + std::to_string(shape.window) + " base " + std::to_string(shape.base) + " extension " +
                 std::to_string(shape.extension) + " segment " + std::to_string(shape.segment) + " granularity " +
                 std::to_string(shape.granularity) + " slide step " + std::to_string(shape.slide_step));
    ReceiveWindow window{psn_of(static_cast<std::int64_t>(start)), shape, pool};
    Model model{start, shape};
    for (int step = 0; step < 400; ++step) {
      const std::int64_t near = model.base() + static_cast<std::int64_t>(random.below(window_packets / 2 + 8)) - 3;
      const auto count = static_cast<std::uint32_t>(random.below(random.below(10) == 0 ? 400 : 20));
      switch (random.below(10)) {
        default: {
          const std::int64_t seq = random.below(20) == 0 ? near + window_packets : near;
          const Arrival before = window.classify(psn_of(seq));
          const Arrival arrival = window.receive(psn_of(seq));
          ASSERT_EQ(before, arrival);
          ASSERT_EQ(arrival, model.receive(seq)) << "step " << step << " seq " << seq;
          break;
        }
        case 5:
          ASSERT_EQ(window.receive_run(psn_of(near), count), model.receive_run(near, count));
          break;
        case 6:
          ASSERT_EQ(window.advance(), model.advance());
          break;
        case 7:
          for (std::uint32_t i = 0; i < count && model.has(model.base()); ++i) {
            window.advance_one();
            model.advance_over(1);
          }
          break;
        case 8:
          window.advance_over(count);
          model.advance_over(count);
          break;
        case 4: {  // received packets are taken back, except the highest
          const std::int64_t seq = near;
          if (!model.has(seq) || seq == model.highest()) break;
          window.forget(psn_of(seq));
          model.forget(seq);
          break;
        }
        case 9: {  // alone, so that distant packets stay distant
          const std::int64_t far = model.base() + static_cast<std::int64_t>(random.below(window_packets));
          ASSERT_EQ(window.receive(psn_of(far)), model.receive(far));
          break;
        }
      }
      ASSERT_NO_FATAL_FAILURE(expect_bounded(window, model)) << "step " << step;
      ASSERT_NO_FATAL_FAILURE(expect_same(window, model, random)) << "step " << step;
      if (step % 8 == 0) {
        ASSERT_NO_FATAL_FAILURE(expect_same_holes(window, model)) << "step " << step;
        ASSERT_NO_FATAL_FAILURE(expect_same_bits(window, model, random)) << "step " << step;
      }
    }
  });
}

}  // namespace
}  // namespace brdma::bitmap
