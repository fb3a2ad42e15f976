// tests design BR-6 to BR-8, BR-26.
#include <gtest/gtest.h>

#include <functional>

#include "bitmap/send_window.h"
#include "support/checks.h"

namespace brdma::bitmap {
namespace {

SegmentPool pool;

using enum EntryState;

SendWindow with_entry_in(EntryState state) {
  SendWindow window{Psn{1003}, WindowShape{.window = 16}, pool};
  window.sent(0, Instant{});
  window.sent(0, Instant{});
  if (state == kSuspectedLost) window.suspect(Psn{1003});
  if (state == kRetransmitPending || state == kRetransmittedUnacked) window.request_retransmission(Psn{1003});
  if (state == kRetransmittedUnacked) window.retransmitted(Psn{1003}, 0, Instant{});
  if (state == kAcked) window.acknowledge(Psn{1003});
  EXPECT_EQ(window.entry(Psn{1003}).state, state);
  return window;
}

TEST(SendWindow, MovesOfAnEntryAreLegalOrRefused) {
  constexpr EntryState kIllegal{0xFF};  // a failed check
  struct Case {
    const char* name;
    std::function<void(SendWindow&)> move;
    EntryState to[5];  // from sent-unacked, suspected-lost, retransmit-pending, retransmitted-unacked, acked
  };
  const Case cases[] = {
      {"request",
       [](SendWindow& w) { w.request_retransmission(Psn{1003}); },
       {kRetransmitPending, kRetransmitPending, kRetransmitPending, kRetransmitPending, kAcked}},
      {"suspect",
       [](SendWindow& w) { w.suspect(Psn{1003}); },
       {kSuspectedLost, kIllegal, kIllegal, kIllegal, kIllegal}},
      {"retransmitted",
       [](SendWindow& w) { w.retransmitted(Psn{1003}, 0, Instant{}); },
       {kIllegal, kIllegal, kRetransmittedUnacked, kIllegal, kIllegal}},
      {"acknowledge", [](SendWindow& w) { w.acknowledge(Psn{1003}); }, {kAcked, kAcked, kAcked, kAcked, kAcked}},
  };
  const test::ThrowingChecks checks;
  for (const Case& c : cases) {
    for (const EntryState from : {kSentUnacked, kSuspectedLost, kRetransmitPending, kRetransmittedUnacked, kAcked}) {
      SCOPED_TRACE(std::string{c.name} + " from " + std::to_string(static_cast<int>(from)));
      SendWindow window = with_entry_in(from);
      const EntryState to = c.to[static_cast<int>(from)];
      if (to == kIllegal) {
        EXPECT_THROW(c.move(window), test::CheckFailed);
        EXPECT_EQ(window.entry(Psn{1003}).state, from);
      } else {
        c.move(window);
        EXPECT_EQ(window.entry(Psn{1003}).state, to);
        EXPECT_EQ(window.pending(), to == kRetransmitPending ? 1u : 0u);
        EXPECT_EQ(window.unacked(), to == kAcked ? 1u : 2u);
      }
    }
  }
}

TEST(SendWindow, ReachesOnlyWhatWasSent) {
  const test::ThrowingChecks checks;
  SendWindow window{Psn{0xFFFFFF}, WindowShape{.window = 2}, pool};
  EXPECT_THROW((void)window.entry(Psn{0xFFFFFF}), test::CheckFailed);
  window.sent(0, Instant{});
  window.sent(1, Instant{});
  EXPECT_TRUE(window.contains(Psn{0}));
  EXPECT_FALSE(window.contains(Psn{1}));
  EXPECT_FALSE(window.contains(Psn{0xFFFFFE}));
  EXPECT_EQ(window.room(), 0u);
  EXPECT_THROW(window.sent(0, Instant{}), test::CheckFailed) << "beyond the window";
  EXPECT_THROW(window.acknowledge(Psn{1}), test::CheckFailed);
  EXPECT_TRUE(window.acknowledge(Psn{0xFFFFFF}));
  EXPECT_TRUE(window.acknowledge(Psn{0}));
  EXPECT_EQ(window.base(), Psn{0xFFFFFF}) << "until advance()";
  EXPECT_EQ(window.advance(), 2u);
  EXPECT_EQ(window.base(), Psn{1});
}

// As acknowledge() and advance() would.
TEST(SendWindow, PassesTheFirst) {
  SendWindow window{Psn{0xFFFFFF}, WindowShape{.window = 4}, pool};
  const test::ThrowingChecks checks;
  EXPECT_THROW(window.pass_first(), test::CheckFailed) << "nothing was sent";
  window.sent_run(3, 0, Instant{});
  window.pass_first();
  EXPECT_EQ(window.base(), Psn{0});
  EXPECT_EQ(window.in_window(), 2u);
  EXPECT_EQ(window.unacked(), 2u);
  EXPECT_EQ(window.room(), 2u);
  window.acknowledge(Psn{0});
  EXPECT_THROW(window.pass_first(), test::CheckFailed) << "it is acknowledged";
  EXPECT_EQ(window.advance(), 1u);
  window.request_retransmission(Psn{1});
  EXPECT_THROW(window.pass_first(), test::CheckFailed) << "it is to be sent again";
  window.retransmitted(Psn{1}, 0, Instant{});
  EXPECT_THROW(window.pass_first(), test::CheckFailed) << "it was sent twice";
  window.acknowledge(Psn{1});
  EXPECT_EQ(window.advance(), 1u);
  window.sent(0, Instant{});
  window.pass_first();
  EXPECT_EQ(window.in_window(), 0u);
  EXPECT_EQ(window.unacked(), 0u);
  EXPECT_EQ(window.base(), window.next());
}

// As acknowledge_run() and advance() would.
TEST(SendWindow, PassesAll) {
  SendWindow window{Psn{0xFFFFFE}, WindowShape{.window = 8, .slide_step = 4}, pool};
  const test::ThrowingChecks checks;
  window.sent_run(3, 0, Instant{});
  window.note_reported(Psn{0xFFFFFF});
  window.pass_all();
  EXPECT_EQ(window.base(), Psn{1});
  EXPECT_EQ(window.base(), window.next());
  EXPECT_EQ(window.in_window(), 0u);
  EXPECT_EQ(window.unacked(), 0u);
  EXPECT_EQ(window.room(), 8u) << "nothing is held behind the base";
  EXPECT_EQ(window.use().bytes, 0u) << "nor in memory";
  window.sent(0, Instant{});
  EXPECT_EQ(window.reported(Psn{1}), 0u);
  EXPECT_EQ(window.entry(Psn{1}).state, EntryState::kSentUnacked);
  window.sent(0, Instant{});
  window.acknowledge(Psn{2});
  EXPECT_THROW(window.pass_all(), test::CheckFailed) << "one of them is acknowledged";
  window.request_retransmission(Psn{1});
  EXPECT_THROW(window.pass_all(), test::CheckFailed) << "one of them is to be sent again";
}

// As sent(), in the base form and when segments remain of a longer load.
TEST(SendWindow, SendsOneAlone) {
  const WindowShape shape{.window = 1024, .base = 16, .extension = 64, .segment = 32};
  SendWindow window{Psn{0xFF'FFFE}, shape, pool}, other{Psn{0xFF'FFFE}, shape, pool};
  for (std::uint32_t i = 0; i < 40; ++i) {
    if (i == 20) {
      for (SendWindow* each : {&window, &other}) {
        each->sent_run(200, 0, Instant{});
        each->pass_all();
      }
    }
    const Instant now = Instant::from_ns(1'000'000 + i * 64);
    window.sent_single(3, now);
    other.sent(3, now);
    ASSERT_EQ(window.next(), other.next());
    EXPECT_EQ(window.unacked(), 1u);
    EXPECT_EQ(window.sent_at(window.base(), now), now);
    EXPECT_EQ(window.entry(window.base()).path, 3);
    EXPECT_EQ(window.entry(window.base()).transmissions, 1);
    EXPECT_EQ(window.entry(window.base()).state, kSentUnacked);
    EXPECT_EQ(window.allocated_bytes(), other.allocated_bytes());
    window.pass_all();
    other.pass_all();
  }
}

TEST(SendWindow, RemembersWhenAnEntryWasSentOverTheWrapOfItsClock) {
  SendWindow window{Psn{1}, WindowShape{.window = 4}, pool};
  const Instant at = Instant::from_ns((std::int64_t{1} << 38) - 100);  // 64 ns * 2^32 is 2^38 ns
  window.sent(0, at);
  const Instant seen = window.sent_at(Psn{1}, at + 3_s);
  EXPECT_LE(seen, at);
  EXPECT_GT(seen, at - 64_ns);
}

TEST(SendWindow, AnAckedEntryIsRepeatedAndStaysAcked) {
  SendWindow window = with_entry_in(kAcked);
  EXPECT_TRUE(window.request_repeat(Psn{1003}));
  EXPECT_FALSE(window.request_repeat(Psn{1003})) << "pending already";
  EXPECT_EQ(window.next_pending(Psn{1003}), Psn{1003});
  EXPECT_EQ(window.unacked(), 1u);
  window.retransmitted(Psn{1003}, 2, Instant{} + 1_ms);
  EXPECT_EQ(window.entry(Psn{1003}).state, kAcked);
  EXPECT_EQ(window.entry(Psn{1003}).transmissions, 2);
  EXPECT_EQ(window.pending(), 0u);
  EXPECT_EQ(window.unacked(), 1u);
}

TEST(SendWindow, ARepeatIsForgottenWhenTheBasePassesIt) {
  SendWindow window = with_entry_in(kAcked);
  window.request_repeat(Psn{1003});
  EXPECT_EQ(window.advance(), 1u);
  EXPECT_EQ(window.pending(), 0u);
  EXPECT_EQ(window.next_pending(Psn{1004}), window.next());
}

TEST(SendWindow, APacketThatWasNotKeptIsNoRepeat) {
  SendWindow window = with_entry_in(kAcked);
  window.request_repeat(Psn{1003});
  window.unacknowledge(Psn{1003});
  EXPECT_EQ(window.pending(), 0u);
  EXPECT_TRUE(window.request_retransmission(Psn{1003}));
  EXPECT_EQ(window.pending(), 1u);
}

TEST(SendWindow, FindsPendingEntriesAmongManySentLater) {
  SendWindow window{Psn{100}, WindowShape{.window = 1u << 16}, pool};
  window.sent_run(10, 0, Instant{});
  window.request_retransmission(Psn{109});
  window.sent_run(5000, 0, Instant{});  // far beyond the bitmap of pending entries
  EXPECT_EQ(window.next_pending(Psn{100}), Psn{109});
  EXPECT_EQ(window.next_pending(Psn{110}), window.next());
  EXPECT_EQ(window.next_pending(Psn{109 + 64}), window.next());
  window.request_retransmission(Psn{4000});
  EXPECT_EQ(window.next_pending(Psn{110}), Psn{4000});
  window.retransmitted(Psn{109}, 0, Instant{});
  EXPECT_EQ(window.next_pending(Psn{100}), Psn{4000});
  window.request_retransmission(Psn{101});
  EXPECT_EQ(window.next_pending(Psn{100}), Psn{101});
}

}  // namespace
}  // namespace brdma::bitmap
