// The queue pair's state machine: every transition with its required and allowed attributes, and its refusals.
#include <gmock/gmock.h>

#include <cerrno>

#include "support/two_engines.h"

namespace brdma::test {
namespace {

constexpr std::uint32_t kToInit = TwoEngines::kToInit & ~kQpAttrState, kToRtr = TwoEngines::kToRtr & ~kQpAttrState,
                        kToRts = TwoEngines::kToRts & ~kQpAttrState;
constexpr std::uint32_t kEveryBit = kQpAttrCurrentState | kQpAttrAccess | kQpAttrPkeyIndex | kQpAttrPort | kQpAttrQkey |
                                    kQpAttrAv | kQpAttrPathMtu | kQpAttrTimeout | kQpAttrRetryCount | kQpAttrRnrRetry |
                                    kQpAttrRqPsn | kQpAttrMaxRdAtomic | kQpAttrMinRnrTimer | kQpAttrSqPsn |
                                    kQpAttrMaxDestRdAtomic | kQpAttrCapabilities | kQpAttrDestQpn;

// The standard's table for RC, written a second time.
struct Rule {
  QpState from, to;
  std::uint32_t required, optional;
};
const std::vector<Rule> kRules = {
    {QpState::kReset, QpState::kInit, kToInit, 0},
    {QpState::kInit, QpState::kInit, 0, kToInit},
    {QpState::kInit, QpState::kRtr, kToRtr, kQpAttrAccess | kQpAttrPkeyIndex},
    {QpState::kRtr, QpState::kRts, kToRts, kQpAttrCurrentState | kQpAttrAccess | kQpAttrMinRnrTimer},
    {QpState::kRts, QpState::kRts, 0, kQpAttrCurrentState | kQpAttrAccess | kQpAttrMinRnrTimer},
    {QpState::kRts, QpState::kSqd, 0, 0},
    {QpState::kSqd, QpState::kRts, 0, kQpAttrCurrentState | kQpAttrAccess | kQpAttrMinRnrTimer},
    {QpState::kSqd, QpState::kSqd, 0,
     kQpAttrPort | kQpAttrAv | kQpAttrTimeout | kQpAttrRetryCount | kQpAttrRnrRetry | kQpAttrMaxRdAtomic |
         kQpAttrMaxDestRdAtomic | kQpAttrAccess | kQpAttrPkeyIndex | kQpAttrMinRnrTimer},
};

class Modify : public testing::Test {
 protected:
  static PairOptions unconnected() {
    PairOptions options;
    options.connect = false;
    return options;
  }
  // A fresh pair whose side 0 is in `state`.
  static std::unique_ptr<TwoEngines> in(QpState state) {
    auto pair = std::make_unique<TwoEngines>(unconnected());
    const auto go = [&](QpState to, std::uint32_t mask) { EXPECT_TRUE(pair->modify(0, to, mask).ok()); };
    if (state == QpState::kErr) {
      go(QpState::kErr, kQpAttrState);
      return pair;
    }
    if (state >= QpState::kInit) go(QpState::kInit, TwoEngines::kToInit);
    if (state >= QpState::kRtr) go(QpState::kRtr, TwoEngines::kToRtr);
    if (state >= QpState::kRts) go(QpState::kRts, TwoEngines::kToRts);
    if (state == QpState::kSqd) go(QpState::kSqd, kQpAttrState);
    return pair;
  }
  static Status move(TwoEngines& pair, QpState to, std::uint32_t mask) {
    QpAttributes a = pair.attributes(0);
    a.state = to;
    a.current_state = pair.state(0);
    return pair.side[0].engine->modify_qp(pair.side[0].qp, a, mask | kQpAttrState, pair.now);
  }
};

constexpr QpState kStates[] = {QpState::kReset, QpState::kInit, QpState::kRtr,
                               QpState::kRts,   QpState::kSqd,  QpState::kErr};

TEST_F(Modify, OnlyTheStandardsMovesAreTaken) {
  for (const QpState from : kStates) {
    for (const QpState to : {QpState::kInit, QpState::kRtr, QpState::kRts, QpState::kSqd, QpState::kSqe}) {
      const auto rule =
          std::find_if(kRules.begin(), kRules.end(), [&](const Rule& r) { return r.from == from && r.to == to; });
      const auto pair = in(from);
      const std::uint32_t mask = rule != kRules.end() ? rule->required : 0;
      EXPECT_EQ(move(*pair, to, mask).ok(), rule != kRules.end())
          << static_cast<int>(from) << " -> " << static_cast<int>(to);
      EXPECT_EQ(pair->state(0), rule != kRules.end() ? to : from);
    }
  }
}

TEST_F(Modify, EachRequiredBitIsRequired) {
  for (const Rule& rule : kRules) {
    for (std::uint32_t bit = 1; bit < (1u << 21); bit <<= 1) {
      if ((rule.required & bit) == 0) continue;
      const auto pair = in(rule.from);
      EXPECT_EQ(move(*pair, rule.to, rule.required & ~bit).error(), EINVAL) << bit;
      EXPECT_EQ(pair->state(0), rule.from);
    }
  }
}

TEST_F(Modify, OptionalBitsAreTakenAllOthersRefused) {
  for (const Rule& rule : kRules) {
    for (std::uint32_t bit = 1; bit < (1u << 21); bit <<= 1) {
      if ((bit & kEveryBit) == 0 || (rule.required & bit) != 0) continue;
      const auto pair = in(rule.from);
      const bool optional = (rule.optional & bit) != 0;
      EXPECT_EQ(move(*pair, rule.to, rule.required | bit).ok(), optional)
          << static_cast<int>(rule.from) << " -> " << static_cast<int>(rule.to) << " bit " << bit;
      EXPECT_EQ(pair->state(0), optional ? rule.to : rule.from);
    }
  }
}

TEST_F(Modify, ErrorAndResetAreReachedFromEverywhereAndTakeNothing) {
  for (const QpState from : kStates) {
    for (const QpState to : {QpState::kReset, QpState::kErr}) {
      const auto refused = in(from);
      EXPECT_EQ(move(*refused, to, kQpAttrAccess).error(), EINVAL);
      EXPECT_EQ(refused->state(0), from);
      const auto pair = in(from);
      EXPECT_TRUE(move(*pair, to, 0).ok());
      EXPECT_EQ(pair->state(0), to);
    }
  }
}

TEST_F(Modify, ImpossibleValuesChangeNothing) {
  const auto refuses = [](QpState from, QpState to, std::uint32_t mask, void (*spoil)(QpAttributes&)) {
    const auto pair = in(from);
    QpAttributes a = pair->attributes(0);
    a.state = to;
    spoil(a);
    const QpAttributes before = pair->side[0].engine->query_qp(pair->side[0].qp);
    const Status status = pair->side[0].engine->modify_qp(pair->side[0].qp, a, mask, pair->now);
    const QpAttributes after = pair->side[0].engine->query_qp(pair->side[0].qp);
    return status.error() == EINVAL && after.state == before.state && after.access == before.access &&
           after.destination_qpn == before.destination_qpn && after.timeout == before.timeout;
  };
  using S = QpState;
  EXPECT_TRUE(refuses(S::kReset, S::kInit, TwoEngines::kToInit, [](QpAttributes& a) { a.port = 2; }));
  EXPECT_TRUE(refuses(S::kReset, S::kInit, TwoEngines::kToInit, [](QpAttributes& a) { a.pkey_index = 1; }));
  EXPECT_TRUE(refuses(S::kReset, S::kInit, TwoEngines::kToInit, [](QpAttributes& a) { a.access = 1u << 31; }));
  const std::uint32_t rtr = TwoEngines::kToRtr, rts = TwoEngines::kToRts;
  EXPECT_TRUE(refuses(S::kInit, S::kRtr, rtr, [](QpAttributes& a) { a.path_mtu = static_cast<PathMtu>(0); }));
  EXPECT_TRUE(refuses(S::kInit, S::kRtr, rtr, [](QpAttributes& a) { a.path_mtu = static_cast<PathMtu>(6); }));
  EXPECT_TRUE(refuses(S::kInit, S::kRtr, rtr, [](QpAttributes& a) { a.destination_qpn = 1u << 24; }));
  EXPECT_TRUE(refuses(S::kInit, S::kRtr, rtr, [](QpAttributes& a) { a.min_rnr_timer = 32; }));
  EXPECT_TRUE(refuses(S::kInit, S::kRtr, rtr, [](QpAttributes& a) { a.max_dest_rd_atomic = 129; }));
  EXPECT_TRUE(refuses(S::kInit, S::kRtr, rtr, [](QpAttributes& a) { a.peer_address = IpAddress{}; }));
  EXPECT_TRUE(refuses(S::kInit, S::kRtr, rtr, [](QpAttributes& a) { a.peer_address.bytes[0] = 0xFD; }));
  EXPECT_TRUE(refuses(S::kRtr, S::kRts, rts, [](QpAttributes& a) { a.timeout = 32; }));
  EXPECT_TRUE(refuses(S::kRtr, S::kRts, rts, [](QpAttributes& a) { a.retry_count = 8; }));
  EXPECT_TRUE(refuses(S::kRtr, S::kRts, rts, [](QpAttributes& a) { a.rnr_retry = 8; }));
  EXPECT_TRUE(refuses(S::kRtr, S::kRts, rts, [](QpAttributes& a) { a.max_rd_atomic = 129; }));
  EXPECT_TRUE(refuses(S::kRtr, S::kRts, rts | kQpAttrCurrentState, [](QpAttributes& a) { a.current_state = S::kRts; }));
}

TEST_F(Modify, PostingFollowsTheState) {
  for (const QpState state : kStates) {
    const auto pair = in(state);
    const bool sends = state == QpState::kRts || state == QpState::kSqd || state == QpState::kErr;
    EXPECT_EQ(pair->post(0, pair->write(0, 0, 8, 1)).error(), sends ? 0 : EINVAL) << static_cast<int>(state);
    EXPECT_EQ(pair->post_receive(0, 0, 8, 2).error(), state != QpState::kReset ? 0 : EINVAL);
    if (state != QpState::kErr) continue;
    EXPECT_EQ(pair->poll(0).at(0).status, CompletionStatus::kFlushed);
    EXPECT_EQ(pair->poll_receives(0).at(0).status, CompletionStatus::kFlushed);
  }
}

TEST_F(Modify, ResetForgetsEverythingAndTheQueuePairWorksAgain) {
  TwoEngines pair;
  ASSERT_TRUE(pair.post(0, pair.write(0, 0, 5000, 1)).ok());
  pair.round();
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(pair.modify(i, QpState::kReset, kQpAttrState).ok());
  ASSERT_TRUE(pair.run_until_idle());
  EXPECT_TRUE(pair.poll(0).empty()) << "RESET completes nothing";
  pair.options.first_psn[0] = 0xFFFFFE;  // and the numbers wrap
  for (int i = 0; i < 2; ++i) pair.connect(i);
  pair.fill(0, 3);
  ASSERT_TRUE(pair.post(0, pair.write(0, 0, 5000, 2)).ok());
  ASSERT_TRUE(pair.run_until_idle());
  EXPECT_EQ(pair.poll(0).at(0).wr_id, 2u);
  EXPECT_TRUE(pair.same(0, 5000));
}

TEST_F(Modify, SqdFinishesBegunMessagesAndReportsWhenDrained) {
  PairOptions options;
  options.receive_packets = 8;  // a credit of eight packets: the message is in flight for some round trips
  TwoEngines pair{options};
  ASSERT_TRUE(pair.post(0, pair.write(0, 0, 100'000, 1)).ok());
  ASSERT_TRUE(pair.post(0, pair.write(0, 0, 5000, 2)).ok());
  pair.round();
  constexpr std::uint32_t kQpAttrSqdNotify = 4;
  ASSERT_TRUE(move(pair, QpState::kSqd, kQpAttrSqdNotify).ok());
  pair.side[0].notifications.clear();
  ASSERT_TRUE(pair.run_until_idle());
  const auto done = pair.poll(0);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].wr_id, 1u);
  ASSERT_EQ(pair.side[0].notifications.size(), 1u);
  EXPECT_EQ(pair.side[0].notifications[0].kind, Notification::Kind::kSqDrained);
  EXPECT_EQ(pair.side[0].notifications[0].user, &pair.side[0]);
  ASSERT_TRUE(move(pair, QpState::kRts, 0).ok());
  ASSERT_TRUE(pair.run_until_idle());
  EXPECT_EQ(pair.poll(0).at(0).wr_id, 2u);
}

// The cached checksum of a flow belongs to its addresses.
TEST_F(Modify, PacketsAreOfTheNewAddressesFromThenOn) {
  TwoEngines pair;
  pair.fill(0, 1);
  ASSERT_TRUE(pair.post(0, pair.write(0, 0, 5000, 1)).ok());
  ASSERT_TRUE(pair.run_until_idle());
  ASSERT_EQ(pair.poll(0).size(), 1u);
  for (auto& side : pair.side) side.address.bytes[15] ^= 0x40;
  for (int i = 0; i < 2; ++i) {
    QpAttributes a = pair.attributes(i);
    const auto modify = [&](QpState to, std::uint32_t mask) {
      a.state = to;
      EXPECT_TRUE(pair.side[i].engine->modify_qp(pair.side[i].qp, a, mask | kQpAttrState, pair.now).ok());
    };
    modify(QpState::kSqd, 0);
    modify(QpState::kSqd, kQpAttrAv);
    modify(QpState::kRts, 0);
  }
  std::size_t looked_at = 0;
  pair.drop = [&](const Sent& sent) {
    const wire::IcrcPath path{pair.side[sent.from].address, pair.side[1 - sent.from].address, sent.source_port,
                              kRoceUdpPort, 0};
    EXPECT_EQ(wire::packet_icrc(path, sent.bytes), wire::stored_icrc(sent.bytes));
    ++looked_at;
    return false;
  };
  pair.fill(0, 2);
  ASSERT_TRUE(pair.post(0, pair.write(0, 0, 5000, 2)).ok());
  ASSERT_TRUE(pair.run_until_idle());
  ASSERT_EQ(pair.poll(0).size(), 1u);
  EXPECT_TRUE(pair.same(0, 5000));
  EXPECT_GE(looked_at, 3u);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(pair.side[i].count(DropReason::kBadIcrc), 0u);
}

}  // namespace
}  // namespace brdma::test
