// The requester's reaction to explicit drop notifications (design DN-10): exactly the named packets are
// retransmitted; forged, replayed or absurd notifications change nothing.
#include <cstring>
#include <set>

#include "support/hand_played.h"
#include "wire/edn.h"

namespace brdma::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class DropNotice : public testing::Test, public HandPlayed {
 protected:
  using HandPlayed::HandPlayed;
  // As a switch reports a transmission at `sent_at`.
  void edn(std::uint32_t first, std::uint32_t last, std::optional<Instant> sent_at, Duration drain = {}) {
    wire::Edn body{.first = Psn{first}, .last = Psn{last}, .destination_qpn = peer_qpn(), .drain = drain};
    if (sent_at) body.timestamp = wire::timestamp_of(*sent_at);
    send_edn(body);
  }
  void send_edn(const wire::Edn& body) {
    std::byte out[wire::kEdnSize];
    wire::emit_edn(body, out);
    control(bth(wire::Control::kEdn, body.first.value()), out);
  }
  // An ICMP message that quotes the packet with this PSN that side 0 sent last, with `change` made to the quote.
  template <class Change>
  void icmp(std::uint32_t psn, std::uint32_t packets, const Change& change) {
    const auto found = std::find_if(pair.wire.rbegin(), pair.wire.rend(), [psn](const Sent& each) {
      return each.from == 0 && each.data() && each.psn() == psn;
    });
    ASSERT_NE(found, pair.wire.rend());
    std::vector<std::byte> quote(wire::kIpv4Size + wire::kUdpSize);
    store_be16(quote.data(), 0x4500);
    quote[9] = std::byte{17};
    std::memcpy(&quote[12], &pair.side[0].address.bytes[12], 4);
    std::memcpy(&quote[16], &pair.side[1].address.bytes[12], 4);
    store_be16(&quote[20], found->source_port);
    store_be16(&quote[22], 4791);
    quote.insert(quote.end(), found->bytes.begin(), found->bytes.end());
    change(quote);
    std::byte out[wire::kIcmpHeaderSize + wire::kQuoteMax];
    const std::size_t size = wire::emit_icmp_edn(quote, packets, Duration{}, out);
    pair.side[0].engine->handle_icmp(ConstBytes{out, size}, pair.now);
    pair.round();
  }
  void icmp(std::uint32_t psn, std::uint32_t packets) {
    icmp(psn, packets, [](std::vector<std::byte>&) {});
  }
};

TEST_F(DropNotice, ResendsWhatItNamesAndNothingElse) {
  send(16);
  const Instant sent_at = pair.now;
  sent();
  edn(1003, 1005, sent_at);
  EXPECT_THAT(sent(), ElementsAre(1003, 1004, 1005));
  EXPECT_EQ(count(Counter::kRetransmittedEdn), 3u);
  EXPECT_EQ(count(Counter::kEdnReceived), 1u);
  ack({.base = 1016});
  EXPECT_EQ(pair.poll(0).size(), 1u);
}

TEST_F(DropNotice, ByIcmp) {
  send(16);
  icmp(1003, 2);
  EXPECT_EQ(count(Counter::kRetransmittedEdn), 2u);
  EXPECT_EQ(count(Counter::kEdnStale), 0u);
}

TEST_F(DropNotice, FeedbackAboutTheSamePacketsComesLateAndIsSuppressed) {
  send(16);
  sent();
  edn(1003, 1003, pair.now);
  EXPECT_THAT(sent(), ElementsAre(1003));
  ffm(0, 1003, 1012, {{1003, 1}});
  EXPECT_THAT(sent(), IsEmpty());
  EXPECT_EQ(count(Counter::kFfmPacketsRecent), 1u);
}

// The receiver misses 1003 only after its retransmission: its newest packet, 1012, left before that.
TEST_F(DropNotice, FeedbackThatKnowsNothingOfTheRetransmissionIsSuppressedForAWhile) {
  send(16);
  sent();
  ack({.base = 1000, .echo = pair.now - 20_us});  // of a packet before them: the path is that long
  pair.run_for(1_us);
  edn(1003, 1003, pair.now - 1_us);
  EXPECT_THAT(sent(), ElementsAre(1003));
  pair.run_for(60_us);
  ffm(0, 1003, 1012, {{1003, 1}});
  EXPECT_THAT(sent(), IsEmpty());
  EXPECT_EQ(count(Counter::kFfmPacketsEdn), 1u);
  // The retransmission may be lost too, without a later packet that could reveal it.
  pair.run_for(150_us);
  ffm(1, 1003, 1012, {{1003, 1}});
  EXPECT_THAT(sent(), ElementsAre(1003));
}

TEST_F(DropNotice, FeedbackThatKnowsOfTheRetransmissionIsApplied) {
  send(16);
  sent();
  pair.run_for(1_us);
  edn(1003, 1003, pair.now - 1_us);
  EXPECT_THAT(sent(), ElementsAre(1003));
  pair.run_for(1_us);
  send(4);  // 1016 to 1019 leave after it
  sent();
  pair.run_for(60_us);
  ffm(0, 1003, 1018, {{1003, 1}});
  EXPECT_THAT(sent(), ElementsAre(1003));
}

// A full queue shows the path's capacity; a fault does not.
TEST_F(DropNotice, OfAFullQueueLowersTheWindow) {
  const auto window = [this] { return pair.side[0].qp->requester().snapshot().congestion_bytes; };
  send(40);
  const Instant sent_at = pair.now;
  pair.run_for(30_us);
  const std::uint64_t before = window();
  edn(1003, 1004, sent_at);
  EXPECT_EQ(window(), before);
  EXPECT_EQ(count(Counter::kEdnReductions), 0u);
  edn(1010, 1013, sent_at, 50_us);
  EXPECT_EQ(window(), before - 4 * 1024);
  EXPECT_EQ(count(Counter::kEdnReductions), 1u);
  edn(1010, 1013, sent_at, 50_us);  // repeated
  EXPECT_EQ(count(Counter::kEdnReductions), 1u);
}

TEST_F(DropNotice, WhereFeedbackCameFirstItIsOutdated) {
  send(16);
  const Instant first_sent = pair.now;
  sent();
  pair.run_for(100_us);
  ffm(0, 1003, 1012, {{1003, 1}});
  EXPECT_THAT(sent(), ElementsAre(1003));
  pair.run_for(10_us);
  edn(1003, 1003, first_sent);
  EXPECT_THAT(sent(), IsEmpty());
  EXPECT_EQ(count(Counter::kEdnPacketsRecent), 1u);
}

TEST_F(DropNotice, ARetransmissionThatWasDroppedTooIsSentAgainAtOnce) {
  send(16);
  edn(1003, 1003, pair.now);
  pair.run_for(2_us);
  sent();
  edn(1003, 1003, pair.now - 2_us);
  EXPECT_THAT(sent(), ElementsAre(1003));
}

TEST_F(DropNotice, ReplayedItChangesNothing) {
  send(16);
  const Instant sent_at = pair.now;
  pair.run_for(5_us);
  edn(1003, 1003, sent_at);
  sent();
  for (int i = 0; i < 10; ++i) edn(1003, 1003, sent_at);
  EXPECT_THAT(sent(), IsEmpty());
  ack({.base = 1016});
  edn(1003, 1003, sent_at);
  EXPECT_THAT(sent(), IsEmpty());
  EXPECT_EQ(count(Counter::kEdnStale), 1u);
}

TEST_F(DropNotice, WhatHasArrivedOrWasNeverSentIsNotSent) {
  send(16);
  ack({.base = 1003, .arrived = {1004, 1005}});
  sent();
  edn(1001, 1006, pair.now);
  EXPECT_THAT(sent(), ElementsAre(1003, 1006));
  EXPECT_EQ(count(Counter::kEdnPacketsAcked), 4u);
  edn(1014, 1020, pair.now);
  EXPECT_THAT(sent(), ElementsAre(1014, 1015));
  EXPECT_EQ(count(Counter::kEdnPacketsUnsent), 5u);
  edn(2000, 9000, pair.now);
  edn(1016, 1016, pair.now);
  EXPECT_THAT(sent(), IsEmpty());
  EXPECT_EQ(count(Counter::kEdnStale), 2u);
}

TEST_F(DropNotice, AHugeRangeCostsNoMoreThanTheWindow) {
  send(16);
  sent();
  edn(1003, 1003 + (1u << 22), pair.now);
  EXPECT_EQ(sent().size(), 13u);
}

TEST_F(DropNotice, ThatImpossibleIsDropped) {
  send(16);
  sent();
  edn(1005, 1003, pair.now);
  send_edn({.first = Psn{1003}, .last = Psn{1003}, .destination_qpn = peer_qpn() ^ 1});
  EXPECT_THAT(sent(), IsEmpty());
  EXPECT_EQ(pair.side[0].statistics.get(DropReason::kBadControl), 2u);
}

TEST_F(DropNotice, IcmpAboutAnotherConnectionIsIgnored) {
  send(16);
  const auto with = [](std::size_t offset) {
    return [offset](std::vector<std::byte>& quote) { quote[offset] ^= std::byte{1}; };
  };
  constexpr std::size_t kBth = wire::kIpv4Size + wire::kUdpSize;
  icmp(1003, 1, with(15));         // from another host
  icmp(1003, 1, with(19));         // to another host
  icmp(1003, 1, with(kBth + 7));   // to another queue pair
  icmp(1003, 1, with(kBth + 15));  // from another queue pair
  EXPECT_EQ(count(Counter::kRetransmittedEdn), 0u);
  EXPECT_EQ(count(Counter::kEdnStale), 4u);
  icmp(1003, 1, with(kBth + 11));  // another PSN: outstanding as well, so it is accepted
  EXPECT_EQ(count(Counter::kRetransmittedEdn), 1u);
}

// The responder's (transcript/responder_edn_test): this one has sent no response.
TEST_F(DropNotice, AboutResponsesResendsNoRequest) {
  send(16);
  sent();
  send_edn({.first = Psn{1003}, .last = Psn{1003}, .responses = true, .destination_qpn = peer_qpn()});
  EXPECT_THAT(sent(), IsEmpty());
  EXPECT_EQ(count(Counter::kEdnResponses), 1u);
}

PairOptions pausing() {
  PairOptions options;
  options.recovery.edn_pause_max = 50_us;
  return options;
}

class PausingDropNotice : public DropNotice {
 protected:
  PausingDropNotice() : DropNotice(pausing()) {}
};

TEST_F(PausingDropNotice, WaitsForTheQueueToDrainUpToItsLimit) {
  send(16);
  sent();
  edn(1003, 1003, pair.now, 10_us);
  EXPECT_THAT(sent(), IsEmpty());
  pair.run_for(9_us);
  EXPECT_THAT(sent(), IsEmpty());
  pair.run_for(42_us);  // five times 10 us at most
  EXPECT_THAT(sent(), ElementsAre(1003));
  edn(1004, 1004, pair.now - 51_us, 1_s);
  pair.run_for(49_us);
  EXPECT_THAT(sent(), IsEmpty());
  pair.run_for(2_us);
  EXPECT_THAT(sent(), ElementsAre(1004));
  EXPECT_EQ(count(Counter::kEdnPauses), 2u);
}

// All who filled a queue are notified at the same time.
TEST_F(PausingDropNotice, EndsThePauseAtATimeOfItsOwn) {
  send(16);
  sent();
  std::set<std::int64_t> pauses;
  for (std::uint32_t psn = 1000; psn < 1012; ++psn) {
    const Instant notified = pair.now;
    edn(psn, psn, pair.now, 10_us);
    while (sent().empty() && pair.now - notified < 1_ms) pair.run_for(1_us);
    pauses.insert((pair.now - notified).ns());
  }
  EXPECT_GE(pauses.size(), 6u);
}

PairOptions deaf() {
  PairOptions options;
  options.recovery.edn = false;
  return options;
}

class IgnoredDropNotice : public DropNotice {
 protected:
  IgnoredDropNotice() : DropNotice(deaf()) {}
};

TEST_F(IgnoredDropNotice, WhereTheSettingSaysSo) {
  send(16);
  sent();
  edn(1003, 1003, pair.now);
  EXPECT_THAT(sent(), IsEmpty());
  EXPECT_EQ(count(Counter::kEdnOff), 1u);
}

}  // namespace
}  // namespace brdma::test
