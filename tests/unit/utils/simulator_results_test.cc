// brdma sim: whole runs on small networks against worked numbers; one seed, one digest; summaries.
#include <gtest/gtest.h>

#include "results/summary.h"
#include "run/simulation.h"
#include "scenario/scenario_file.h"
#include "scenario/table_reader.h"
#include "sweep.h"

namespace brdma::simulator {
namespace {

constexpr const char* kOne = R"([topology]
kind = "dumbbell"
hosts = 1
[workload]
bytes = 4096
flows = 1
)";

RunResult run(const std::string& text, const std::vector<std::string>& changes = {}, std::uint64_t seed = 1) {
  return run_scenario(parse_scenario(text, "file", changes), seed);
}

// Three links of 100 Gbit/s and 1 us. A bitmap packet of 4096 bytes: 12 + 32 + 16 + 4 + 42 + 4096 = 4202 bytes, 336.16
// ns; its acknowledgement 12 + 52 + 4 + 42 = 110 bytes, 8.8 ns. 3 * (1336 + 1008) = 7032.
TEST(SimulatorRun, OneFlowTakesItsTimeToTheNanosecond) {
  EXPECT_EQ(run(kOne).flows[0].took, Duration::from_ns(7032));
  EXPECT_EQ(run(kOne).flows[0].alone, Duration::from_ns(7032));
  for (const char* name : {"bitmap", "selective", "standard", "gobackn", "bitmap-edn"}) {
    for (const char* bytes : {"1", "63", "4096", "4097", "50000"}) {
      for (const char* mtu : {"1024", "4096"}) {
        const RunResult result = run(kOne, {std::string{"protocol.name="} + name,
                                            std::string{"workload.bytes="} + bytes, std::string{"network.mtu="} + mtu});
        EXPECT_EQ(result.flows[0].took, result.flows[0].alone) << name << " " << bytes << " " << mtu;
      }
    }
  }
}

// Without congestion control 10 MiB keep the slowest link busy: 2560 packets of 840.4 ns. One packet more on each of
// the others (336.16 ns), the acknowledgement on all three (8.8, 22, 8.8 ns), and six times 1 us: 2,158,136 ns.
TEST(SimulatorRun, ALongFlowFillsTheLink) {
  const RunResult result = run(kOne, {"workload.bytes=10mb", "protocol.settings.control=none", "core.rate=40gbit"});
  EXPECT_EQ(result.flows[0].took, result.flows[0].alone);
  EXPECT_NEAR(static_cast<double>(result.flows[0].took->ns()), 2'158'136, 5);  // each hop rounds down
}

constexpr const char* kIncastWorld = R"([topology]
kind = "incast"
hosts = 6
[network]
queue = "64kb"
[workload]
sizes = "google_all_rpc_w3"
load = 0.6
flows = 300
)";

TEST(SimulatorRun, OneSeedHasOneDigest) {
  const std::string text =
      std::string{kIncastWorld}.replace(std::string{kIncastWorld}.find("sizes"), 27, "bytes = \"20kb\"    ");
  const Scenario scenario = parse_scenario(text, "file");
  const std::string first = summary_of(scenario, run_scenario(scenario, 1)).dump();
  EXPECT_EQ(first, summary_of(scenario, run_scenario(scenario, 1)).dump());
  EXPECT_NE(first, summary_of(scenario, run_scenario(scenario, 2)).dump());
}

TEST(SimulatorRun, PacketsThatAreLostAreCountedByCause) {
  const std::vector<std::string> loss{"network.loss=2%", "workload.flows=200", "workload.bytes=100kb"};
  const RunResult result = run(kOne, loss);
  EXPECT_GT(result.links.lost, 0u);
  std::uint64_t resent = 0;
  for (const auto& [cause, packets] : result.retransmitted) resent += packets;
  EXPECT_GT(resent, 0u);
  for (const FlowResult& flow : result.flows) EXPECT_TRUE(flow.took);
  std::vector<std::string> notified = loss;
  notified.insert(notified.end(), {"protocol.name=bitmap-edn"});
  EXPECT_GT(run(kOne, notified).notices, 0u);
  EXPECT_GT(run(kOne, notified).retransmitted.at("retransmitted_by_edn"), 0u);
  EXPECT_EQ(result.notices, 0u);
}

TEST(SimulatorRun, FlowsThatAreNotDoneAreAColumn) {
  const Scenario scenario = parse_scenario(kOne, "file", {"workload.bytes=100mb", "run.time-limit=1ms"});
  const Json summary = summary_of(scenario, run_scenario(scenario, 1));
  EXPECT_EQ(summary.at("flows").at("unfinished"), 1);
  EXPECT_EQ(summary.at("flows").at("measured"), 0);
  EXPECT_TRUE(summary.at("fct_us").at("p99").is_null());
}

TEST(SimulatorRun, ATreeOfSwitchesSpreadsFlows) {
  const RunResult result =
      run("[topology]\nkind = \"leaf-spine\"\nleaves = 4\nspines = 4\nhosts-per-leaf = 4\n[workload]\nbytes = "
          "20000\nload = "
          "0.3\nflows = 500\n");
  EXPECT_EQ(result.hosts, 16u);
  for (const FlowResult& flow : result.flows) EXPECT_GE(*flow.took, flow.alone);
}

TEST(SimulatorRun, AConnectionIsAwaited) {
  const RunResult result = run(kOne, {"run.connections=1", "workload.flows=50", "workload.load=0.9"});
  EXPECT_GT(result.waited, 0u);
  for (const FlowResult& flow : result.flows) EXPECT_TRUE(flow.took);
}

FlowResult flow_of(std::uint64_t bytes, std::int64_t took, std::int64_t alone) {
  FlowResult flow;
  flow.flow.bytes = bytes;
  flow.took = Duration::from_ns(took);
  flow.alone = Duration::from_ns(alone);
  return flow;
}

// 100 flows of 1..100 us: rank ceil(p n); of the median the ranks 40 and 61 (binomial, 95 %).
TEST(SimulatorSummary, EstimatesAreOrderStatistics) {
  const Scenario scenario = parse_scenario(kOne, "file");
  RunResult result;
  for (int i = 1; i <= 100; ++i) result.flows.push_back(flow_of(1000, i * 1000, 500));
  const Json summary = summary_of(scenario, result);
  EXPECT_EQ(summary.at("fct_us").at("p50").at("value"), 50);
  EXPECT_EQ(summary.at("fct_us").at("p50").at("low"), 40);
  EXPECT_EQ(summary.at("fct_us").at("p50").at("high"), 61);
  EXPECT_EQ(summary.at("fct_us").at("p99").at("value"), 99);
  EXPECT_TRUE(summary.at("fct_us").at("p99").at("high").is_null());  // below 299 flows there is no bound
  EXPECT_EQ(summary.at("fct_us").at("mean").at("value"), 50.5);
  EXPECT_EQ(summary.at("slowdown").at("p50").at("value"), 100);
}

TEST(SimulatorSummary, SlowdownIsAtLeastOneAndByCalmBins) {
  EXPECT_EQ(slowdown(flow_of(1, 10, 20)), 1);
  EXPECT_EQ(slowdown(flow_of(1, 50, 20)), 2.5);
  std::vector<FlowResult> flows;
  for (std::uint64_t i = 0; i < 100; ++i) flows.push_back(flow_of(i < 50 ? 100 : 1000 + i, 100, 50));
  std::vector<const FlowResult*> pointers;
  for (const FlowResult& each : flows) pointers.push_back(&each);
  const auto bins = size_bins(pointers);
  ASSERT_EQ(bins.size(), 4u);  // those of 100 bytes together, then 20 each, and the last 10
  EXPECT_EQ(bins[0].slowdowns.size(), 50u);
  EXPECT_EQ(bins[0].least, 100u);
  EXPECT_EQ(bins[0].most, 100u);
  EXPECT_EQ(bins[1].least, 1050u);
  EXPECT_EQ(bins[1].most, 1069u);
  EXPECT_EQ(bins[3].slowdowns.size(), 10u);
}

// 1, 2, 3: mean 2, s = 1; t(2) = 4.302653; half = 4.302653 / sqrt(3) = 2.484138.
TEST(SimulatorSummary, MeansOverSeedsHaveStudentsInterval) {
  const Json mean = mean_over_seeds({1, 2, 3});
  EXPECT_EQ(mean.at("value"), 2);
  EXPECT_NEAR(mean.at("low").get<double>(), 2 - 2.484138, 1e-5);
  EXPECT_NEAR(mean.at("high").get<double>(), 2 + 2.484138, 1e-5);
  EXPECT_TRUE(mean_over_seeds({1}).at("low").is_null());
  EXPECT_TRUE(mean_over_seeds({}).is_null());
}

}  // namespace
}  // namespace brdma::simulator
