// An attacker who has not seen a connection's packets cannot forge any. In these, addresses, queue pair numbers, keys,
// PSNs and the ICRC are right, but not the token. Also the effect of standard packets, which have none.
#include <gmock/gmock.h>

#include "support/forgeries.h"
#include "support/hand_played.h"

namespace brdma::test {
namespace {

using wire::Control;
using wire::RcOp;

class Forger {
 public:
  Forger(TwoEngines& pair, int victim) : pair_(pair), victim_(victim) {}

  // A packet to the victim in its peer's name.
  [[nodiscard]] wire::Packet packet(RcOp op, bool bitmap) {
    wire::Packet made;
    made.op = op;
    made.bitmap = bitmap;
    made.bth.opcode = wire::opcode_of(op, bitmap);
    made.bth.dest_qpn = pair_.side[victim_].engine->qp_num(pair_.side[victim_].qp);
    made.bth.psn = psn();
    made.bth.ack_request = true;
    made.bxth.source_qpn = peer_qpn();
    made.bxth.token = random_.next();
    made.reth = {pair_.side[victim_].at(random_.below(1024)), pair_.side[victim_].key, 8};
    made.aeth.syndrome = static_cast<std::uint8_t>(random_.below(2) == 0 ? wire::kSyndromeAck : random_.below(0x64));
    made.atomic = {pair_.side[victim_].at(8), pair_.side[victim_].key, 1, 0};
    return made;
  }
  // A packet of bitmap mode or a control packet, of some kind, with a guessed token.
  [[nodiscard]] std::vector<std::byte> guess() {
    const std::uint64_t kind = random_.below(10);
    if (kind < 6) {
      constexpr RcOp kOps[] = {RcOp::kWriteOnly,        RcOp::kSendOnly, RcOp::kReadRequest,
                               RcOp::kReadResponseOnly, RcOp::kFetchAdd, RcOp::kWriteFirst};
      const RcOp op = kOps[random_.below(std::size(kOps))];
      wire::Packet made = packet(op, true);
      made.bxth.piggyback = random_.below(2) == 0;
      made.piggyback.base = psn();
      const bool carries = op != RcOp::kReadRequest && op != RcOp::kFetchAdd;
      return pair_.make(1 - victim_, made, carries ? ConstBytes{payload_} : ConstBytes{});
    }
    std::byte body[256];
    if (kind < 8) {
      wire::BitmapAck ack;
      ack.source_qpn = peer_qpn();
      ack.token = random_.next() | 1;
      ack.base = psn();
      ack.highest = ack.base - 1;
      ack.syndrome = static_cast<std::uint8_t>(random_.below(2) == 0 ? 0x1F : 0x60 + random_.below(4));
      return control(Control::kBitmapAck, ack.base, {body, wire::emit_bitmap_ack(ack, body)});
    }
    if (kind == 8) {
      const Psn first = psn();
      const wire::Edn edn{.first = first, .last = first, .destination_qpn = peer_qpn(), .token = random_.next() | 1};
      return control(Control::kEdn, edn.first, {body, wire::emit_edn(edn, body)});
    }
    std::byte gap[wire::kFfmGapSize];
    wire::Ffm ffm;
    ffm.source_qpn = peer_qpn();
    ffm.token = random_.next() | 1;
    ffm.base = psn();
    ffm.highest = ffm.base + 2;
    ffm.gap_count = 1;
    wire::emit_ffm_gap({ffm.base, 1}, gap);
    ffm.gaps = gap;
    return control(Control::kFfm, ffm.base, {body, wire::emit_ffm(ffm, body)});
  }
  [[nodiscard]] std::vector<std::byte> standard() {
    if (random_.below(8) == 0) return cnp();
    constexpr RcOp kOps[] = {RcOp::kWriteOnly, RcOp::kSendOnly, RcOp::kReadRequest, RcOp::kAcknowledge};
    const RcOp op = kOps[random_.below(std::size(kOps))];
    const bool carries = op == RcOp::kWriteOnly || op == RcOp::kSendOnly;
    return pair_.make(1 - victim_, packet(op, false), carries ? ConstBytes{payload_} : ConstBytes{});
  }
  [[nodiscard]] std::vector<std::byte> cnp() {
    wire::Packet made;
    made.bth.opcode = wire::kCnpOpcode;
    made.bth.dest_qpn = pair_.side[victim_].engine->qp_num(pair_.side[victim_].qp);
    made.bth.becn = true;
    made.bxth.token = random_.below(2) == 0 ? 0 : random_.next();
    return pair_.make(1 - victim_, made);
  }
  [[nodiscard]] std::vector<std::byte> caps() {
    wire::Caps caps;
    caps.reply = random_.below(2) == 0;
    caps.source_qpn = peer_qpn();
    caps.capabilities = wire::kCapabilityBitmap;
    caps.window_packets = 1;
    caps.token = random_.next() | 1;
    caps.echo = random_.next() | 1;
    std::byte body[wire::kCapsSize];
    return control(Control::kCaps, Psn{0}, {body, wire::emit_caps(caps, body)});
  }
  [[nodiscard]] std::vector<std::byte> control(Control which, Psn psn, ConstBytes body) const {
    std::vector<std::byte> bytes(wire::kBthSize + body.size() + wire::kIcrcSize);
    wire::Bth bth;
    bth.opcode = static_cast<std::uint8_t>(which);
    bth.dest_qpn = pair_.side[victim_].engine->qp_num(pair_.side[victim_].qp);
    bth.psn = psn;
    wire::emit_bth(bth, bytes.data());
    std::copy(body.begin(), body.end(), bytes.begin() + wire::kBthSize);
    pair_.sign(1 - victim_, bytes);
    return bytes;
  }

 private:
  [[nodiscard]] std::uint32_t peer_qpn() const {
    return pair_.side[1 - victim_].engine->qp_num(pair_.side[1 - victim_].qp);
  }
  // Of either direction, in order or nearly.
  [[nodiscard]] Psn psn() {
    return Psn{pair_.options.first_psn[random_.below(2)]} - 2 + static_cast<std::uint32_t>(random_.below(8));
  }

  TwoEngines& pair_;
  int victim_;
  Random random_{7, "forger"};
  std::vector<std::byte> payload_ = std::vector<std::byte>(8, std::byte{0xEE});
};

// Many: nothing of them is kept.
template <class Make>
void inject(TwoEngines& pair, int victim, unsigned count, Make&& make) {
  for (unsigned i = 0; i < count; ++i) {
    pair.inject(victim, make());
    pair.wire.clear();
    for (auto& side : pair.side) side.trace.lines.clear();
  }
}

void expect_untouched(const TwoEngines& pair) {
  for (const auto& side : pair.side) {
    EXPECT_EQ(std::count(side.memory.begin(), side.memory.end(), std::byte{0}),
              static_cast<std::ptrdiff_t>(side.memory.size()));
  }
}

void expect_works(TwoEngines& pair) {
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(pair.state(i), QpState::kRts);
    pair.fill(i, 5);
    ASSERT_TRUE(pair.post(i, pair.write(i, 4096u * static_cast<unsigned>(i), 4096, 1)).ok());
  }
  ASSERT_TRUE(pair.run_until_idle());
  for (int i = 0; i < 2; ++i) {
    const auto done = pair.poll(i);
    ASSERT_EQ(done.size(), 1u);
    EXPECT_EQ(done[0].status, CompletionStatus::kSuccess);
  }
}

TEST(Forgery, NoGuessedTokenIsAccepted) {
  TwoEngines pair;
  const unsigned count = forgeries();
  for (int victim = 0; victim < 2; ++victim) {
    Forger forger{pair, victim};
    const auto before = pair.side[victim].statistics;
    inject(pair, victim, count, [&] { return forger.guess(); });
    EXPECT_EQ(pair.side[victim].count(DropReason::kBadToken) - before.get(DropReason::kBadToken), count);
    EXPECT_EQ(pair.side[victim].count(Counter::kAcceptedPackets), before.get(Counter::kAcceptedPackets));
  }
  expect_untouched(pair);
  expect_works(pair);
}

TEST(Forgery, TheRightTokenInAnothersNameIsNotAccepted) {
  TwoEngines pair;
  Forger forger{pair, 1};
  wire::Packet packet = forger.packet(RcOp::kWriteOnly, true);
  packet.bth.psn = Psn{1000};
  packet.bxth.token = pair.side[1].qp->identity().own_token;
  packet.bxth.source_qpn ^= 0x2000;
  const std::vector<std::byte> payload(8, std::byte{0xEE});
  pair.inject(1, pair.make(0, packet, payload));
  EXPECT_EQ(pair.side[1].count(DropReason::kBadToken), 1u);
  expect_untouched(pair);
  packet.bxth.source_qpn ^= 0x2000;
  pair.inject(1, pair.make(0, packet, payload));
  EXPECT_EQ(pair.side[1].count(DropReason::kBadToken), 1u) << "the peer's own";
}

TEST(Forgery, StandardPacketsAreRefusedOnceBitmapModeIsAgreed) {
  TwoEngines pair;
  pair.run_for(200_ms);
  Forger forger{pair, 1};
  const unsigned count = forgeries();
  const std::uint64_t asked = pair.side[1].count(Counter::kCapsSent);
  inject(pair, 1, count, [&] { return forger.standard(); });
  EXPECT_EQ(pair.side[1].count(DropReason::kStandardRefused), count);
  EXPECT_EQ(pair.side[1].count(Counter::kCnpHandled) + pair.side[1].count(Counter::kCnpIgnored), 0u);
  EXPECT_LE(pair.side[1].count(Counter::kCapsSent) - asked, 2u) << "not an answer for each";
  pair.run_for(1_ms);
  expect_untouched(pair);
  expect_works(pair);
}

// Before that: packets that the peer may have sent before it had the token. They are accepted for twice as long as the
// agreement took and 100 ms, and no more of them than a standard peer has in flight.
TEST(Forgery, StandardPacketsAreTakenForARoundTripOrTwo) {
  for (const Duration one_way : {5_us, 150_ms}) {
    PairOptions options;
    options.one_way_delay = one_way;
    TwoEngines pair{options};
    Forger forger{pair, 1};
    const auto refused_after = [&](Duration passed) {
      pair.run_for(passed);
      const std::uint64_t before = pair.side[1].count(DropReason::kStandardRefused);
      wire::Packet late = forger.packet(RcOp::kWriteOnly, false);
      late.bth.psn = Psn{pair.options.first_psn[0]} - 1;
      pair.inject(1, pair.make(0, late, std::vector<std::byte>(8)));
      return pair.side[1].count(DropReason::kStandardRefused) > before;
    };
    EXPECT_FALSE(refused_after(90_ms)) << one_way.ns();  // the agreement was 2 ms ago, or two one-way delays
    EXPECT_TRUE(refused_after(20_ms)) << one_way.ns();
  }
}

TEST(Forgery, AStandardPacketIsNoFurtherAheadThanAPeersWindow) {
  TwoEngines pair;
  Forger forger{pair, 1};
  const auto inject_ahead = [&](std::uint32_t ahead) {
    wire::Packet write = forger.packet(RcOp::kWriteOnly, false);
    write.bth.psn = Psn{pair.options.first_psn[0]} + ahead;
    pair.inject(1, pair.make(0, write, std::vector<std::byte>(8, std::byte{0xEE})));
    return pair.side[1].count(DropReason::kOutOfOrder);
  };
  const std::uint32_t window = pair.options.recovery.standard_window_packets;
  EXPECT_EQ(inject_ahead(window), 1u);
  EXPECT_EQ(inject_ahead(window - 1), 1u);
}

// No early packet of a peer is lost, at any distance.
TEST(Tokens, WhatWasSentBeforeTheAgreementArrivesOnLongPaths) {
  PairOptions options;
  options.settle = false;
  options.one_way_delay = 150_ms;
  TwoEngines pair{options};
  for (int i = 0; i < 2; ++i) {
    pair.fill(i, 3);
    ASSERT_TRUE(pair.post(i, pair.write(i, 4096u * static_cast<unsigned>(i), 4096, 1)).ok());
  }
  ASSERT_TRUE(pair.run_until_idle());
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(pair.side[i].qp->identity().bitmap_agreed);
    EXPECT_EQ(pair.side[i].count(DropReason::kStandardRefused), 0u);
    EXPECT_EQ(pair.poll(i).size(), 1u);
  }
}

// An attacker claims another's identity, without having read the packets to it.
TEST(Forgery, ForgedCapsChangeNothing) {
  TwoEngines pair;
  Forger forger{pair, 1};
  const std::uint64_t own = pair.side[1].qp->identity().own_token, peers = pair.side[1].qp->identity().peer_token;
  const std::uint64_t asked = pair.side[1].count(Counter::kCapsSent);
  const unsigned count = forgeries();
  inject(pair, 1, count, [&] { return forger.caps(); });
  EXPECT_LE(pair.side[1].count(Counter::kCapsSent) - asked, 2u);
  pair.run_for(5_ms);
  EXPECT_EQ(pair.side[1].qp->identity().own_token, own);
  EXPECT_EQ(pair.side[1].qp->identity().peer_token, peers);
  EXPECT_EQ(pair.side[1].qp->identity().peer_window, pair.side[0].qp->identity().peer_window);
  expect_works(pair);
}

// Before the connection is up: it comes up all the same, with the peer's token.
TEST(Forgery, ForgedCapsAtTheBeginningDoNotLast) {
  PairOptions options;
  options.settle = false;
  TwoEngines pair{options};
  Forger forger{pair, 1};
  for (int i = 0; i < 20; ++i) {
    pair.inject(1, forger.caps());
    pair.run_for(1_us);
  }
  pair.run_for(5_ms);
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(pair.side[i].qp->identity().bitmap_agreed) << i;
    EXPECT_EQ(pair.side[i].qp->identity().peer_token, pair.side[1 - i].qp->identity().own_token) << i;
  }
  expect_works(pair);
}

TEST(Tokens, DifferForEachConnection) {
  TwoEngines pair;
  const std::uint64_t first = pair.side[0].qp->identity().own_token;
  EXPECT_NE(first, pair.side[1].qp->identity().own_token);
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(pair.modify(i, QpState::kReset, kQpAttrState).ok());
    pair.connect(i);
  }
  EXPECT_NE(pair.side[0].qp->identity().own_token, first);
  pair.run_for(5_ms);
  expect_works(pair);
}

// The other side did not restart: it learns the new token from a peer that reads its packets.
TEST(Tokens, OfARestartedPeer) {
  TwoEngines pair;
  pair.run_for(200_ms);
  ASSERT_TRUE(pair.modify(1, QpState::kReset, kQpAttrState).ok());
  pair.connect(1);
  pair.run_for(5_ms);
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(pair.side[i].qp->identity().bitmap_agreed) << i;
    EXPECT_EQ(pair.side[i].qp->identity().peer_token, pair.side[1 - i].qp->identity().own_token) << i;
  }
  expect_works(pair);
}

// Old packets of the former connection are refused, the peer's own too.
TEST(Tokens, WhatIsLeftOfAnEarlierConnectionIsRefused) {
  TwoEngines pair;
  pair.fill(0, 7);
  ASSERT_TRUE(pair.post(0, pair.write(0, 0, 4096, 1)).ok());
  ASSERT_TRUE(pair.run_until_idle());
  ASSERT_EQ(pair.poll(0).size(), 1u);
  std::vector<Sent> stale;
  std::copy_if(pair.wire.begin(), pair.wire.end(), std::back_inserter(stale),
               [](const Sent& sent) { return sent.data() || sent.control(Control::kBitmapAck); });
  ASSERT_GE(stale.size(), 5u);
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(pair.modify(i, QpState::kReset, kQpAttrState).ok());
    pair.connect(i);  // the same numbers, and the same PSNs
  }
  pair.run_for(5_ms);
  std::fill(pair.side[1].memory.begin(), pair.side[1].memory.end(), std::byte{0});
  for (const Sent& sent : stale) pair.inject(1 - sent.from, sent.bytes);
  EXPECT_EQ(pair.side[0].count(DropReason::kBadToken) + pair.side[1].count(DropReason::kBadToken), stale.size());
  EXPECT_EQ(std::count(pair.side[1].memory.begin(), pair.side[1].memory.end(), std::byte{0}),
            static_cast<std::ptrdiff_t>(pair.side[1].memory.size()));
  expect_works(pair);
}

// A peer that restarts without negotiating: its packets are refused, as a forger's would be, until this side is
// connected again as well.
TEST(Tokens, APeerThatRestartsAsAStandardOne) {
  TwoEngines pair;
  pair.run_for(200_ms);
  pair.drop = [](const Sent& sent) { return sent.from == 1 && sent.control(Control::kCaps); };
  ASSERT_TRUE(pair.modify(1, QpState::kReset, kQpAttrState).ok());
  pair.connect(1);
  ASSERT_TRUE(pair.post(1, pair.write(1, 0, 8, 1)).ok());
  pair.run_for(50_ms);
  EXPECT_GT(pair.side[0].count(DropReason::kStandardRefused), 0u);
  EXPECT_TRUE(pair.poll(1).empty());
  EXPECT_TRUE(pair.side[0].qp->identity().bitmap_agreed);
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(pair.modify(i, QpState::kReset, kQpAttrState).ok());
    pair.poll(i);
    pair.connect(i);
  }
  pair.run_for(200_ms);
  pair.wire.clear();
  expect_works(pair);
  for (int i = 0; i < 2; ++i) EXPECT_FALSE(pair.side[i].qp->identity().bitmap_agreed) << i;
  EXPECT_TRUE(std::none_of(pair.wire.begin(), pair.wire.end(), [](const Sent& sent) { return sent.packet().bitmap; }));
}

// A peer that restarts and sends at once: its packets are refused until it has agreed; the refusal brings that about.
TEST(Tokens, ARestartedPeerThatSendsAtOnce) {
  for (const bool caps_lost : {false, true}) {
    TwoEngines pair;
    pair.run_for(200_ms);
    const Instant from = pair.now;
    pair.drop = [&pair, caps_lost, from](const Sent& sent) {
      return caps_lost && sent.from == 1 && sent.control(Control::kCaps) && pair.now < from + 100_us;
    };
    ASSERT_TRUE(pair.modify(1, QpState::kReset, kQpAttrState).ok());
    pair.connect(1);
    pair.fill(1, 3);
    ASSERT_TRUE(pair.post(1, pair.write(1, 0, 8, 1)).ok());
    ASSERT_TRUE(pair.run_until_idle());
    EXPECT_TRUE(pair.side[1].qp->identity().bitmap_agreed) << caps_lost;
    EXPECT_EQ(pair.side[0].qp->identity().peer_token, pair.side[1].qp->identity().own_token) << caps_lost;
    EXPECT_GT(pair.side[0].count(DropReason::kStandardRefused), 0u) << caps_lost;
    EXPECT_EQ(pair.poll(1).size(), 1u) << caps_lost;
  }
}

// This side's CAPS are lost for so long that the peer stops asking, and sends standard packets. These are refused, and
// answered by the CAPS that had been lost.
TEST(Tokens, APeerWithoutTheTokenGetsCapsWhenItsPacketsAreRefused) {
  PairOptions options;
  options.settle = false;
  TwoEngines pair{options};
  pair.drop = [&pair](const Sent& sent) {
    if (sent.from != 0 || !sent.control(Control::kCaps)) return false;
    return wire::parse_caps(sent.packet().payload)->echo != 0 && pair.now < Instant::from_ns(300'000'000);
  };
  pair.run_for(350_ms);
  ASSERT_TRUE(pair.side[0].qp->identity().bitmap_agreed);
  ASSERT_FALSE(pair.side[1].qp->identity().bitmap_agreed);
  pair.fill(1, 3);
  ASSERT_TRUE(pair.post(1, pair.write(1, 0, 4096, 1)).ok());
  ASSERT_TRUE(pair.run_until_idle());
  EXPECT_GT(pair.side[0].count(DropReason::kStandardRefused), 0u);
  EXPECT_TRUE(pair.side[1].qp->identity().bitmap_agreed);
  EXPECT_TRUE(pair.same(0, 4096));
}

// A build without tokens: both send standard packets, as with any other peer.
TEST(Tokens, APeerOfTheFirstVersionIsAStandardOne) {
  PairOptions options;
  options.settle = false;
  HandPlayed hand{options};
  wire::Caps caps;
  caps.reply = true;
  caps.source_qpn = hand.peer_qpn();
  caps.capabilities = wire::kCapabilityBitmap;
  caps.version_min = caps.version_max = 1;
  caps.path_mtu_code = static_cast<std::uint8_t>(options.mtu);
  caps.window_packets = 4096;
  std::byte body[wire::kCapsSize];
  const std::size_t size = wire::emit_caps(caps, body);
  ASSERT_EQ(size, wire::kCapsFirstSize);
  hand.control(hand.bth(Control::kCaps, 0), {body, size});
  EXPECT_FALSE(hand.pair.side[0].qp->identity().bitmap_agreed);
  hand.send(1);
  const auto sent = std::find_if(hand.pair.wire.begin(), hand.pair.wire.end(),
                                 [](const Sent& each) { return each.from == 0 && each.data(); });
  ASSERT_NE(sent, hand.pair.wire.end());
  EXPECT_FALSE(sent->packet().bitmap);
}

// Standard peers: packets from another UDP port than theirs.
class StandardForgery : public testing::Test {
 protected:
  StandardForgery() {
    PairOptions options;
    options.mode[0] = options.mode[1] = RecoveryMode::kStandard;
    pair_ = std::make_unique<TwoEngines>(options);
    for (std::uint64_t i = 0; i < kKnown; ++i) exchange(i);
  }
  static constexpr std::uint32_t kKnown = 70;  // packets in each direction, from which the ports are known
  void exchange(std::uint64_t wr_id) {
    for (int i = 0; i < 2; ++i) EXPECT_TRUE(pair_->post(i, pair_->write(i, 0, 8, wr_id)).ok());
    EXPECT_TRUE(pair_->run_until_idle());
    for (int i = 0; i < 2; ++i) EXPECT_EQ(pair_->poll(i).size(), 1u);
  }
  void inject(wire::Packet packet, Psn psn, std::uint16_t port, std::size_t bytes = 8) {
    packet.bth.psn = psn;
    auto made = pair_->make(0, packet, std::vector<std::byte>(bytes, std::byte{0xEE}));
    pair_->sign(0, made, port);
    pair_->inject(1, made, 0, port);
  }
  std::unique_ptr<TwoEngines> pair_;
};

TEST_F(StandardForgery, NothingWaitsForItsTurnThatComesFromElsewhere) {
  Forger forger{*pair_, 1};
  wire::Packet write = forger.packet(RcOp::kWriteOnly, false);
  write.reth.address = pair_->side[1].at(512);
  const Psn next = Psn{1000} + kKnown;
  for (std::uint32_t ahead = 1; ahead < 100; ++ahead) inject(write, next + ahead, 0xC123);
  EXPECT_EQ(pair_->side[1].count(DropReason::kOutOfOrder), 99u);
  exchange(kKnown);
  EXPECT_EQ(pair_->side[1].memory[512], std::byte{0});
  EXPECT_EQ(pair_->state(1), QpState::kRts);
  inject(write, next + 3, 0xC000);  // from the peer's own port: kept
  EXPECT_EQ(pair_->side[1].count(DropReason::kOutOfOrder), 99u);
}

TEST_F(StandardForgery, APeerThatChangesItsPortIsFollowed) {
  Forger forger{*pair_, 1};
  wire::Packet write = forger.packet(RcOp::kWriteOnly, false);
  write.reth.address = pair_->side[1].at(512);
  const Psn next = Psn{1000} + kKnown;
  inject(write, next, 0xC123);  // in turn
  EXPECT_EQ(pair_->side[1].memory[512], std::byte{0xEE});
  inject(write, next + 2, 0xC123);
  EXPECT_EQ(pair_->side[1].count(DropReason::kOutOfOrder), 0u);
}

TEST_F(StandardForgery, ANakThatEndsTheQueuePairMustBeThePeers) {
  const Psn next = Psn{5000} + kKnown;
  pair_->paused[0] = true;
  ASSERT_TRUE(pair_->post(1, pair_->write(1, 0, 8, 7)).ok());
  pair_->round();
  Forger forger{*pair_, 1};
  wire::Packet nak = forger.packet(RcOp::kAcknowledge, false);
  for (const std::uint8_t syndrome :
       {wire::kSyndromeNakInvalidRequest, wire::kSyndromeNakRemoteAccess, wire::kSyndromeNakRemoteOperation}) {
    nak.aeth.syndrome = syndrome;
    inject(nak, next, 0xC123, 0);
    inject(nak, next + 1, 0xC000, 0);  // the peer's port, and nothing of that number in flight
  }
  EXPECT_EQ(pair_->state(1), QpState::kRts);
  EXPECT_EQ(pair_->side[1].count(DropReason::kStaleResponse), 6u);
  inject(nak, next, 0xC000, 0);
  EXPECT_EQ(pair_->state(1), QpState::kErr);
}

}  // namespace
}  // namespace brdma::test
