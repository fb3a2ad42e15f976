// qp/loss/scoreboard.h against a std::map from sequence to packet: what is counted in flight, and the order
// base <= cumulative <= next, at each step.
#include <gtest/gtest.h>

#include <map>
#include <utility>

#include "qp/loss/scoreboard.h"
#include "support/seeds.h"

namespace brdma::qp {
namespace {

using bitmap::EntryState;

bitmap::SegmentPool pool;

struct ModelPacket {
  EntryState state = EntryState::kSentUnacked;
  std::uint32_t payload = 0;
  bool response = false;
  bool in_pipe = true;  // of a data packet: not judged lost
  bool reported = false;
  bool repeat = false;  // acknowledged, and leaves once more
  [[nodiscard]] bool pending() const { return repeat || state == EntryState::kRetransmitPending; }
};

class ScoreboardProperty : public testing::Test {
 protected:
  using Model = std::map<Sequence, ModelPacket>;

  void SetUp() override { now_ = Instant{} + 1_s; }
  [[nodiscard]] Sequence next() const { return base_ + model_.size(); }

  [[nodiscard]] Flight flight() const {
    Flight flight{.packets = requests_};
    for (const auto& [sequence, packet] : model_) {
      if (packet.response || packet.state == EntryState::kAcked) continue;
      ++flight.packets;
      flight.bytes += packet.payload;
      flight.pipe += packet.in_pipe ? packet.payload : 0;
    }
    return flight;
  }

  [[nodiscard]] Sequence first_unreported(Sequence from, Sequence to) const {
    for (from = std::max(from, base_); from < to && model_.at(from).reported; ++from) {
    }
    return std::max(from, from < to ? from : to);
  }

  void expect_same(const Scoreboard& board, Random& random) {
    ASSERT_EQ(board.base(), base_);
    ASSERT_EQ(board.cumulative(), cumulative_);
    ASSERT_EQ(board.next(), next());
    ASSERT_EQ(board.arrived_end(), arrived_end_);
    ASSERT_EQ(board.empty(), model_.empty());
    ASSERT_EQ(board.base_psn(), first_ + static_cast<std::uint32_t>(base_ & Psn::kMask));
    ASSERT_EQ(board.next_psn(), board.psn_of(next()));
    ASSERT_EQ(board.flight(), flight());
    ASSERT_EQ(board.base_moved(), base_moved_);
    ASSERT_EQ(board.cumulative_moved(), cumulative_moved_);
    std::uint32_t retransmitted = 0, pending = 0;
    bool all_unacked = true;
    for (const auto& [sequence, packet] : model_) {
      ASSERT_EQ(board.state(sequence), packet.state) << sequence;
      retransmitted += packet.state == EntryState::kRetransmittedUnacked ? 1 : 0;
      pending += packet.pending() ? 1 : 0;
      all_unacked = all_unacked && packet.state != EntryState::kAcked;
    }
    ASSERT_EQ(board.retransmitted(), retransmitted);
    ASSERT_EQ(board.pending(), pending);
    ASSERT_EQ(board.has_holes(), arrived_end_ > cumulative_);
    ASSERT_EQ(board.is_in_order(),
              base_ == cumulative_ && arrived_end_ <= cumulative_ && all_unacked && retransmitted == 0 && pending == 0);
    const Sequence from = base_ + random.below(model_.size() + 1);
    auto found = model_.lower_bound(from);
    while (found != model_.end() && !found->second.pending()) ++found;
    ASSERT_EQ(board.next_pending(from), found == model_.end() ? next() : found->first);
    const Sequence to = from + random.below(next() - from + 1);
    ASSERT_EQ(board.first_unreported(from, to), first_unreported(from, to));
    if (!model_.empty()) {
      const Sequence any = base_ + random.below(model_.size());
      ASSERT_EQ(board.sequence_of(board.psn_of(any)), any);
    }
    ASSERT_EQ(board.sequence_of(board.base_psn() - 1), std::nullopt);
    ASSERT_EQ(board.sequence_of(board.next_psn()), std::nullopt);
  }

  void add(const ModelPacket& packet) {
    if (model_.empty()) cumulative_moved_ = now_;
    model_.emplace(next(), packet);
  }

  void send(Scoreboard& board, Random& random) {
    const auto payload = static_cast<std::uint32_t>(random.below(5000));
    if (board.room() == 0) return;
    const std::uint64_t kind = random.below(4);
    if (kind == 0) {
      board.sent(payload, 0, now_);
      return add({.payload = payload});
    }
    if (kind == 1 && board.empty()) {
      board.sent_single(payload, 0, now_);
      return add({.payload = payload});
    }
    const auto count = static_cast<std::uint32_t>(1 + random.below(std::min(board.room(), 20u)));
    if (kind == 2) {
      board.sent_run(count, std::uint64_t{count} * payload, 0, now_);
      for (std::uint32_t i = 0; i < count; ++i) add({.payload = payload});
    } else {
      board.sent_request(count, 0, now_);
      for (std::uint32_t i = 0; i < count; ++i) add({.response = true});
      ++requests_;
    }
  }

  void acknowledge(Scoreboard& board, Sequence sequence) {
    ModelPacket& packet = model_.at(sequence);
    const bool fresh = packet.state != EntryState::kAcked;
    ASSERT_EQ(packet.response ? board.acknowledge_response(sequence) : board.acknowledge(sequence, packet.payload),
              fresh);
    packet.state = EntryState::kAcked;
  }

  void move_cumulative(Scoreboard& board, Sequence boundary) {
    const bool all_data = std::ranges::none_of(model_, [](const auto& entry) { return entry.second.response; });
    if (board.is_in_order() && all_data && boundary > cumulative_) {
      std::uint64_t bytes = 0;
      for (Sequence at = cumulative_; at < boundary; ++at) bytes += model_.at(at).payload;
      if (boundary == next()) {
        board.pass_all(now_);
        model_.clear();
        base_ = cumulative_ = boundary;
        base_moved_ = cumulative_moved_ = now_;
        return;
      }
      board.acknowledge_run(cumulative_, boundary, bytes);
      for (Sequence at = cumulative_; at < boundary; ++at) model_.at(at).state = EntryState::kAcked;
    } else {
      for (Sequence at = cumulative_; at < boundary; ++at) {
        if (!model_.at(at).response) acknowledge(board, at);
      }
    }
    board.set_cumulative(boundary, now_);
    cumulative_ = boundary;
    cumulative_moved_ = now_;
  }

  void advance(Scoreboard& board) {
    std::uint32_t passed = 0;
    while (base_ < cumulative_ && model_.begin()->second.state == EntryState::kAcked) {
      model_.erase(model_.begin());
      ++base_;
      ++passed;
    }
    if (passed > 0) base_moved_ = now_;
    ASSERT_EQ(board.advance(now_), passed);
  }

  void lose(Scoreboard& board, Sequence sequence, Random& random) {
    ModelPacket& packet = model_.at(sequence);
    if (packet.state == EntryState::kAcked && random.below(4) == 0) {
      ASSERT_EQ(board.request_repeat(sequence), !packet.repeat);
      packet.repeat = true;
      return;
    }
    if (random.below(4) == 0) {
      if (packet.state != EntryState::kSentUnacked) return;
      board.suspect(sequence);
      packet.state = EntryState::kSuspectedLost;
      return;
    }
    const bool moves = packet.state != EntryState::kAcked && packet.state != EntryState::kRetransmitPending;
    ASSERT_EQ(board.request_retransmission(sequence, packet.payload), moves);
    if (!moves) return;
    packet.state = EntryState::kRetransmitPending;
    packet.in_pipe = false;
  }

  void resend(Scoreboard& board, Sequence from) {
    Sequence at = board.next_pending(from);
    for (int i = 0; i < 4 && at != board.next(); ++i, at = board.next_pending(at)) {
      ModelPacket& packet = model_.at(at);
      board.left_again(at, packet.payload, 1, now_);
      if (std::exchange(packet.repeat, false)) continue;
      packet.state = EntryState::kRetransmittedUnacked;
      packet.in_pipe = true;
    }
  }

  // Beyond cumulative: a packet that the peer reported may be taken back.
  void report(Scoreboard& board, Sequence sequence, Random& random) {
    ModelPacket& packet = model_.at(sequence);
    if (sequence < cumulative_) return;
    if (packet.state == EntryState::kAcked && random.below(2) == 0) {
      if (packet.response) {
        board.reopen_response(sequence);
      } else {
        board.reopen(sequence, packet.payload);
      }
      packet.state = EntryState::kSuspectedLost;
      packet.in_pipe = true;
      packet.reported = packet.repeat = false;
    } else if (random.below(4) == 0) {
      board.forget_reported(sequence);
      packet.reported = false;
    } else {
      board.note_reported(sequence);
      packet.reported = true;
      board.note_arrived(sequence + 1);
      arrived_end_ = std::max(arrived_end_, sequence + 1);
    }
  }

  void pass_response(Scoreboard& board) {
    const auto& first = model_.begin()->second;
    if (!first.response || first.state != EntryState::kSentUnacked || base_ >= cumulative_) return;
    board.pass_response(now_);
    model_.erase(model_.begin());
    ++base_;
    base_moved_ = now_;
  }

  void act(Scoreboard& board, Random& random) {
    if (model_.empty() || random.below(4) == 0) return send(board, random);
    const Sequence sequence = base_ + random.below(model_.size());
    switch (random.below(9)) {
      case 0:
        return move_cumulative(board, std::max(cumulative_, sequence + random.below(2)));
      case 1:
        return advance(board);
      case 2:
      case 3:
        return lose(board, sequence, random);
      case 4:
        return resend(board, sequence);
      case 5:
        return acknowledge(board, sequence);
      case 6:
        return report(board, sequence, random);
      case 7:
        if (requests_ > 0) {
          --requests_;
          board.request_arrived();
        }
        return pass_response(board);
      default:
        return restart(board, random);
    }
  }

  void restart(Scoreboard& board, Random& random) {
    switch (random.below(40)) {
      case 0:
        board.forget_flight();
        first_ = first_ + static_cast<std::uint32_t>(model_.size());
        break;
      case 1:
        first_ = Psn{static_cast<std::uint32_t>(random.below(Psn::kMask))};
        board.begin_from(first_);
        base_ = 0;
        break;
      case 2:
        cumulative_moved_ = now_;
        return board.restart_stall(now_);
      default:
        return;
    }
    model_.clear();
    cumulative_ = arrived_end_ = base_;
    requests_ = 0;
  }

  Psn first_;  // of sequence 0
  Sequence base_ = 0, cumulative_ = 0, arrived_end_ = 0;
  std::uint32_t requests_ = 0;  // in flight
  Instant now_, base_moved_, cumulative_moved_;
  Model model_;
};

TEST_F(ScoreboardProperty, EqualsAMap) {
  test::for_each_seed(300, [this](Random& random) {
    model_.clear();
    first_ = Psn{static_cast<std::uint32_t>((1 << 24) - random.below(300))};
    base_ = cumulative_ = arrived_end_ = 0;
    requests_ = 0;
    base_moved_ = cumulative_moved_ = Instant{};
    Scoreboard board{{.window = static_cast<std::uint32_t>(16 + random.below(500))}, pool};
    board.begin_from(first_);
    for (int step = 0; step < 300; ++step) {
      now_ = now_ + Duration::from_ns(static_cast<std::int64_t>(random.below(100'000)));
      ASSERT_NO_FATAL_FAILURE(act(board, random)) << "step " << step;
      ASSERT_NO_FATAL_FAILURE(expect_same(board, random)) << "step " << step;
    }
  });
}

// The counts of the two short ways are those of the long one.
TEST(Scoreboard, PassingAllIsAcknowledgingAndAdvancing) {
  Scoreboard one{{}, pool}, other{{}, pool};
  const Instant now = Instant{} + 1_s, later = now + 1_ms;
  for (Scoreboard* const board : {&one, &other}) {
    board->begin_from(Psn{0xFFFFFE});
    board->sent_run(3, 3000, 0, now);
    board->sent(500, 0, now);
  }
  EXPECT_EQ(one.flight(), (Flight{.packets = 4, .bytes = 3500, .pipe = 3500}));
  one.pass_all(later);
  for (Sequence at = 0; at < 4; ++at) EXPECT_TRUE(other.acknowledge(at, at < 3 ? 1000 : 500));
  other.set_cumulative(4, later);
  EXPECT_EQ(other.advance(later), 4U);
  for (const Scoreboard* const board : {&one, &other}) {
    EXPECT_EQ(board->flight(), Flight{});
    EXPECT_EQ(board->base(), 4U);
    EXPECT_EQ(board->cumulative(), 4U);
    EXPECT_EQ(board->next_psn(), Psn{2});
    EXPECT_EQ(board->base_moved(), later);
    EXPECT_EQ(board->cumulative_moved(), later);
  }
}

// A lost packet leaves the network, not the credit; its retransmission is in the network again.
TEST(Scoreboard, CountsPayloadInTheNetworkApartFromPayloadInFlight) {
  Scoreboard board{{}, pool};
  const Instant now = Instant{} + 1_s;
  board.sent_run(4, 4000, 0, now);
  board.sent_request(8, 0, now);
  EXPECT_EQ(board.flight(), (Flight{.packets = 5, .bytes = 4000, .pipe = 4000})) << "the request is one packet";
  ASSERT_TRUE(board.request_retransmission(1, 1000));
  EXPECT_FALSE(board.request_retransmission(1, 1000)) << "pending already";
  EXPECT_EQ(board.flight(), (Flight{.packets = 5, .bytes = 4000, .pipe = 3000}));
  EXPECT_EQ(board.next_pending(0), 1U);
  board.left_again(1, 1000, 0, now);
  EXPECT_EQ(board.flight(), (Flight{.packets = 5, .bytes = 4000, .pipe = 4000}));
  EXPECT_EQ(board.retransmitted(), 1U);
  ASSERT_TRUE(board.request_retransmission(1, 1000));
  ASSERT_TRUE(board.acknowledge(1, 1000)) << "the first transmission was late, not lost";
  EXPECT_EQ(board.flight(), (Flight{.packets = 4, .bytes = 3000, .pipe = 3000}));
  EXPECT_EQ(board.retransmitted(), 0U);
  board.request_arrived();
  EXPECT_EQ(board.flight().packets, 3U);
}

// What has arrived beyond the base is not executed: the receiver may drop it.
TEST(Scoreboard, AnArrivedPacketMayBeTakenBack) {
  Scoreboard board{{}, pool};
  const Instant now = Instant{} + 1_s;
  board.sent_run(3, 3000, 0, now);
  board.note_reported(2);
  board.note_arrived(3);
  ASSERT_TRUE(board.acknowledge(2, 1000));
  EXPECT_TRUE(board.has_holes());
  EXPECT_EQ(board.packets_behind_arrived(), 0U);
  EXPECT_EQ(board.first_unreported(0, 3), 0U);
  EXPECT_EQ(board.advance(now), 0U) << "nothing before it is executed";
  board.reopen(2, 1000);
  EXPECT_EQ(board.flight(), (Flight{.packets = 3, .bytes = 3000, .pipe = 3000}));
  EXPECT_EQ(board.state(2), EntryState::kSuspectedLost);
  EXPECT_EQ(board.reported(0), 0U);
}

}  // namespace
}  // namespace brdma::qp
