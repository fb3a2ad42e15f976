// tests design BR-6. The send window against a std::map from sequence number to entry.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <map>

#include "bitmap/send_window.h"
#include "support/checks.h"
#include "support/seeds.h"

namespace brdma::bitmap {
namespace {

SegmentPool pool;

struct ModelEntry {
  EntryState state = EntryState::kSentUnacked;
  std::uint8_t path = 0;
  std::uint16_t transmissions = 1;
  Instant sent_at;
  bool reported = false;
  bool repeat = false;  // acked, and to leave once more
  [[nodiscard]] bool pending() const { return repeat || state == EntryState::kRetransmitPending; }
};

class SendWindowProperty : public testing::Test {
 protected:
  static Psn psn_of(std::int64_t seq) { return Psn{static_cast<std::uint32_t>(seq)}; }
  [[nodiscard]] std::int64_t next() const { return base_ + static_cast<std::int64_t>(model_.size()); }

  void expect_same(const SendWindow& window, Random& random) {
    ASSERT_EQ(window.base(), psn_of(base_));
    ASSERT_EQ(window.next(), psn_of(next()));
    std::uint32_t unacked = 0, pending = 0;
    for (const auto& [seq, entry] : model_) {
      unacked += entry.state != EntryState::kAcked ? 1 : 0;
      pending += entry.pending() ? 1 : 0;
    }
    ASSERT_EQ(window.unacked(), unacked);
    ASSERT_EQ(window.pending(), pending);
    const auto lag = static_cast<std::uint32_t>(base_ - anchor_) % shape_.slide_step;
    ASSERT_EQ(window.in_window() + window.room(), packets_ - lag);
    const std::int64_t from = base_ + static_cast<std::int64_t>(random.below(model_.size() + 1));
    auto found = model_.lower_bound(from);
    while (found != model_.end() && !found->second.pending()) ++found;
    ASSERT_EQ(window.next_pending(psn_of(from)), psn_of(found == model_.end() ? next() : found->first));
    const auto reported = [this](std::int64_t seq) { return model_.contains(seq) && model_.at(seq).reported; };
    for (std::int64_t i = 0; i < 64; ++i)
      ASSERT_EQ(window.reported(psn_of(from)) >> i & 1, reported(from + i) ? 1u : 0u) << from << " + " << i;
    const auto count = static_cast<std::uint32_t>(next() - from);
    std::int64_t unreported = from;
    while (unreported < next() && reported(unreported)) ++unreported;
    ASSERT_EQ(window.find_unreported(psn_of(from), count), static_cast<std::uint32_t>(unreported - from));
    for (const auto& [seq, entry] : model_) {
      const SendEntry& real = window.entry(psn_of(seq));
      ASSERT_EQ(real.state, entry.state) << seq;
      ASSERT_EQ(real.path, entry.path);
      ASSERT_EQ(real.transmissions, entry.transmissions);
      const Duration early = entry.sent_at - window.sent_at(psn_of(seq), now_);
      ASSERT_GE(early, 0_ns);
      ASSERT_LT(early, 64_ns);
    }
  }

  void act(SendWindow& window, Random& random) {
    const std::int64_t seq = base_ + static_cast<std::int64_t>(random.below(model_.size() + 1));
    const auto path = static_cast<std::uint8_t>(random.below(4));
    const auto at = model_.find(seq);
    switch (random.below(11)) {
      case 0:
      case 1: {
        const auto count = static_cast<std::uint32_t>(random.below(std::min(window.room(), 40u) + 1));
        window.sent_run(count, path, now_);
        for (std::uint32_t i = 0; i < count; ++i) {
          const std::int64_t fresh = next();
          model_[fresh] = {EntryState::kSentUnacked, path, 1, now_, false};
        }
        break;
      }
      case 2:
      case 3: {
        if (at == model_.end()) break;
        if (at->second.state == EntryState::kAcked && random.below(2) == 0) {
          ASSERT_EQ(window.request_repeat(psn_of(seq)), !at->second.repeat);
          at->second.repeat = true;
          break;
        }
        const bool moves = at->second.state != EntryState::kAcked && at->second.state != EntryState::kRetransmitPending;
        ASSERT_EQ(window.request_retransmission(psn_of(seq)), moves);
        if (moves) at->second.state = EntryState::kRetransmitPending;
        break;
      }
      case 4: {  // resend pending packets from there on
        Psn psn = window.next_pending(psn_of(seq));
        for (int i = 0; i < 4 && psn != window.next(); ++i, psn = window.next_pending(psn)) {
          window.retransmitted(psn, path, now_);
          ModelEntry& entry = model_.at(base_ + distance(psn, psn_of(base_)));
          ASSERT_TRUE(entry.pending());
          entry = {entry.repeat ? EntryState::kAcked : EntryState::kRetransmittedUnacked, path,
                   static_cast<std::uint16_t>(entry.transmissions + 1), now_, entry.reported};
        }
        break;
      }
      case 5:
        if (at == model_.end() || at->second.state != EntryState::kSentUnacked) break;
        window.suspect(psn_of(seq));
        at->second.state = EntryState::kSuspectedLost;
        break;
      case 6:
        if (at == model_.end()) break;
        ASSERT_EQ(window.acknowledge(psn_of(seq)), at->second.state != EntryState::kAcked);
        at->second.state = EntryState::kAcked;
        break;
      case 7: {
        if (window.pending() > 0) break;
        std::uint32_t count = 0;
        for (auto it = at; it != model_.end() && it->second.state != EntryState::kAcked; ++it, ++count)
          it->second.state = EntryState::kAcked;
        window.acknowledge_run(psn_of(seq), count);
        break;
      }
      case 8: {
        std::uint32_t dropped = 0;
        while (!model_.empty() && model_.begin()->second.state == EntryState::kAcked) {
          model_.erase(model_.begin());
          ++dropped;
        }
        base_ += dropped;
        if (model_.empty()) anchor_ = base_;
        ASSERT_EQ(window.advance(), dropped);
        break;
      }
      case 9:
        if (at == model_.end()) break;
        window.note_reported(psn_of(seq));
        at->second.reported = true;
        break;
      case 10:
        if (at == model_.end()) break;
        if (at->second.state == EntryState::kAcked && random.below(2) == 0) {
          window.unacknowledge(psn_of(seq));
          at->second.state = EntryState::kSuspectedLost;
          at->second.repeat = false;
        } else {
          window.forget_reported(psn_of(seq));
        }
        at->second.reported = false;
        break;
    }
  }

  std::uint32_t packets_ = 0;
  std::int64_t base_ = 0, anchor_ = 0;
  WindowShape shape_;
  Instant now_;
  std::map<std::int64_t, ModelEntry> model_;
};

WindowShape random_shape(Random& random, std::uint32_t window) {
  const auto power = [&random](unsigned from, unsigned to) { return 1u << (from + random.below(to - from + 1)); };
  return {.window = window,
          .base = power(6, 9),
          .extension = power(6, 11),
          .segment = power(6, 10),
          .granularity = power(0, 4),  // of no effect here
          .slide_step = std::min(power(0, 6), std::bit_floor(window))};
}

TEST_F(SendWindowProperty, EqualsAMap) {
  test::for_each_seed(200, [this](Random& random) {
    packets_ = static_cast<std::uint32_t>(1 + random.below(random.below(2) != 0 ? 60 : 2000));
    base_ = static_cast<std::int64_t>((1 << 24) - random.below(500));
    now_ = Instant::from_ns(static_cast<std::int64_t>(random.below(1'000'000'000'000)));
    model_.clear();
    anchor_ = base_;
    shape_ = random_shape(random, packets_);
    SendWindow window{psn_of(base_), shape_, pool};
    for (int step = 0; step < 300; ++step) {
      now_ = now_ + Duration::from_ns(static_cast<std::int64_t>(random.below(100'000)));
      ASSERT_NO_FATAL_FAILURE(act(window, random)) << "step " << step;
      ASSERT_NO_FATAL_FAILURE(expect_same(window, random)) << "step " << step;
    }
    if (model_.empty()) {
      EXPECT_LE(window.use().bytes, 192u) << "at most three short directories stay";
    }
    window.reset(Psn{7});
    EXPECT_EQ(window.use().bytes, 0u);
    EXPECT_EQ(window.base(), Psn{7});
    EXPECT_EQ(window.next_pending(Psn{7}), Psn{7});
    EXPECT_EQ(window.room(), packets_);
  });
}

}  // namespace
}  // namespace brdma::bitmap
