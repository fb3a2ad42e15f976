// Models of other protocols in a simulated network: one flow alone to the nanosecond, losses repaired, switches'
// reports and marks, hosts that do not understand each other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "run/models.h"
#include "run/simulation.h"
#include "scenario/scenario_file.h"
#include "scenario/table_reader.h"

namespace brdma::simulator {
namespace {

constexpr const char* kOne = R"([topology]
kind = "dumbbell"
hosts = 1
[workload]
bytes = 1000
flows = 1
)";

RunResult run(const std::vector<std::string>& changes) {
  return run_scenario(parse_scenario(kOne, "file", changes), 1);
}

std::string named(std::string_view name) { return "protocol.name=" + std::string{name}; }

std::uint64_t resent(const RunResult& result) {
  std::uint64_t sum = 0;
  for (const auto& [cause, packets] : result.retransmitted) sum += packets;
  return sum;
}

TEST(SimulatorModels, OneFlowTakesItsTimeToTheNanosecond) {
  ASSERT_FALSE(model_names().empty());
  for (const std::string_view name : model_names()) {
    for (const char* bytes : {"1", "1000", "8000"}) {
      const RunResult result = run({named(name), std::string{"workload.bytes="} + bytes});
      EXPECT_EQ(result.flows[0].took, result.flows[0].alone) << name << " " << bytes;
      EXPECT_EQ(resent(result), 0u) << name;
    }
  }
}

TEST(SimulatorModels, EveryFlowIsDoneInSpiteOfLosses) {
  for (const std::string_view name : model_names()) {
    if (name == "rdma-notimer") continue;  // it has no timer: a flow whose last packet is lost never ends
    const RunResult result = run({named(name), "network.loss=1%", "workload.flows=40", "workload.bytes=60kb"});
    for (const FlowResult& flow : result.flows) EXPECT_TRUE(flow.took) << name;
    EXPECT_GT(resent(result), 0u) << name;
    EXPECT_GT(result.links.lost, 0u) << name;
  }
}

TEST(SimulatorModels, SwitchesReportDropsToThoseThatApplyThem) {
  const std::vector<std::string> lossy{"network.loss=1%", "workload.flows=40", "workload.bytes=60kb"};
  std::vector<std::string> plain = lossy, notified = lossy;
  plain.push_back(named("irn"));
  notified.push_back(named("irn-edn"));
  EXPECT_EQ(run(plain).notices, 0u);
  const RunResult result = run(notified);
  EXPECT_GT(result.notices, 0u);
  EXPECT_GT(result.retransmitted.at("retransmitted_by_edn"), 0u);
}

TEST(SimulatorModels, OneSeedHasOneResult) {
  const std::vector<std::string> lossy{named("dcqcn"), "network.loss=1%", "workload.flows=40", "workload.bytes=60kb"};
  const RunResult a = run(lossy), b = run(lossy);
  for (std::size_t i = 0; i < a.flows.size(); ++i) EXPECT_EQ(a.flows[i].took, b.flows[i].took);
  EXPECT_EQ(a.links.forwarded, b.links.forwarded);
}

TEST(SimulatorModels, ModelsAndEnginesDoNotUnderstandEachOther) {
  const std::string mixed = std::string{kOne} + "[[group]]\nhosts = \"h2\"\nname = \"tcp\"\n";
  try {
    (void)run_scenario(parse_scenario(mixed, "file"), 1);
    FAIL();
  } catch (const ScenarioError& error) {
    EXPECT_THAT(error.what(),
                testing::HasSubstr("h1 (bitmap) to h2 (tcp): these protocols do not understand each other"));
  }
  EXPECT_THROW((void)parse_scenario(kOne, "file", {named("tcp"), "protocol.timeout=3"}), ScenarioError);
}

}  // namespace
}  // namespace brdma::simulator
