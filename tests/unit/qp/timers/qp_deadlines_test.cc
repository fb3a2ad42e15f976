// qp/timers/deadlines.h: when each timer is due, and what makes it none.
#include <gtest/gtest.h>

#include <memory>
#include <optional>

#include "qp/timers/deadlines.h"
#include "support/sender_parts.h"

namespace brdma::qp {
namespace {

using test::SenderParts;

constexpr Duration kAttribute = Duration::from_ns(std::int64_t{4096} << 14);  // 67 ms
constexpr Duration kRetries = kAttribute * 4 * 8;                             // 2.1 s
constexpr Duration kRto = 5_ms, kProbe = 2_ms;                                // before the first RTT sample

void retransmit(SenderParts& parts, Sequence sequence) {
  const SentPackets sent = parts.sent();
  EXPECT_TRUE(sent.retransmit(sequence, sent.message_of(sequence), Counter::kRetransmittedRequest, parts.now));
}
void refuse(SenderParts& parts) { EXPECT_TRUE(parts.rnr.on_nak(0, 7, false, parts.now + 10_ms)); }
void judge_by_sender(SenderParts& parts, RecoveryMode mode) {
  parts.recovery.mode = mode;
  parts.judge = std::make_unique<SenderJudge>(parts.recovery);
}
// The peer's host is asked, and reports its process as stopped.
void report_stopped(SenderParts& parts) {
  recovery::StoppedPeer& peer = made(parts.signals).stopped;
  const Instant since = parts.timers.progress();
  peer.query_falls_due(since);
  const std::uint64_t nonce = peer.asked(77, parts.now);
  EXPECT_EQ(peer.replied(nonce, since, parts.deadlines().stopped_limits(), parts.now),
            recovery::StoppedPeer::Verdict::kFirstTaken);
}
// A full window brings 100,000 bytes in a round trip of 100 us: 1 GB/s.
void measure(SenderParts& parts) {
  parts.congestion.on_acknowledgement(100'000, 100_us, true, parts.now - 100_us);
  parts.congestion.on_acknowledgement(100'000, 100_us, true, parts.now);
}
recovery::LinkInquiry& inquiry_of(SenderParts& parts) {
  std::unique_ptr<recovery::LinkInquiry>& inquiry = made(parts.signals).inquiry;
  if (!inquiry) inquiry = std::make_unique<recovery::LinkInquiry>();
  return *inquiry;
}
LossRecovery& loss_of(SenderParts& parts) {
  return parts.loss.begun(parts.environment.pools.loss_recovery, parts.recovery.window_packets);
}

TEST(Deadlines, WithNothingInFlightNoneIsDue) {
  const SenderParts parts;
  const Deadlines due = parts.deadlines();
  EXPECT_EQ(due.first(), std::nullopt);
  EXPECT_EQ(due.retransmission(), std::nullopt);
  EXPECT_EQ(due.probe(), std::nullopt);
  EXPECT_EQ(due.retry_limit(), std::nullopt);
  EXPECT_EQ(due.stopped_query(), std::nullopt);
  EXPECT_EQ(due.stall(), std::nullopt);
  EXPECT_EQ(due.bridge(), std::nullopt);
  EXPECT_EQ(due.inquiry(), std::nullopt);
  EXPECT_FALSE(due.is_plain());
}

// --- RTO, TLP ---

TEST(Deadlines, TheTimeoutCountsFromProgressAndTheProbeFromActivity) {
  SenderParts parts;
  const Instant sent = parts.now;
  parts.write(4);
  parts.pass(1_ms);
  parts.timers.on_activity(parts.now);
  EXPECT_EQ(parts.deadlines().retransmission(), sent + kRto);
  EXPECT_EQ(parts.deadlines().probe(), parts.now + kProbe);
  EXPECT_EQ(parts.deadlines().first(), parts.now + kProbe);
}

TEST(Deadlines, OneProbeASilence) {
  SenderParts parts;
  const Instant sent = parts.now;
  parts.write(4);
  parts.timers.on_probe(sent + kProbe);
  EXPECT_EQ(parts.deadlines().probe(), std::nullopt);
  EXPECT_EQ(parts.deadlines().first(), sent + kRto);
}

TEST(Deadlines, NoProbeWhileARetransmissionWaitsToLeave) {
  SenderParts parts;
  parts.write(4);
  retransmit(parts, 0);
  EXPECT_EQ(parts.deadlines().probe(), std::nullopt);
  parts.leaves_again(0);
  EXPECT_EQ(parts.deadlines().probe(), parts.now + kProbe);
}

TEST(Deadlines, IrnHasNoProbe) {
  SenderParts parts;
  judge_by_sender(parts, RecoveryMode::kSelective);
  parts.write(3);
  EXPECT_EQ(parts.deadlines().probe(), parts.now + kProbe) << "RACK has one";
  parts.judge->follow_irn({.low = 100_us, .high = 320_us});
  EXPECT_EQ(parts.deadlines().probe(), std::nullopt);
  EXPECT_EQ(parts.deadlines().retransmission(), parts.now + 100_us);
  EXPECT_EQ(parts.deadlines().first(), parts.now + 100_us);
}

// It does not acknowledge a duplicate; but any peer answers a READ again.
TEST(Deadlines, AStandardPeerIsProbedForResponsesAlone) {
  SenderParts parts;
  parts.identity.bitmap_agreed = false;
  parts.write(2);
  EXPECT_EQ(parts.deadlines().probe(), std::nullopt);
  parts.read(2);
  EXPECT_EQ(parts.deadlines().probe(), parts.now + kProbe);
  parts.recovery.mode = RecoveryMode::kGoBackN;
  EXPECT_EQ(parts.deadlines().probe(), std::nullopt) << "the baseline has timeouts alone";
}

TEST(Deadlines, TheTimeoutOfAStandardPeerIsTheAttribute) {
  SenderParts parts;
  parts.identity.bitmap_agreed = false;
  parts.write(4);
  EXPECT_EQ(parts.deadlines().retransmission(), parts.now + kAttribute);
  parts.identity.attributes.timeout = 0;
  EXPECT_EQ(parts.deadlines().retransmission(), std::nullopt) << "none is wanted";
  parts.identity.bitmap_agreed = true;
  EXPECT_EQ(parts.deadlines().retransmission(), parts.now + kRto) << "bitmap mode has one in any case";
}

// --- retry limit ---

TEST(Deadlines, TheRetryLimitCountsFromTheLastProgress) {
  SenderParts parts;
  const Instant sent = parts.now;
  parts.write(1);
  EXPECT_EQ(parts.deadlines().retry_limit(), sent + kRetries);
  parts.pass(kRto);
  parts.timers.on_timeout(parts.now);
  EXPECT_EQ(parts.deadlines().retry_limit(), sent + kRetries) << "a timeout is no progress";
  made(parts.signals);
  EXPECT_EQ(parts.deadlines().retry_limit(), sent + kRetries) << "no word of the peer's host";
  parts.timers.on_progress(parts.now);
  EXPECT_EQ(parts.deadlines().retry_limit(), parts.now + kRetries);
  parts.identity.attributes.timeout = 0;
  EXPECT_EQ(parts.deadlines().retry_limit(), std::nullopt);
}

// The attribute is so short here that all retries end before the RTO, which is a millisecond at least.
struct Impatient : SenderParts {
  Impatient() {
    identity.attributes.timeout = 1;
    recovery.stopped_peer_max = {};
  }
  static constexpr Duration kOnce = Duration::from_ns(8192 * 4);  // a retry
};

TEST(Deadlines, TheRetryLimitEndsNoSilenceWithoutARetransmission) {
  Impatient parts;
  const Instant sent = parts.now;
  parts.write(1);
  EXPECT_EQ(parts.deadlines().retry_limit(), sent + Impatient::kOnce * 8);
  EXPECT_FALSE(parts.deadlines().may_exceed_retry_limit());
  EXPECT_EQ(parts.deadlines().first(), sent + 1_ms) << "the RTO";
  parts.timers.on_timeout(sent + 100_us);
  EXPECT_TRUE(parts.deadlines().may_exceed_retry_limit());
  EXPECT_EQ(parts.deadlines().first(), sent + Impatient::kOnce * 8);
}

TEST(Deadlines, WithoutRetriesTheFirstTransmissionIsAll) {
  Impatient parts;
  parts.write(1);
  parts.identity.attributes.retry_count = 0;
  EXPECT_TRUE(parts.deadlines().may_exceed_retry_limit());
  EXPECT_EQ(parts.deadlines().first(), parts.now + Impatient::kOnce);
}

TEST(Deadlines, APeerIsAskedForOnlyAfterARetransmission) {
  Impatient parts;
  const Instant sent = parts.now;
  parts.recovery.stopped_peer_max = 1_s;
  parts.write(1);
  EXPECT_EQ(parts.deadlines().stopped_query(), sent + Impatient::kOnce * 2) << "a quarter of all retries";
  EXPECT_EQ(parts.deadlines().first(), sent + 1_ms) << "the RTO";
  parts.timers.on_timeout(sent + 10_us);
  EXPECT_EQ(parts.deadlines().first(), sent + Impatient::kOnce * 2);
}

// --- a stopped peer ---

TEST(Deadlines, QueriesBeginAfterAQuarterOfTheRetriesAndRepeatEachEighth) {
  SenderParts parts;
  const Instant sent = parts.now;
  parts.write(1);
  EXPECT_EQ(parts.deadlines().stopped_query(), sent + kRetries / 4);
  parts.pass(kRetries / 4);
  recovery::StoppedPeer& peer = made(parts.signals).stopped;
  EXPECT_EQ(parts.deadlines().stopped_query(), sent + kRetries / 4);
  peer.query_falls_due(parts.timers.progress());
  EXPECT_EQ(parts.deadlines().stopped_query(), std::nullopt) << "one waits to leave";
  (void)peer.asked(77, parts.now);
  EXPECT_EQ(parts.deadlines().stopped_query(), parts.now + kRetries / 8);
}

TEST(Deadlines, NoQueriesIfTheyAreOffOrNoRetryLimitIsSet) {
  SenderParts parts;
  parts.write(1);
  EXPECT_EQ(parts.deadlines().stopped_limits().retries, kRetries);
  EXPECT_EQ(parts.deadlines().stopped_limits().stopped_max, 3600_s);
  parts.identity.attributes.timeout = 0;
  EXPECT_EQ(parts.deadlines().stopped_query(), std::nullopt);
  parts.identity.attributes.timeout = 14;
  parts.recovery.stopped_peer_max = {};
  EXPECT_EQ(parts.deadlines().stopped_query(), std::nullopt);
}

TEST(Deadlines, AStoppedPeerIsWaitedForAndTriedSeldom) {
  SenderParts parts;
  const Instant sent = parts.now;
  parts.write(1);
  EXPECT_FALSE(parts.deadlines().peer_is_stopped()) << "nothing is known";
  made(parts.signals);
  EXPECT_FALSE(parts.deadlines().peer_is_stopped());
  parts.pass(kRetries / 4);
  report_stopped(parts);
  EXPECT_TRUE(parts.deadlines().peer_is_stopped());
  EXPECT_EQ(parts.deadlines().retransmission(), sent + 200_ms) << "in place of 5 ms";
  EXPECT_EQ(parts.deadlines().retry_limit(), parts.now + kRetries) << "counted from the reply";
  parts.timers.on_progress(parts.now);
  EXPECT_FALSE(parts.deadlines().peer_is_stopped()) << "it acknowledges again";
  EXPECT_EQ(parts.deadlines().retransmission(), parts.now + kRto);
}

TEST(Deadlines, ALongerTimeoutStaysAsItIsTowardsAStoppedPeer) {
  SenderParts parts;
  parts.identity.bitmap_agreed = false;
  parts.identity.attributes.timeout = 16;
  const Instant sent = parts.now;
  parts.write(1);
  report_stopped(parts);
  EXPECT_EQ(parts.deadlines().retransmission(), sent + kAttribute * 4) << "268 ms, not 200";
}

// --- RNR, state of the queue pair ---

TEST(Deadlines, DuringAnRnrWaitItsEndIsAllThatIsDue) {
  SenderParts parts;
  parts.write(4);
  parts.report(2);
  parts.timers.on_timeout(parts.now);
  inquiry_of(parts).asked(1, parts.now + 1_ms, parts.now);
  refuse(parts);
  const Deadlines due = parts.deadlines();
  EXPECT_EQ(due.retransmission(), std::nullopt);
  EXPECT_EQ(due.probe(), std::nullopt);
  EXPECT_EQ(due.retry_limit(), std::nullopt);
  EXPECT_EQ(due.stopped_query(), std::nullopt);
  EXPECT_EQ(due.stall(), std::nullopt);
  EXPECT_EQ(due.first(), parts.now + 10_ms);
}

TEST(Deadlines, NoneInAStateThatDoesNotSend) {
  SenderParts parts;
  parts.write(4);
  parts.identity.state = QpState::kErr;
  EXPECT_EQ(parts.deadlines().first(), std::nullopt);
  refuse(parts);
  EXPECT_EQ(parts.deadlines().first(), std::nullopt) << "not even the end of an RNR wait";
  parts.rnr.on_wait_over();
  parts.identity.state = QpState::kSqd;
  EXPECT_EQ(parts.deadlines().first(), parts.now + kProbe) << "what is in flight is finished";
}

// --- a window that stands still ---

TEST(Deadlines, AStallCountsFromWhenTheBaseMoved) {
  SenderParts parts;
  const Instant sent = parts.now;
  parts.write(4);
  EXPECT_EQ(parts.deadlines().stall(), std::nullopt) << "nothing is missing before what has arrived";
  parts.pass(100_us);
  parts.report(2);
  EXPECT_EQ(parts.deadlines().stall(), sent + 1_ms);
  EXPECT_EQ(parts.deadlines().first(), sent + 1_ms);
  parts.acknowledge(0);
  parts.scoreboard.set_cumulative(1, parts.now);
  EXPECT_EQ(parts.deadlines().stall(), parts.now + 1_ms);
  parts.rtt.sample(1_ms, parts.now);
  EXPECT_EQ(parts.deadlines().stall(), parts.now + 4_ms) << "four SRTT";
}

TEST(Deadlines, AStallNeedsAnAcknowledgementSinceTheLastOne) {
  SenderParts parts;
  parts.write(4);
  parts.report(2);
  parts.timers.on_window_stall();
  EXPECT_EQ(parts.deadlines().stall(), std::nullopt) << "it would be a silence";
  parts.timers.on_acknowledgement(parts.now);
  EXPECT_EQ(parts.deadlines().stall(), parts.now + 1_ms);
}

TEST(Deadlines, NoStallWithAStandardPeerNorWhereTheSenderJudges) {
  SenderParts parts;
  parts.write(4);
  parts.report(2);
  parts.identity.bitmap_agreed = false;
  EXPECT_EQ(parts.deadlines().stall(), std::nullopt);
  parts.identity.bitmap_agreed = true;
  EXPECT_EQ(parts.deadlines().stall(), parts.now + 1_ms);
  judge_by_sender(parts, RecoveryMode::kSelective);
  EXPECT_EQ(parts.deadlines().stall(), std::nullopt);
}

// --- bridge of a full congestion window ---

// From half a round trip on, 16 KiB leave at 1 GB/s: one step.
TEST(Deadlines, AFullCongestionWindowIsBridged) {
  SenderParts parts;
  measure(parts);
  parts.write(4);
  EXPECT_EQ(parts.deadlines().bridge(), std::nullopt) << "the window is not full";
  parts.admission.note_congestion_limited();
  const Instant step = parts.now + 50_us + Duration::from_ns(16'384) + kTick;
  EXPECT_EQ(parts.deadlines().bridge(), step);
  EXPECT_EQ(parts.deadlines().first(), step);
}

TEST(Deadlines, NoBridgeForRetransmissionsOrInDoubt) {
  SenderParts parts;
  measure(parts);
  parts.write(4);
  parts.admission.note_congestion_limited();
  ASSERT_TRUE(parts.deadlines().bridge());
  retransmit(parts, 0);
  EXPECT_EQ(parts.deadlines().bridge(), std::nullopt) << "a retransmission goes first";
  parts.leaves_again(0);
  ASSERT_TRUE(parts.deadlines().bridge());
  parts.timers.add_undecided(4, parts.now);
  EXPECT_EQ(parts.deadlines().bridge(), std::nullopt) << "packets sent before a timeout may be lost";
  parts.timers.forget_timeouts();
  ASSERT_TRUE(parts.deadlines().bridge());
  parts.identity.bitmap_agreed = false;
  EXPECT_EQ(parts.deadlines().bridge(), std::nullopt) << "a standard peer has another window";
}

// --- others ---

TEST(Deadlines, AnInquiryEndsWithoutPacketsInFlight) {
  SenderParts parts;
  made(parts.signals);
  EXPECT_EQ(parts.deadlines().inquiry(), std::nullopt) << "there is none";
  recovery::LinkInquiry& inquiry = inquiry_of(parts);
  EXPECT_EQ(parts.deadlines().inquiry(), std::nullopt) << "it has not left";
  inquiry.asked(1, parts.now + 10_ms, parts.now);
  EXPECT_EQ(parts.deadlines().inquiry(), parts.now + 10_ms);
  EXPECT_EQ(parts.deadlines().first(), parts.now + 10_ms);
}

TEST(Deadlines, TheFirstMayBeThatOfMissingResponses) {
  SenderParts parts;
  parts.write(4);
  LossRecovery& loss = loss_of(parts);
  EXPECT_EQ(parts.deadlines().first(), parts.now + kProbe);
  loss.response_judge_at = parts.now + 50_us;
  EXPECT_EQ(parts.deadlines().first(), parts.now + 50_us);
}

TEST(Deadlines, TheFirstMayBeTheProbeForCredit) {
  SenderParts parts;
  parts.admission.set_probe(parts.now + 3_ms);
  EXPECT_EQ(parts.deadlines().first(), parts.now + 3_ms);
}

TEST(Deadlines, TheFirstMayBeTheEndOfAPause) {
  SenderParts parts;
  parts.write(4);
  loss_of(parts).paused_until = parts.now + 30_us;
  EXPECT_EQ(parts.deadlines().first(), parts.now + 30_us);
}

TEST(Deadlines, RetransmissionsAreHeldOnlyWhileThereAreSome) {
  SenderParts parts;
  parts.write(4);
  loss_of(parts).held_until = parts.now + 30_us;
  EXPECT_EQ(parts.deadlines().first(), parts.now + kProbe);
  retransmit(parts, 0);
  EXPECT_EQ(parts.deadlines().first(), parts.now + 30_us);
}

// Packets 0 to 3 left before one whose acknowledgement took 100 us: T is that, delta 0.
TEST(Deadlines, TheFirstMayBeTheSendersJudgement) {
  SenderParts parts;
  judge_by_sender(parts, RecoveryMode::kWan);
  const Instant sent = parts.now;
  parts.write(4);
  parts.pass(64_us);
  parts.write(4);
  parts.pass(100_us);
  parts.acknowledge(4);
  EXPECT_EQ(parts.deadlines().first(), sent + 100_us);
}

// --- the usual case ---

// Is it still the usual one after that?
template <class Change>
bool is_plain_after(Change change) {
  SenderParts parts;
  parts.write(4);
  EXPECT_TRUE(parts.deadlines().is_plain());
  change(parts);
  return parts.deadlines().is_plain();
}

TEST(PlainDeadlines, EachOtherDeadlineIsAReasonAgainst) {
  EXPECT_FALSE(is_plain_after([](SenderParts& parts) { retransmit(parts, 0); }));
  EXPECT_FALSE(is_plain_after([](SenderParts& parts) { parts.identity.state = QpState::kErr; }));
  EXPECT_FALSE(is_plain_after([](SenderParts& parts) { parts.identity.bitmap_agreed = false; }));
  EXPECT_FALSE(is_plain_after([](SenderParts& parts) { refuse(parts); }));
  EXPECT_FALSE(is_plain_after([](SenderParts& parts) { judge_by_sender(parts, RecoveryMode::kSelective); }));
  EXPECT_FALSE(is_plain_after([](SenderParts& parts) { (void)loss_of(parts); }));
  EXPECT_FALSE(is_plain_after([](SenderParts& parts) { parts.admission.note_congestion_limited(); }));
  EXPECT_FALSE(is_plain_after([](SenderParts& parts) { parts.admission.set_probe(parts.now + 1_ms); }));
  EXPECT_FALSE(is_plain_after([](SenderParts& parts) { parts.report(2); })) << "a hole";
}

TEST(PlainDeadlines, TheRetryLimitIsAReasonAgainst) {
  EXPECT_FALSE(is_plain_after([](SenderParts& parts) { parts.timers.on_timeout(parts.now); }));
  EXPECT_FALSE(is_plain_after([](SenderParts& parts) { parts.identity.attributes.retry_count = 0; }));
}

TEST(PlainDeadlines, OnlyCongestionStateThatDoesSomethingIsAReasonAgainst) {
  EXPECT_TRUE(is_plain_after([](SenderParts& parts) { made(parts.signals); }));
  EXPECT_FALSE(is_plain_after([](SenderParts& parts) { made(parts.signals).cnp_due = true; }));
  EXPECT_TRUE(is_plain_after([](SenderParts& parts) { inquiry_of(parts).timed_out(16); }));
  EXPECT_FALSE(is_plain_after([](SenderParts& parts) { inquiry_of(parts).timed_out(17); })) << "an inquiry is due";
  EXPECT_FALSE(is_plain_after([](SenderParts& parts) { inquiry_of(parts).asked(1, parts.now + 1_ms, parts.now); }));
}

TEST(PlainDeadlines, AreTheFirstOfAll) {
  SenderParts parts;
  const Instant sent = parts.now;
  const auto both_are = [&](Instant expected) {
    EXPECT_TRUE(parts.deadlines().is_plain());
    EXPECT_EQ(parts.deadlines().plain(), expected);
    EXPECT_EQ(parts.deadlines().first(), expected);
  };
  parts.write(4);
  both_are(sent + kProbe);
  for (int i = 0; i < 100; ++i) parts.rtt.sample(20_us, parts.now);
  both_are(sent + 250_us);
  parts.timers.on_activity(sent + 900_us);
  both_are(sent + 1_ms);  // RTO before TLP
  parts.timers.on_probe(sent + 900_us);
  both_are(sent + 1_ms);
}

TEST(PlainDeadlines, AreTheFirstOfAllForResponsesToo) {
  SenderParts parts;
  measure(parts);
  parts.read(16);
  parts.responses.congestion().on_acknowledgement(100'000, 100_us, true, parts.now - 100_us);
  parts.responses.congestion().on_acknowledgement(100'000, 100_us, true, parts.now);
  for (int i = 0; i < 100; ++i) parts.rtt.sample(1_ms, parts.now);
  ASSERT_TRUE(parts.deadlines().is_plain());
  EXPECT_EQ(parts.deadlines().first(), parts.deadlines().plain());
  EXPECT_EQ(parts.deadlines().plain(), parts.now + 2_ms) << "two SRTT";
}

}  // namespace
}  // namespace brdma::qp
