// READs from a peer that speaks plain RoCE and responds as Linux's Soft-RoCE does (kernel 6.1). A READ that is
// requested again from its third packet on begins there from then on; a repetition that begins before that is dropped
// silently.
#include <gmock/gmock.h>

#include <map>

#include "support/seeds.h"
#include "support/two_engines.h"

namespace brdma::test {
namespace {

using testing::ElementsAre;
using testing::Pair;

constexpr std::uint32_t kBytes = 8 * 1024;  // a READ's: eight responses

PairOptions standard(RecoveryMode mode = RecoveryMode::kStandard) {
  PairOptions options;
  options.mode[0] = mode;
  options.mode[1] = RecoveryMode::kStandard;
  options.max_rd_atomic = 16;
  return options;
}

// Side 0's READ requests that such a responder drops. A READ is known by the PSN of its first request.
class LinuxResponder {
 public:
  bool refuses(const Sent& sent) {
    if (sent.from != 0 || !sent.data()) return false;
    const wire::Packet request = sent.packet();
    const std::uint32_t psn = sent.psn();
    const std::uint32_t end = psn + (request.reth.length + 1023) / 1024;
    auto read = reads_.upper_bound(psn);
    if (read == reads_.begin() || std::prev(read)->second.end < end) {
      reads_[psn] = {psn, end};
      return false;
    }
    Read& known = std::prev(read)->second;
    if (psn < known.begin) return ++refused, true;
    known.begin = psn;
    return false;
  }
  int refused = 0;

 private:
  struct Read {
    std::uint32_t begin, end;
  };
  std::map<std::uint32_t, Read> reads_;  // by first PSN
};

bool is_answer(const Sent& sent) {
  return sent.from == 1 && sent.bth().opcode < wire::kTransportControl && wire::is_read_response(sent.packet().op);
}

// PSN and packets of each READ request.
std::vector<std::pair<std::uint32_t, std::uint32_t>> asked(const TwoEngines& pair) {
  std::vector<std::pair<std::uint32_t, std::uint32_t>> requests;
  for (const Sent& sent : pair.wire) {
    if (sent.from == 0 && sent.data()) requests.emplace_back(sent.psn(), sent.packet().reth.length / 1024);
  }
  return requests;
}

void read(TwoEngines& pair, std::uint64_t offset) {
  ASSERT_TRUE(pair.post(0, pair.request(0, WorkOpcode::kRdmaRead, offset, kBytes, 1)).ok());
}

// 1002 is lost twice, 1005 once: the new request begins with 1002 as long as that is missing.
TEST(ReadsOfAStandardPeer, AreRequestedAgainFromTheOldestMissing) {
  TwoEngines pair{standard()};
  pair.fill(1, 7);
  pair.drop = [](const Sent& s) {
    return is_answer(s) && ((s.psn() == 1002 && s.copy <= 2) || (s.psn() == 1005 && s.copy == 1));
  };
  read(pair, 0);
  ASSERT_TRUE(pair.run_until_idle());
  ASSERT_EQ(pair.poll(0).size(), 1u);
  EXPECT_TRUE(pair.same(0, kBytes));
  const auto requests = asked(pair);
  ASSERT_GE(requests.size(), 3u);
  EXPECT_EQ(requests[0], (std::pair{1000u, 8u}));
  for (std::size_t i = 1; i < requests.size(); ++i) EXPECT_EQ(requests[i].first, 1002u) << i;
}

// And from the next one after it has arrived.
TEST(ReadsOfAStandardPeer, ArrivedResponsesAreNotRequestedAgain) {
  TwoEngines pair{standard()};
  pair.drop = [](const Sent& s) {
    return is_answer(s) && ((s.psn() == 1002 && s.copy == 1) || (s.psn() == 1005 && s.copy <= 2));
  };
  read(pair, 0);
  ASSERT_TRUE(pair.run_until_idle());
  EXPECT_EQ(pair.poll(0).size(), 1u);
  const auto requests = asked(pair);
  EXPECT_EQ(requests.back(), (std::pair{1005u, 1u}));
}

// A peer of this library is asked for the missing responses, and nothing else.
TEST(ReadsOfAStandardPeer, BitmapModeRequestsTheMissingOnly) {
  PairOptions options;
  TwoEngines pair{options};
  pair.drop = [](const Sent& s) { return is_answer(s) && s.copy == 1 && (s.psn() == 1002 || s.psn() == 1005); };
  read(pair, 0);
  ASSERT_TRUE(pair.run_until_idle());
  EXPECT_EQ(pair.poll(0).size(), 1u);
  EXPECT_THAT(asked(pair), ElementsAre(Pair(1000u, 8u), Pair(1002u, 1u), Pair(1005u, 1u)));
}

class LossyReads : public testing::TestWithParam<RecoveryMode> {};

TEST_P(LossyReads, NeverRequestPacketsThatSuchAResponderRefuses) {
  for_each_seed(40, [](Random& random) {
    TwoEngines pair{standard(GetParam())};
    pair.fill(1, random.next());
    LinuxResponder responder;
    pair.drop = [&](const Sent& s) {
      const bool lost = (is_answer(s) || (s.from == 0 && s.data())) && random.below(10) == 0;
      return lost || responder.refuses(s);
    };
    constexpr std::uint64_t kReads = 32;
    for (std::uint64_t i = 0; i < kReads; ++i) read(pair, i * kBytes);
    ASSERT_TRUE(pair.run_until_idle(60_s));
    const auto completions = pair.poll(0);
    ASSERT_EQ(completions.size(), kReads);
    for (const Completion& completion : completions) ASSERT_EQ(completion.status, CompletionStatus::kSuccess);
    EXPECT_TRUE(pair.same(0, kReads * kBytes));
    EXPECT_EQ(responder.refused, 0);
  });
}

INSTANTIATE_TEST_SUITE_P(Modes, LossyReads,
                         testing::Values(RecoveryMode::kStandard, RecoveryMode::kBitmap, RecoveryMode::kGoBackN),
                         [](const auto& mode) {
                           return mode.param == RecoveryMode::kStandard ? "standard"
                                  : mode.param == RecoveryMode::kBitmap ? "bitmap"
                                                                        : "go_back_n";
                         });

// Responses of later READs show at once that a re-request was lost too. It is repeated no sooner than the setting
// allows, as a packet that an FFM names.
TEST(Reads, ALostResponseIsRequestedAgainOnceInTheShortestInterval) {
  PairOptions options;
  options.max_rd_atomic = 16;
  TwoEngines pair{options};
  pair.fill(1, 7);
  std::vector<Instant> requested;
  int losses = 0;
  pair.drop = [&](const Sent& s) {
    if (s.from == 0 && s.data() && s.psn() <= 1002 && s.psn() + s.packet().reth.length / 1024 > 1002)
      requested.push_back(pair.now);
    return is_answer(s) && s.psn() == 1002 && losses++ < 3;
  };
  for (int i = 0; i < 400; ++i) {
    read(pair, 0);
    pair.run_for(2_us);
    pair.poll(0);
  }
  pair.run_for(10_ms);
  EXPECT_EQ(losses, 4);
  ASSERT_EQ(requested.size(), 4u);
  const Duration shortest = RecoveryConfig{}.resend_interval_min;
  for (std::size_t i = 2; i < requested.size(); ++i) {
    EXPECT_GE(requested[i] - requested[i - 1], shortest - 1_us) << "times of packets are kept in coarse units";
    EXPECT_LE(requested[i] - requested[i - 1], shortest + 10_us) << "the evidence is not forgotten meanwhile";
  }
}

}  // namespace
}  // namespace brdma::test
