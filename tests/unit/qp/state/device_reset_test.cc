// RESET and a new connection: nothing that was learnt of the old peer and its paths is kept. The new connection sends
// the same packets at the same times as the first connection of a new queue pair, over a network with the same faults.
#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <ostream>
#include <string>
#include <tuple>
#include <vector>

#include "support/two_engines.h"

namespace brdma::test {
namespace {

struct Kind {
  const char* name;
  RecoveryMode mode = RecoveryMode::kBitmap;
  std::uint16_t paths = 1;
  CongestionControl control = CongestionControl::kWindow;
  friend void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }
};

class Restarted : public testing::TestWithParam<Kind> {
 protected:
  static PairOptions options() {
    PairOptions options;
    options.mode[0] = options.mode[1] = GetParam().mode;
    options.paths = GetParam().paths;
    options.recovery.congestion.control = GetParam().control;
    options.connect = options.settle = false;
    return options;
  }
  // Loses, delays and repeats packets of both sides, the same ones of each connection.
  static void make_faulty(TwoEngines& pair) {
    pair.drop = [n = 0](const Sent&) mutable { return ++n % 17 == 5; };
    pair.extra_delay = [n = 0](const Sent&) mutable { return ++n % 13 == 3 ? 40_us : Duration{}; };
    pair.duplicates = [n = 0](const Sent&) mutable { return ++n % 19 == 4 ? 1u : 0u; };
  }
  static void transfer(TwoEngines& pair, std::uint64_t wr_id) {
    for (int i = 0; i < 2; ++i) {
      ASSERT_TRUE(pair.post_receive(i, 0x2'0000, 8000, wr_id).ok());
      ASSERT_TRUE(pair.post(i, pair.write(i, 0, 40'000, wr_id)).ok());
      ASSERT_TRUE(pair.post(i, pair.request(i, WorkOpcode::kRdmaRead, 0x1'0000, 30'000, wr_id + 1)).ok());
      ASSERT_TRUE(pair.post(i, pair.request(i, WorkOpcode::kSend, 0, 8000, wr_id + 2)).ok());
    }
    ASSERT_TRUE(pair.run_until_idle());
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(pair.poll(i).size(), 3u);
      EXPECT_EQ(pair.poll_receives(i).size(), 1u);
    }
  }
  // Acknowledgements of side 1 are lost until side 0 has repeated a packet some times: they are to take another path.
  static void lose_acknowledgements(TwoEngines& pair, std::uint64_t wr_id) {
    pair.drop = [](const Sent& sent) { return sent.from == 1; };
    ASSERT_TRUE(pair.post(0, pair.write(0, 0, 100, wr_id)).ok());
    pair.run_for(40_ms);
    pair.drop = nullptr;
    ASSERT_TRUE(pair.run_until_idle());
    EXPECT_EQ(pair.poll(0).size(), 1u);
  }
  using Line = std::tuple<std::int64_t, int, unsigned, std::uint32_t, std::size_t, std::uint16_t>;
  // What both sides send from now on, at which times since now, by which source port.
  static std::vector<Line> first_packets(TwoEngines& pair) {
    pair.wire.clear();
    const Instant begin = pair.now;
    for (int i = 0; i < 2; ++i) pair.connect(i);
    pair.run_for(2_ms);
    make_faulty(pair);
    transfer(pair, 100);
    std::vector<Line> lines;
    for (const Sent& sent : pair.wire)
      lines.emplace_back((sent.at - begin).ns(), sent.from, sent.bth().opcode, sent.psn(), sent.bytes.size(),
                         sent.source_port);
    return lines;
  }
};

TEST_P(Restarted, ItSendsWhatANewQueuePairSends) {
  TwoEngines old{options()}, fresh{options()};
  for (int i = 0; i < 2; ++i) old.connect(i);
  old.run_for(2_ms);
  old.traffic_class = 3;  // each packet is marked
  for (std::uint64_t round = 0; round < 20; ++round) {
    make_faulty(old);
    transfer(old, round * 3);
  }
  lose_acknowledgements(old, 99);
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(old.modify(i, QpState::kReset, kQpAttrState).ok());
  old.traffic_class = 0;
  old.drop = nullptr;
  old.extra_delay = nullptr;
  old.duplicates = nullptr;
  ASSERT_TRUE(old.run_until_idle());
  fresh.run_for(old.now - fresh.now);  // kept times are rounded
  const auto expected = first_packets(fresh), sent = first_packets(old);
  const auto differ = std::mismatch(sent.begin(), sent.end(), expected.begin(), expected.end());
  ASSERT_TRUE(differ.first == sent.end() && differ.second == expected.end())
      << "packet " << differ.first - sent.begin() << " of " << sent.size() << ", " << expected.size() << ": "
      << (differ.first == sent.end() ? "none" : testing::PrintToString(*differ.first)) << " instead of "
      << (differ.second == expected.end() ? "none" : testing::PrintToString(*differ.second));
}

// The next peer may be of another version, or may not know bitmap mode.
TEST_P(Restarted, NothingIsKeptOfThePeersAnnouncements) {
  TwoEngines pair{options()};
  for (int i = 0; i < 2; ++i) pair.connect(i);
  pair.run_for(2_ms);
  transfer(pair, 1);
  ASSERT_TRUE(pair.modify(0, QpState::kReset, kQpAttrState).ok());
  const qp::Identity& id = pair.side[0].qp->identity();
  EXPECT_FALSE(id.bitmap_agreed);
  EXPECT_THAT((std::array{id.peer_reads_piggybacks, id.peer_reads_operations, id.peer_reads_ranges,
                          id.peer_reads_waited, id.peer_knows_copies, id.peer_knows_link_state}),
              testing::Each(false));
  EXPECT_EQ(id.own_token, 0u);
  EXPECT_EQ(id.peer_token, 0u);
  EXPECT_EQ(id.peer_window, 0u);
  EXPECT_EQ(id.peer_credit.packets, 0u);
  EXPECT_EQ(id.sending_paths, 1u);
  EXPECT_EQ(id.receiving_paths, 1u);
}

constexpr Kind kKinds[] = {
    {"Bitmap"},
    {"Standard", RecoveryMode::kStandard},
    {"GoBackN", RecoveryMode::kGoBackN},
    {"Selective", RecoveryMode::kSelective},
    {"Wan", RecoveryMode::kWan},
    {"WanFeedback", RecoveryMode::kWanFeedback},
    {"Paths", RecoveryMode::kBitmap, 4},
    {"Timely", RecoveryMode::kBitmap, 1, CongestionControl::kTimely},
    {"TimelyAndDcqcn", RecoveryMode::kBitmap, 1, CongestionControl::kBoth},
    {"Paced", RecoveryMode::kBitmap, 4, CongestionControl::kPaced},
};
INSTANTIATE_TEST_SUITE_P(Kinds, Restarted, testing::ValuesIn(kKinds),
                         [](const auto& kind) { return std::string{kind.param.name}; });

}  // namespace
}  // namespace brdma::test
