// qp/send/admission.h: which limit holds a packet back, how long a run may be, and which packet asks for an
// acknowledgement.
#include <gtest/gtest.h>

#include "qp/send/admission.h"
#include "support/seeds.h"

namespace brdma::qp {
namespace {

constexpr std::uint32_t kMtu = 1024;

// A peer in bitmap mode with a window of 1000 packets and credit for 100 packets and 64 KiB; nothing in flight.
struct Sender {
  explicit Sender(RecoveryMode mode = RecoveryMode::kBitmap) {
    recovery.mode = mode;
    identity.recovery = &recovery;
    identity.attributes.path_mtu = PathMtu::k1024;
    identity.bitmap_agreed = true;
    identity.peer_window = 1000;
    identity.peer_credit = {.packets = 100, .bytes = 64 * 1024};
  }

  void send(std::uint32_t packets, std::uint32_t payload = kMtu) {
    scoreboard.sent_run(packets, std::uint64_t{packets} * payload, 0, now);
  }
  [[nodiscard]] SendLimits limits() const { return {environment, identity, scoreboard, congestion, admission}; }
  [[nodiscard]] Limit one(std::uint32_t payload = kMtu) const { return limits().limit(1, payload, false); }
  bool admits(std::uint32_t payload) {
    const Limit found = one(payload);
    if (admission.note(found)) ++stalls;
    return found == Limit::kNone;
  }

  EngineConfig config;
  RecoveryConfig recovery;
  memory::MemoryTable memory{SecretRandom{1, "keys"}};
  Statistics statistics;
  Environment environment{.config = config, .memory = memory, .telemetry = {.statistics = statistics}};
  Identity identity;
  Scoreboard scoreboard{{.window = 2000}, environment.pools.segments};
  congestion::DelayWindow congestion;  // 64 KiB at first
  Admission admission;
  int stalls = 0;
  Instant now = Instant{} + 1_s;
};

TEST(Admission, TheSmallestLimitHoldsBack) {
  Sender by_credit;
  by_credit.send(100, 10);
  EXPECT_EQ(by_credit.one(), Limit::kCredit) << "packets";

  Sender by_bytes;
  by_bytes.identity.peer_credit.bytes = 10'000;
  by_bytes.send(9);
  EXPECT_EQ(by_bytes.one(10'000 - 9 * kMtu), Limit::kNone);
  EXPECT_EQ(by_bytes.one(10'001 - 9 * kMtu), Limit::kCredit);

  Sender by_congestion;
  by_congestion.identity.peer_credit.bytes = 1'000'000;
  by_congestion.send(63);
  EXPECT_EQ(by_congestion.one(kMtu), Limit::kNone);
  EXPECT_EQ(by_congestion.one(kMtu + 1), Limit::kCongestion);
  EXPECT_EQ(by_congestion.limits().limit(1, 0, true), Limit::kNone) << "a READ request carries no bytes";

  Sender by_window;
  by_window.identity.peer_window = 20;
  by_window.send(20, 0);
  EXPECT_EQ(by_window.one(0), Limit::kWindow);
  by_window.identity.peer_window = 24;
  EXPECT_EQ(by_window.limits().limit(4, 0, true), Limit::kNone);
  EXPECT_EQ(by_window.limits().limit(5, 0, true), Limit::kWindow) << "a request occupies the PSNs of its responses";
}

// Its rate bounds parts of packets (sending_rate.h).
TEST(Admission, AWindowOfOneOfManyFlowsAdmitsWholePackets) {
  for (const bool crowded : {false, true}) {
    Sender sender;
    sender.congestion.on_acknowledgement(0, {100_us}, false, sender.now);
    sender.congestion.on_timeout();
    sender.congestion.on_timeout();
    for (int i = 0; i < 8; ++i) sender.congestion.on_acknowledgement(0, {1_ms}, false, sender.now);
    if (crowded) sender.congestion.on_loss(kMtu, kMtu, sender.now);
    ASSERT_EQ(sender.congestion.bytes(), 16 * 1024u);
    sender.send(15);
    sender.send(1, 1);
    EXPECT_EQ(sender.one(kMtu - 1), Limit::kNone);
    EXPECT_EQ(sender.one(kMtu), crowded ? Limit::kNone : Limit::kCongestion);
    EXPECT_EQ(sender.limits().congestion_admits(kMtu), crowded);
    sender.send(1);
    EXPECT_EQ(sender.one(kMtu), Limit::kCongestion);
  }
}

// The peer's window begins at the base of its acknowledgements, not where responses are missing.
TEST(Admission, ThePeersWindowBeginsAtWhatItHasExecuted) {
  Sender sender;
  sender.identity.peer_window = 4;
  sender.scoreboard.sent_request(4, 0, sender.now);
  EXPECT_EQ(sender.one(), Limit::kWindow);
  sender.scoreboard.set_cumulative(4, sender.now);
  EXPECT_EQ(sender.one(), Limit::kNone);
}

TEST(Admission, OnePacketMayLeaveWhateverItsSizeWhereNothingIsInFlight) {
  Sender sender;
  sender.identity.peer_credit = {.packets = 1, .bytes = 10};
  EXPECT_EQ(sender.one(4096), Limit::kNone);
  sender.send(1, 4096);
  EXPECT_EQ(sender.one(1), Limit::kCredit);
}

TEST(Admission, LostPacketsLeaveTheCongestionWindowAndNotTheCredit) {
  Sender sender;
  sender.identity.peer_credit.bytes = 1'000'000;
  sender.send(64);
  EXPECT_FALSE(sender.limits().congestion_admits(1));
  ASSERT_TRUE(sender.scoreboard.request_retransmission(0, kMtu));
  EXPECT_TRUE(sender.limits().congestion_admits(kMtu));
  EXPECT_FALSE(sender.limits().congestion_admits(kMtu + 1));
  sender.identity.peer_credit.bytes = 64 * kMtu;
  EXPECT_EQ(sender.one(1), Limit::kCredit);
}

// Of 64 packets the last has arrived: the 63 before it are mostly no longer in the network.
TEST(Admission, MissingPacketsBeforeAnArrivedOneCountAsAnEighthOfTheWindow) {
  Sender sender;
  sender.identity.peer_credit.bytes = 1'000'000;
  sender.send(64);
  sender.scoreboard.note_arrived(64);
  ASSERT_TRUE(sender.scoreboard.acknowledge(63, kMtu));
  EXPECT_EQ(sender.limits().allowance().bytes, 64 * 1024 * 7 / 8);
  sender.identity.sending_paths = 2;
  EXPECT_EQ(sender.limits().allowance().bytes, 1024) << "on several paths the rest may just be slower";
}

TEST(Admission, AStandardPeerHasAWindowInPackets) {
  Sender sender;
  sender.identity.bitmap_agreed = false;
  sender.identity.peer_credit = {};
  sender.recovery.standard_window_packets = 8;
  sender.send(7, 100'000);
  EXPECT_EQ(sender.one(100'000), Limit::kNone) << "and no other";
  sender.send(1);
  EXPECT_EQ(sender.one(0), Limit::kWindow);
  EXPECT_EQ(sender.stalls, 0);

  Sender baseline{RecoveryMode::kGoBackN};
  baseline.identity.bitmap_agreed = false;
  baseline.recovery.standard_window_packets = 64;
  EXPECT_EQ(baseline.limits().unstated_window(), 256U) << "as many bytes as 64 packets of 4096";
  baseline.send(64);
  EXPECT_EQ(baseline.one(1), Limit::kCongestion);
}

TEST(Admission, CreditStallsAreCountedOnce) {
  Sender sender;
  sender.identity.peer_credit.packets = 1;
  sender.send(1);
  EXPECT_FALSE(sender.admits(1));
  EXPECT_FALSE(sender.admits(1));
  EXPECT_EQ(sender.stalls, 1);
  EXPECT_FALSE(sender.admission.wants_probe(sender.scoreboard.flight())) << "an acknowledgement will bring credit";
  sender.admission.on_sent();
  EXPECT_FALSE(sender.admits(1));
  EXPECT_EQ(sender.stalls, 2);
}

TEST(Admission, WithoutCreditAndAnythingInFlightOnePacketProbes) {
  Sender sender;
  sender.identity.peer_credit = {};
  EXPECT_FALSE(sender.admits(kMtu));
  ASSERT_TRUE(sender.admission.wants_probe(sender.scoreboard.flight()));
  sender.admission.set_probe(sender.now + 5_ms);
  EXPECT_FALSE(sender.admission.wants_probe(sender.scoreboard.flight()));
  EXPECT_FALSE(sender.admission.is_quiet());
  EXPECT_FALSE(sender.admits(kMtu));
  sender.admission.on_probe_due(sender.now + 10_ms);
  EXPECT_EQ(sender.admission.probe_at(), sender.now + 10_ms);
  EXPECT_TRUE(sender.admits(kMtu));
  sender.send(1);
  sender.admission.on_sent();
  EXPECT_FALSE(sender.admits(kMtu)) << "one packet, not more";
  EXPECT_EQ(sender.admission.probe_at(), std::nullopt);
}

// What held a packet back makes the next sample one of a full window.
TEST(Admission, TheCongestionWindowIsKnownToBeFullUntilItTakesASample) {
  Sender sender;
  sender.identity.peer_credit.bytes = 1'000'000;
  sender.send(64);
  EXPECT_FALSE(sender.admission.congestion_limited());
  EXPECT_FALSE(sender.admits(1));
  EXPECT_TRUE(sender.admission.congestion_limited());
  sender.admission.on_round_trip();
  EXPECT_FALSE(sender.admission.congestion_limited());
  EXPECT_TRUE(sender.admission.is_quiet());
}

TEST(Admission, AcknowledgementsAreRequestedFourTimesAWindow) {
  Sender sender;
  sender.identity.peer_credit = {.packets = 1000, .bytes = 1'000'000};
  EXPECT_EQ(sender.limits().request_interval(), 16U) << "of 64 packets in 64 KiB";
  sender.identity.peer_credit.packets = 8;
  EXPECT_EQ(sender.limits().request_interval(), 2U);
  sender.identity.peer_credit.packets = 0;
  EXPECT_EQ(sender.limits().request_interval(), 1U);
}

TEST(Admission, ThePacketAtTheEndOfTheIntervalOrOfTheCreditAsks) {
  Sender sender;
  EXPECT_EQ(sender.limits().packets_until_request(16, 0), 16U);
  sender.admission.on_added(15, false);
  EXPECT_EQ(sender.limits().packets_until_request(16, 15), 1U);
  sender.admission.on_added(1, true);
  EXPECT_EQ(sender.limits().packets_until_request(16, 0), 16U);
  sender.send(95, 0);
  EXPECT_EQ(sender.limits().packets_until_request(16, 0), 5U) << "the last that the credit allows";
  EXPECT_EQ(sender.limits().packets_until_request(16, 4), 1U);
  EXPECT_EQ(sender.limits().packets_until_request(16, 9), 1U) << "never none";
}

TEST(Admission, BothFormsOfTheRequestRuleAgree) {
  test::for_each_seed(500, [](Random& random) {
    Sender sender;
    sender.identity.bitmap_agreed = random.below(4) != 0;
    sender.identity.peer_credit.packets = static_cast<std::uint32_t>(random.below(60));
    sender.send(static_cast<std::uint32_t>(random.below(60)), 0);
    sender.admission.on_added(static_cast<std::uint32_t>(random.below(20)), false);
    const auto interval = static_cast<std::uint32_t>(1 + random.below(20));
    const std::uint32_t expected = sender.limits().packets_until_request(interval, 0);
    for (std::uint32_t i = 1; i <= expected; ++i) {
      ASSERT_EQ(sender.limits().next_asks(interval, i - 1), i == expected) << i << " of " << expected;
      sender.admission.on_added(1, false);
    }
  });
}

// A run is admitted at once; each of its packets would have been admitted alone, and the next one not.
TEST(Admission, ARunIsAsLongAsItsPacketsAreAdmittedOneByOne) {
  test::for_each_seed(500, [](Random& random) {
    Sender sender;
    const auto some = [&random](std::uint64_t below) { return static_cast<std::uint32_t>(random.below(below)); };
    sender.identity.peer_credit = {.packets = some(120), .bytes = some(200'000)};
    sender.identity.peer_window = some(150);
    const std::uint32_t payload = 1 + some(kMtu);
    sender.send(some(100), payload);
    if (sender.scoreboard.empty()) return;  // the first packet has a rule of its own
    const RunSize run = sender.limits().run_allowance();
    const std::uint64_t packets = std::min(run.packets, run.bytes / payload);
    for (std::uint64_t i = 0; i < packets; ++i) {
      ASSERT_EQ(sender.one(payload), Limit::kNone) << i << " of " << packets;
      sender.send(1, payload);
    }
    ASSERT_NE(sender.one(payload), Limit::kNone) << packets;
  });
}

}  // namespace
}  // namespace brdma::qp
