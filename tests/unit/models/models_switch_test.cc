// A switch's memory: thresholds, pause and resume of HPCC's and the SONiC-like rule, ECN.
#include <gtest/gtest.h>

#include <optional>

#include "models/switch/ecn.h"
#include "models/switch/mmu.h"

namespace brdma::models {
namespace {

const Bandwidth k100G = Bandwidth::from_bps(100'000'000'000);
const Bandwidth k400G = Bandwidth::from_bps(400'000'000'000);

TEST(Headroom, OfTheThreeSimulators) {
  EXPECT_EQ(headroom_hpcc(k100G, 1_us), 37'500u);
  EXPECT_EQ(headroom_hpcc(k400G, 1_us), 150'000u);
  EXPECT_EQ(headroom_conweave(k100G, 1_us, 1048), 27'096u);
  EXPECT_EQ(headroom_conweave(k400G, 1_us, 1048), 102'096u);
  EXPECT_EQ(headroom_reverie(k100G, 1_us, 1000), 30'956u);
  EXPECT_EQ(headroom_reverie(k400G, 1_us, 1000), 105'956u);
}

TEST(HpccShift, FallsWithEachDoublingOfTheRate) {
  EXPECT_EQ(shift_hpcc(k100G, k100G), 3u);
  EXPECT_EQ(shift_hpcc(Bandwidth::from_bps(200'000'000'000), k100G), 2u);
  EXPECT_EQ(shift_hpcc(k400G, k100G), 1u);
  EXPECT_EQ(shift_hpcc(Bandwidth::from_bps(3'200'000'000'000), k100G), 0u);
}

// Two ports, 10,000 bytes to share, alpha 1/2, packets of 1000 bytes.
HpccMmu::Settings hpcc() {
  HpccMmu::Settings settings;
  settings.reserve = 4000;
  settings.resume_offset = 3000;
  settings.ports = {{1, 3000}, {1, 3000}};
  settings.buffer = 10'000 + 2 * 4000 + 2 * 3000;
  return settings;
}

constexpr Passage kPacket{0, 1, 0, 1000};

TEST(HpccMmu, ReserveThenSharedMemoryThenHeadroom) {
  HpccMmu mmu{hpcc()};
  EXPECT_EQ(mmu.threshold(0), 5000u);
  for (int i = 0; i < 4; ++i) EXPECT_FALSE(mmu.admit(kPacket).pause);
  EXPECT_EQ(mmu.threshold(0), 5000u);  // the reserve is not shared
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(mmu.admit(kPacket).pause);
  EXPECT_EQ(mmu.threshold(0), 3500u);  // (10,000 - 3000) / 2; the class uses 3000
  const Admission eighth = mmu.admit(kPacket);
  EXPECT_TRUE(eighth.accepted && eighth.pause);  // 4000 > 3500: into the headroom
  EXPECT_EQ(mmu.threshold(0), 3500u);
  EXPECT_TRUE(mmu.admit(kPacket).accepted);
  const Admission tenth = mmu.admit(kPacket);
  EXPECT_TRUE(tenth.accepted);
  EXPECT_FALSE(tenth.pause);                  // it is paused already
  EXPECT_FALSE(mmu.admit(kPacket).accepted);  // the headroom is full
  EXPECT_EQ(mmu.used(), 10'000u);
}

TEST(HpccMmu, ResumesBelowTheThresholdByItsOffset) {
  HpccMmu mmu{hpcc()};
  for (int i = 0; i < 10; ++i) mmu.admit(kPacket);
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(mmu.left(kPacket));  // empties the headroom: shared 3000 + 3000 > 3500
  EXPECT_FALSE(mmu.left(kPacket));                              // 2000 + 3000 > 4000
  EXPECT_TRUE(mmu.left(kPacket));                               // 1000 + 3000 <= 4500
  EXPECT_FALSE(mmu.left(kPacket));
  EXPECT_EQ(mmu.used(), 4000u);
}

TEST(HpccMmu, APauseAtTheThresholdItself) {
  HpccMmu::Settings settings = hpcc();
  settings.ports = {{0, 3000}, {0, 3000}};
  HpccMmu mmu{settings};
  int accepted = 0;
  while (!mmu.admit(kPacket).pause) ++accepted;
  EXPECT_EQ(accepted, 8);  // the ninth makes 5000 of 10,000 - 5000
}

TEST(HpccMmu, AnotherPortsUseLowersTheThreshold) {
  HpccMmu mmu{hpcc()};
  for (int i = 0; i < 7; ++i) mmu.admit({1, 0, 0, 1000});
  EXPECT_EQ(mmu.threshold(0), 3500u);
  for (int i = 0; i < 6; ++i) EXPECT_FALSE(mmu.admit(kPacket).pause);
  EXPECT_TRUE(mmu.admit(kPacket).pause);  // 3000 > (10,000 - 5000) / 2
}

// Packets that are dropped when a neighbour sends all the time and the egress is blocked. It finishes its packet when
// the pause comes; both directions take 1 us. `wait`: of the PFC frame, for a packet on the way back.
int drops_with(std::uint64_t headroom, Duration wait) {
  constexpr std::uint32_t kMtu = 1048;
  const Duration packet = k100G.time_for(kMtu);
  HpccMmu::Settings settings;
  settings.ports = {{3, headroom}, {3, headroom}};
  settings.buffer = 1'000'000;
  HpccMmu mmu{settings};
  std::optional<Duration> stops_at;  // the neighbour
  int drops = 0;
  Duration arrives = packet;
  while (!stops_at || arrives - packet - 1_us < *stops_at) {  // when this packet's first bit left
    const Admission admission = mmu.admit({0, 1, 0, kMtu});
    if (!admission.accepted) ++drops;
    if (admission.pause) stops_at = arrives + wait + 1_us;
    arrives = arrives + packet;
  }
  return drops;
}

TEST(PfcHeadroom, TwoDelaysAndTwoPacketsLoseNothingAndOnePacketLessDoes) {
  const std::uint64_t needed = headroom_conweave(k100G, 1_us, 1048);
  EXPECT_EQ(drops_with(needed, 0_us), 0);
  EXPECT_EQ(drops_with(needed - 1048, 0_us), 1);
  EXPECT_EQ(drops_with(needed - 5 * 1048, 0_us), 5);
}

// The packet that passes the threshold is in the headroom, too. So a pause that waits for a packet needs a third one.
TEST(PfcHeadroom, APauseThatWaitsForAPacketNeedsOneMore) {
  const std::uint64_t enough = headroom_conweave(k100G, 1_us, 1048);
  const Duration packet = k100G.time_for(1048);
  EXPECT_EQ(drops_with(enough, packet), 1);
  EXPECT_EQ(drops_with(enough + 1048, packet), 0);
  EXPECT_EQ(drops_with(headroom_hpcc(k100G, 1_us), packet), 0);
}

SonicMmu::Settings sonic() {
  SonicMmu::Settings settings;
  settings.ports = 2;
  settings.priorities = 2;  // 0 lossless, 1 lossy
  settings.ingress_pool = 10'000;
  settings.lossy_egress_pool = 6000;
  settings.buffer = 20'000;
  settings.headroom = 2000;
  return settings;
}

TEST(SonicMmu, DefaultsAreTheSimulators) {
  const SonicMmu::Settings defaults;
  EXPECT_EQ(defaults.buffer, 25'165'824u);
  EXPECT_EQ(defaults.ingress_pool, 18'874'368u);
  EXPECT_EQ(defaults.lossy_egress_pool, 14'680'064u);
  EXPECT_EQ(defaults.xon, 1248u);
  EXPECT_EQ(defaults.xon_offset, 2496u);
}

TEST(SonicMmu, HeadroomBeginsAboveTheThresholdAndTakesAllUntilItIsEmpty) {
  SonicMmu mmu{sonic()};
  EXPECT_EQ(mmu.ingress_threshold(), 10'000u);
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(mmu.admit(kPacket).pause);
  EXPECT_EQ(mmu.ingress_threshold(), 5000u);
  EXPECT_TRUE(mmu.admit(kPacket).pause);  // 6000 > 10,000 - 6000
  EXPECT_TRUE(mmu.admit(kPacket).accepted);
  EXPECT_FALSE(mmu.admit(kPacket).accepted);  // 2000 of headroom
  EXPECT_FALSE(mmu.left(kPacket));
  EXPECT_FALSE(mmu.left(kPacket));  // headroom empty; 5000 + 2496 > 5000
  EXPECT_FALSE(mmu.left(kPacket));  // 4000 + 2496 > 6000
  EXPECT_TRUE(mmu.left(kPacket));   // 3000 + 2496 <= 7000
}

TEST(SonicMmu, AClassInHeadroomStaysThereAlthoughTheThresholdRises) {
  SonicMmu mmu{sonic()};
  constexpr Passage kOther{1, 0, 0, 1000};
  for (int i = 0; i < 3; ++i) mmu.admit(kOther);
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(mmu.admit(kPacket).pause);
  EXPECT_TRUE(mmu.admit(kPacket).pause);  // 4000 > 10,000 - 7000
  for (int i = 0; i < 3; ++i) mmu.left(kOther);
  EXPECT_TRUE(mmu.admit(kPacket).accepted);   // the second packet of 2000 bytes of headroom
  EXPECT_FALSE(mmu.admit(kPacket).accepted);  // although 6000 <= 7000
}

TEST(SonicMmu, ResumesBelowXonWhateverOthersUse) {
  SonicMmu::Settings settings = sonic();
  settings.alpha_ingress = 0.125;
  SonicMmu mmu{settings};
  for (int i = 0; i < 3; ++i) mmu.admit({1, 0, 0, 1000});
  mmu.admit({0, 1, 0, 500});
  EXPECT_TRUE(mmu.admit(kPacket).pause);
  EXPECT_TRUE(mmu.left({0, 1, 0, 1000}));  // 500 < 1248
}

TEST(SonicMmu, LossyPacketsAreDroppedAtTheEgressThreshold) {
  SonicMmu mmu{sonic()};
  constexpr Passage kLossy{0, 1, 1, 1000};
  int accepted = 0;
  while (mmu.admit(kLossy).accepted) ++accepted;
  EXPECT_EQ(accepted, 3);  // 4000 > 6000 - 3000
  EXPECT_FALSE(mmu.left(kLossy));
  EXPECT_TRUE(mmu.admit(kLossy).accepted);
}

TEST(LossyMmu, OneQueueGetsHalfOfTheMemoryTwoAThirdEach) {
  LossyMmu::Settings settings;
  settings.buffer = 12'000;
  settings.ports = 3;
  LossyMmu mmu{settings};
  int one = 0;
  while (mmu.admit({0, 1, 0, 1000}).accepted) ++one;
  EXPECT_EQ(one, 6);
  LossyMmu shared{settings};
  int both = 0;
  while (shared.admit({0, 1, 0, 1000}).accepted && shared.admit({0, 2, 0, 1000}).accepted) both += 2;
  EXPECT_EQ(both, 8);
  EXPECT_EQ(shared.used(), 8000u);
}

TEST(Ecn, RisesFromKminToPmaxAtKmax) {
  const EcnThresholds ecn = EcnThresholds::hpcc(k100G);
  EXPECT_EQ(ecn.minimum, 400'000u);
  EXPECT_EQ(ecn.maximum, 1'600'000u);
  EXPECT_EQ(ecn.per_million(400'000), 0u);
  EXPECT_EQ(ecn.per_million(1'000'000), 100'000u);
  EXPECT_EQ(ecn.per_million(1'600'000), 200'000u);
  EXPECT_EQ(ecn.per_million(1'600'001), 1'000'000u);
}

TEST(Ecn, StepOfDctcp) {
  const EcnThresholds ecn = EcnThresholds::dctcp(k100G);
  EXPECT_EQ(ecn.per_million(300'000), 0u);
  EXPECT_EQ(ecn.per_million(300'001), 1'000'000u);
}

TEST(Ecn, MarksItsShare) {
  Random random{1};
  const EcnThresholds ecn = EcnThresholds::conweave();
  int marked = 0;
  for (int i = 0; i < 100'000; ++i) marked += ecn.marks(250'000, random) ? 1 : 0;
  EXPECT_NEAR(marked, 10'000, 400);  // half of 20 %, four standard deviations
}

}  // namespace
}  // namespace brdma::models
