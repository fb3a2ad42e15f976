// Scenario files of brdma sim: their values, errors by file, line and nearest word; layouts with the source's counts;
// lists of a sweep.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "network/shape.h"
#include "options.h"
#include "run/flows.h"
#include "run/standalone.h"
#include "samples/errors.h"
#include "scenario/scenario_file.h"
#include "scenario/table_reader.h"
#include "sweep.h"

namespace brdma::simulator {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kSmall = R"([topology]
kind = "dumbbell"
hosts = 2
[workload]
bytes = "64kb"
)";

std::string error_of(const std::string& text, const std::vector<std::string>& changes = {}) {
  try {
    (void)parse_scenario(text, "file", changes);
  } catch (const ScenarioError& error) {
    return error.what();
  }
  return {};
}

TEST(SimulatorScenario, SaysWhatThereIs) {
  const Scenario scenario = parse_scenario(R"(name = "example"
[topology]
kind = "leaf-spine"
leaves = 2
spines = 3
hosts-per-leaf = 5
[network]
rate = "25gbit"
delay = "2us"
queue = "128kb"
loss = "1%"
reorder = "1%,8"
ecn = "20kb,80kb,10%"
buffer = "2mb,0.5"
edn = "icmp"
ecn-to-rtt = "auto,rule=probabilistic,levels=12,pmax=20%,rewrite=ts"
mtu = 1024
[core]
rate = "100gbit"
loss = 0
[protocol]
name = "bitmap-edn"
timeout = 10
settings = { depth_max = 4, "congestion.control" = "timely" }
[[group]]
hosts = "h1-h3,h9"
name = "gobackn"
[workload]
label = "background"
sizes = "facebook_webserver"
load = 0.3
load-counts = "wire"
flows = 20
senders = "h1-h5"
[run]
seed = 7
warmup = 5
connections = 3
time-limit = "2s"
)",
                                           "file");
  EXPECT_EQ(scenario.name, "example");
  EXPECT_EQ(scenario.network.link.rate->bps(), 25'000'000'000u);
  EXPECT_EQ(scenario.network.link.impairments.loss_ppm, 10'000u);
  EXPECT_EQ(scenario.network.link.impairments.reorder_depth, 8u);
  EXPECT_EQ(scenario.network.link.marking->high, 80u * 1024);
  EXPECT_EQ(scenario.network.buffer.alpha_per_mille, 500u);
  EXPECT_EQ(scenario.network.edn, fabric::EdnForm::kIcmp);
  EXPECT_EQ(scenario.network.ecn_to_rtt->increment.rule, fabric::IncrementRule::kProbabilistic);
  EXPECT_EQ(scenario.network.ecn_to_rtt->increment.levels, 12u);
  EXPECT_EQ(scenario.network.ecn_to_rtt->increment.pmax_ppm, 200'000u);
  EXPECT_TRUE(scenario.network.ecn_to_rtt->computed);
  EXPECT_EQ(scenario.core.rate->bps(), 100'000'000'000u);
  EXPECT_EQ(scenario.core.impairments.loss_ppm, 0u);
  EXPECT_EQ(scenario.core.delay, 2_us);
  EXPECT_EQ(scenario.protocol.recovery.mode, RecoveryMode::kBitmap);
  EXPECT_TRUE(scenario.protocol.recovery.edn);
  EXPECT_EQ(scenario.protocol.recovery.depth_max, 4u);
  EXPECT_EQ(scenario.protocol.recovery.congestion.control, CongestionControl::kTimely);
  ASSERT_EQ(scenario.groups.size(), 1u);
  EXPECT_THAT(scenario.groups[0].hosts, ElementsAre(0u, 1u, 2u, 8u));
  EXPECT_EQ(scenario.groups[0].protocol.recovery.mode, RecoveryMode::kGoBackN);
  EXPECT_EQ(scenario.groups[0].protocol.timeout, 10u);  // from [protocol]
  ASSERT_EQ(scenario.workloads.size(), 1u);
  EXPECT_TRUE(scenario.workloads[0].counts_headers);
  EXPECT_THAT(scenario.workloads[0].senders, ElementsAre(0u, 1u, 2u, 3u, 4u));
  EXPECT_EQ(scenario.workloads[0].receivers.size(), 10u);
  EXPECT_EQ(scenario.run.seed, 7u);
  EXPECT_EQ(scenario.run.time_limit, 2_s);
  const Shape shape = make_shape(scenario);
  EXPECT_EQ(shape.hosts.size(), 10u);
  EXPECT_EQ(shape.links.size(), 6u);
}

TEST(SimulatorScenario, SaysWhatIsWrongWhereAndWhatWasMeant) {
  const std::string small = kSmall;
  const auto with = [&small](const char* more) { return error_of(small + more); };
  EXPECT_EQ(error_of(small), "");
  EXPECT_THAT(with("lod = 0.5\n"), HasSubstr("file:6: unknown key of [workload] 'lod': did you mean 'load'?"));
  EXPECT_THAT(with("[netwrok]\n"), HasSubstr("file:6: unknown key of the file 'netwrok': did you mean 'network'?"));
  EXPECT_THAT(with("[network]\nquue = 1\n"),
              HasSubstr("file:7: unknown key of [network] 'quue': did you mean 'queue'?"));
  EXPECT_THAT(with("[network]\nseed = 1\n"), HasSubstr("unknown key"));  // the simulator's is in [run]
  EXPECT_THAT(with("[core]\nedn = \"roce\"\n"), HasSubstr("unknown key of [core]"));
  EXPECT_THAT(with("[protocol]\nname = \"bitmpa\"\n"),
              HasSubstr("file:7: unknown protocol 'bitmpa': did you mean 'bitmap'?"));
  EXPECT_THAT(with("[protocol]\nsettings = { deph_max = 3 }\n"), HasSubstr("did you mean 'depth_max'?"));
  EXPECT_THAT(with("[protocol]\nsettings = { mode = \"wan\" }\n"), HasSubstr("the protocol's name decides it"));
  EXPECT_THAT(with("[protocol]\nsettings = { depth_max = -3 }\n"), HasSubstr("depth_max '-3': expected"));
  EXPECT_THAT(with("[protocol]\nirn-low = \"1us\"\n"), HasSubstr("go together"));
  EXPECT_THAT(with("load = 0\n"), HasSubstr("file:6: load: expected a number above 0, at most 10"));
  EXPECT_THAT(with("flows = 0\n"), HasSubstr("flows: expected a whole number, 1 to 100000000"));
  EXPECT_THAT(with("senders = \"h5\"\n"), HasSubstr("there are h1 to h4"));
  EXPECT_THAT(with("senders = \"h2-h1\"\n"), HasSubstr("senders: expected all, or hosts"));
  EXPECT_THAT(with("sizes = \"facebook_webserver\"\n"), HasSubstr("needs one of sizes and bytes"));
  EXPECT_THAT(with("start = \"5\"\n"), HasSubstr("start: expected a time"));
  EXPECT_THAT(with("[network]\nrate = \"off\"\n"), HasSubstr("rate: links of the simulator have one"));
  EXPECT_THAT(with("[network]\nloss = \"101%\"\n"), HasSubstr("file:7: loss '101%': expected a chance"));
  EXPECT_THAT(with("[network]\necn-to-rtt = \"auto\"\n"), HasSubstr("needs ecn"));
  EXPECT_THAT(with("[[group]]\nname = \"bitmap\"\n"), HasSubstr("[[group]] needs hosts"));
  EXPECT_THAT(error_of(""), HasSubstr("no [topology]"));
  EXPECT_THAT(error_of("[topology]\nkind = \"dumbell\"\n"),
              HasSubstr("file:2: unknown kind of topology 'dumbell': did you mean 'dumbbell'?"));
  EXPECT_THAT(error_of("[topology]\nkind = \"k-ary\"\nk = 5\n"), HasSubstr("even"));
  EXPECT_THAT(error_of("[topology]\nkind = \"fat-tree\"\ncores = 6\n"), HasSubstr("multiple of aggs"));
  EXPECT_THAT(error_of("[topology]\nkind = \"incast\"\nleaves = 6\n"),
              HasSubstr("unknown key of [topology] of this kind"));
  EXPECT_THAT(error_of("[topology]\nkind = \"file\"\nfile = \"nosuch.toml\"\n"),
              HasSubstr("nosuch.toml: cannot be read"));
  EXPECT_THAT(error_of("[topology]\nkind = \"dumbbell\"\n"), HasSubstr("no [workload]"));
  EXPECT_THAT(error_of("x = = 1"), HasSubstr("file:1: "));
}

TEST(SimulatorScenario, ValuesChange) {
  const Scenario scenario = parse_scenario(
      kSmall, "file", {"workload.load=0.25", "protocol.name=gobackn", "network.loss=1%", "topology.hosts=3"});
  EXPECT_EQ(scenario.workloads[0].load, 0.25);
  EXPECT_EQ(scenario.protocol.name, "gobackn");
  EXPECT_EQ(scenario.network.link.impairments.loss_ppm, 10'000u);
  EXPECT_EQ(make_shape(scenario).hosts.size(), 6u);
  EXPECT_NE(scenario.digest, parse_scenario(kSmall, "file").digest);
  EXPECT_THAT(error_of(kSmall, {"workload.lod=1"}), HasSubstr("did you mean 'load'?"));
  EXPECT_THAT(error_of(kSmall, {"load"}), HasSubstr("expected TABLE.KEY=VALUE"));
}

TEST(SimulatorScenario, TheFatTreeHasTheSourcesCounts) {
  const Scenario scenario = parse_scenario("[topology]\nkind = \"fat-tree\"\n[workload]\nbytes = 1\n", "file");
  const Shape shape = make_shape(scenario);
  EXPECT_EQ(shape.hosts.size(), 320u);
  EXPECT_EQ(shape.switches.size(), 16u + 20 + 20);
  EXPECT_EQ(shape.links.size(), 160u);  // and 320 of hosts
  std::vector<std::size_t> links(shape.switches.size());
  for (const auto& link : shape.links) {
    ++links[link.a];
    ++links[link.b];
  }
  for (std::size_t at = 0; at < links.size(); ++at) {
    const std::string& name = shape.switches[at];
    EXPECT_EQ(links[at], name.starts_with("tor") ? 4u : name.starts_with("core") ? 5u : 8u) << name;
  }
  EXPECT_EQ(hops(shape, 0, 1).size(), 2u);    // same rack
  EXPECT_EQ(hops(shape, 0, 17).size(), 4u);   // same pod
  EXPECT_EQ(hops(shape, 0, 319).size(), 6u);  // another pod
  EXPECT_EQ(next_switches(shape, shape.hosts[319].at)[shape.hosts[0].at].size(), 4u);
}

TEST(SimulatorScenario, KAryTreesAreOversubscribedAsAsked) {
  const Scenario scenario =
      parse_scenario("[topology]\nkind = \"k-ary\"\nk = 8\noversubscription = 2\n[workload]\nbytes = 1\n", "file");
  const Shape shape = make_shape(scenario);
  EXPECT_EQ(shape.hosts.size(), 256u);
  EXPECT_EQ(shape.switches.size(), 80u);
  EXPECT_EQ(shape.links.size() + shape.hosts.size(), 512u);
}

// Worked: 100 Gbit/s, two links of 1 us. 4096 bytes of a standard packet: 12 + 16 + 4 + 42 + 4096 = 4170 bytes, 333.6
// ns a link; an acknowledgement 62 bytes, 4.96 ns. Each transmitter was idle: its time is rounded down.
TEST(SimulatorScenario, AFlowAloneTakesItsTimeOnTheWire) {
  const std::vector<Hop> path(2, Hop{Bandwidth::from_bps(100'000'000'000), 1_us});
  EXPECT_EQ(standalone_time(4096, 4096, packet_sizes(RecoveryMode::kGoBackN), path, path),
            Duration::from_ns(333 + 1000 + 333 + 1000 + 4 + 1000 + 4 + 1000));
  // Two packets: the second one, of 12 + 4 + 42 + 4096 = 4154 bytes, follows at once on each link: 333.6 + 332.32 =
  // 665.92 on the second one, which begins when the first packet has arrived.
  EXPECT_EQ(standalone_time(8192, 4096, packet_sizes(RecoveryMode::kGoBackN), path, path),
            Duration::from_ns(333 + 1000 + 665 + 1000 + 4 + 1000 + 4 + 1000));
}

TEST(SimulatorScenario, LoadIsThePartOfTheCapacityThatIsStated) {
  const Scenario scenario = parse_scenario(
      "[topology]\nkind = \"dumbbell\"\nhosts = 4\n[core]\nrate = \"10gbit\"\n[workload]\nbytes = 1000\nload = 0.4\n"
      "flows = 20000\n",
      "file");
  const Shape shape = make_shape(scenario);
  EXPECT_EQ(capacity_of(scenario.workloads[0], scenario, shape).bps, 10e9);
  const auto flows = make_flows(scenario, shape, 1);
  ASSERT_EQ(flows.size(), 20'000u);
  // 0.4 of 10 Gbit/s are 500,000 flows of 1000 bytes a second.
  const double a_second = 20'000 / (static_cast<double>(flows.back().start.ns()) / 1e9);
  EXPECT_NEAR(a_second, 500'000, 500'000 * 0.03);
  for (const Flow& flow : flows) {
    ASSERT_LT(flow.from, 4u);
    ASSERT_GE(flow.to, 4u);
  }
  EXPECT_EQ(make_flows(scenario, shape, 1)[77].start, flows[77].start);
  EXPECT_NE(make_flows(scenario, shape, 2)[77].start, flows[77].start);
}

TEST(SimulatorScenario, AnIncastComesFromAllAtOnce) {
  const Scenario scenario =
      parse_scenario("[topology]\nkind = \"incast\"\nhosts = 6\n[workload]\nbytes = 1000\nflows = 60\n", "file");
  const auto flows = make_flows(scenario, make_shape(scenario), 1);
  ASSERT_EQ(flows.size(), 60u);
  for (std::size_t event = 0; event < 10; ++event) {
    std::vector<bool> seen(7);
    for (std::size_t i = event * 6; i < event * 6 + 6; ++i) {
      EXPECT_EQ(flows[i].start, flows[event * 6].start);
      EXPECT_EQ(flows[i].to, 0u);
      EXPECT_FALSE(seen[flows[i].from]);
      seen[flows[i].from] = true;
    }
  }
}

TEST(SimulatorSweep, ListsAreRead) {
  EXPECT_THAT(parse_list("0.1..0.5", "0.1"), ElementsAre("0.1", "0.2", "0.3", "0.4", "0.5"));
  EXPECT_THAT(parse_list("0.1..0.9/0.4", "0.1"), ElementsAre("0.1", "0.5", "0.9"));
  EXPECT_THAT(parse_list("1..3,7", "1"), ElementsAre("1", "2", "3", "7"));
  for (const char* wrong : {"", "a", "3..1", "1..2/0", "1..1000000"}) {
    EXPECT_THROW((void)parse_list(wrong, "1"), samples::Misuse) << wrong;
  }
  EXPECT_EQ(parse_part("2/8").number, 2u);
  for (const char* wrong : {"", "2", "0/3", "4/3", "1.5/3", "a/b"}) {
    EXPECT_THROW((void)parse_part(wrong), samples::Misuse) << wrong;
  }
}

TEST(SimulatorSweep, PartsTogetherAreAllPointsOnce) {
  Options options;
  options.loads = {"0.1", "0.5"};
  options.seeds = {"1", "2", "3"};
  options.axes = {{"protocol.name", {"bitmap", "gobackn"}}};
  const auto all = points_of(options);
  ASSERT_EQ(all.size(), 12u);
  EXPECT_EQ(all[0].name(), "load=0.1_protocol.name=bitmap_seed=1");
  EXPECT_THAT(all[0].changes(), ElementsAre("workload.load=0.1", "protocol.name=bitmap"));
  std::vector<std::string> names, of_parts;
  for (const Point& each : all) names.push_back(each.name());
  for (std::uint32_t part = 1; part <= 5; ++part) {
    for (const Point& each : points_of(all, {part, 5})) of_parts.push_back(each.name());
  }
  EXPECT_THAT(of_parts, testing::UnorderedElementsAreArray(names));
}

TEST(SimulatorSweep, ALaunchersPlaceIsAPart) {
  EXPECT_EQ(part_of_launcher().of, 1u);
  setenv("OMPI_COMM_WORLD_RANK", "2", 1);
  setenv("OMPI_COMM_WORLD_SIZE", "4", 1);
  EXPECT_EQ(part_of_launcher().number, 3u);
  EXPECT_EQ(part_of_launcher().of, 4u);
  unsetenv("OMPI_COMM_WORLD_RANK");
  setenv("SLURM_ARRAY_TASK_ID", "7", 1);
  setenv("SLURM_ARRAY_TASK_MIN", "5", 1);
  setenv("SLURM_ARRAY_TASK_COUNT", "10", 1);
  EXPECT_EQ(part_of_launcher().number, 3u);
  EXPECT_EQ(part_of_launcher().of, 10u);
  for (const char* name : {"SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_MIN", "SLURM_ARRAY_TASK_COUNT"}) unsetenv(name);
}

}  // namespace
}  // namespace brdma::simulator
