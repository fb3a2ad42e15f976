// The cost of an acknowledgement does not depend on the window. Counted: entries and words that the sender examines for
// each, and gaps that the receiver examines for a packet. (In instructions: tests/bench_micro/acknowledgements.)
// tests design BR-46, WT-5
#include <gtest/gtest.h>

#include <ostream>
#include <vector>

#include "bench_micro/long_path.h"
#include "qp/state/queue_pair.h"

namespace brdma::test {
namespace {

using bench_micro::LongPath;

struct Case {
  const char* name;
  RecoveryMode mode;
  std::uint32_t window;
};

std::ostream& operator<<(std::ostream& out, const Case& it) { return out << it.name << it.window; }

struct Looks {
  std::uint64_t sender = 0, acknowledgements = 0, receiver = 0, packets = 0;
  [[nodiscard]] double an_acknowledgement() const {
    return static_cast<double>(sender) / static_cast<double>(acknowledgements);
  }
  [[nodiscard]] double a_packet() const { return static_cast<double>(receiver) / static_cast<double>(packets); }
};

Looks so_far(const LongPath& path) {
  return {.sender = path.sender().qp->requester().snapshot().looked_at,
          .acknowledgements = path.of_sender(Counter::kAcksReceived),
          .receiver = path.receiver().qp->responder().snapshot().gaps_looked_at,
          .packets = path.of_receiver(Counter::kAcceptedPackets)};
}

// Over a round trip, when so many have been lost for two.
Looks look(const Case& it, std::uint32_t missing_ppm) {
  LongPath path{it.mode, it.window};
  const std::uint32_t trip = it.window / bench_micro::kStep;  // steps
  for (std::uint32_t i = 0; i < trip + 64; ++i) path.step(0);
  for (std::uint32_t i = 0; i < 2 * trip + 64; ++i) path.step(missing_ppm);
  const Looks before = so_far(path);
  for (std::uint32_t i = 0; i < trip + 64; ++i) path.step(missing_ppm);
  const Looks after = so_far(path);
  return {.sender = after.sender - before.sender,
          .acknowledgements = after.acknowledgements - before.acknowledgements,
          .receiver = after.receiver - before.receiver,
          .packets = after.packets - before.packets};
}

// An acknowledgement reports 64 packets. Each is examined when it is reported, when it leaves the window, and, if the
// sender judges losses itself, in its log. Repeated reports and missing packets add to that: the bits of an
// acknowledgement are 64 words at most.
constexpr double kLooksMax = 3 * 64 + 8, kLooksMaxMissing = kLooksMax + 4 * 64;
// Gaps for a packet; all are examined when one has to be named again.
constexpr double kGapsMax = 2;

class AcknowledgementCost : public testing::TestWithParam<Case> {};

TEST_P(AcknowledgementCost, IsThatOfTheReportedPackets) {
  const Looks looks = look(GetParam(), 0);
  EXPECT_GT(looks.acknowledgements, GetParam().window / 128);
  EXPECT_GT(looks.an_acknowledgement(), 64) << "nothing is counted";
  EXPECT_LE(looks.an_acknowledgement(), kLooksMax);
  EXPECT_EQ(looks.receiver, 0u);
}

TEST_P(AcknowledgementCost, DoesNotGrowWithWhatIsMissing) {
  const Looks looks = look(GetParam(), 10'000);
  EXPECT_GT(looks.acknowledgements, GetParam().window / 128);
  EXPECT_GT(looks.an_acknowledgement(), 64) << "nothing is counted";
  EXPECT_LE(looks.an_acknowledgement(), kLooksMaxMissing) << GetParam().window / 100 << " packets are missing";
  EXPECT_LE(looks.a_packet(), kGapsMax);
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const std::uint32_t window : {1000u, 10'000u, 100'000u, 300'000u}) {
    all.push_back({"bitmap", RecoveryMode::kBitmap, window});
    all.push_back({"selective", RecoveryMode::kSelective, window});
    all.push_back({"wan", RecoveryMode::kWan, window});
    all.push_back({"wan_ffm", RecoveryMode::kWanFeedback, window});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(OverPolicyAndWindow, AcknowledgementCost, testing::ValuesIn(cases()),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace brdma::test
