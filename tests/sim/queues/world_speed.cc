// Packet events (a packet leaves one output port) a second of one core (by its processor time), over the size of the
// network: frames without payload, half of each host's rate. One line of tab-separated values a network.
//   world_speed [--quick]
#include <cstdio>
#include <cstring>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "network/shape.h"
#include "queues/frame_station.h"
#include "run/network_of.h"
#include "scenario/scenario_file.h"

namespace brdma::test {
namespace {

void measure(const char* name, const std::string& topology, std::uint64_t frames) {
  const auto scenario = simulator::parse_scenario(
      topology + "\n[network]\nqueue = \"64mb\"\n[core]\nrate = \"400gbit\"\n[workload]\nbytes = 1000\n", "speed.toml");
  const simulator::Shape shape = simulator::make_shape(scenario);
  sim::World world{1};
  world.run_only_due();
  sim::RoutedNetwork& network = world.route_hosts();
  std::vector<sim::Station*> stations;
  std::vector<FrameStation*> hosts;
  std::vector<std::uint32_t> at(shape.switches.size());
  for (const auto& host : shape.hosts) {
    const IpAddress address = simulator::host_address(host.at, at[host.at]++);
    auto made = std::make_unique<FrameStation>(world.packets(), address, hosts.size());
    hosts.push_back(made.get());
    stations.push_back(&world.add_station(std::move(made)));
  }
  (void)simulator::make_network(network, scenario, shape, stations);
  std::vector<IpAddress> addresses;
  for (const FrameStation* host : hosts) addresses.push_back(host->address());
  FrameStation::Traffic traffic;
  traffic.to = addresses;
  traffic.gap_ns = 83.84 * 2;
  traffic.count = frames / hosts.size();
  for (FrameStation* host : hosts) host->send(traffic);
  const std::clock_t begin = std::clock();  // of this process alone
  (void)world.run_until_idle(1000_s);
  const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  const std::uint64_t events = network.counters().forwarded;
  std::printf("%s\t%zu\t%zu\t%llu\t%.2f\t%.3f\n", name, shape.hosts.size(), shape.switches.size(),
              static_cast<unsigned long long>(events), seconds, static_cast<double>(events) / seconds / 1e6);
  std::fflush(stdout);
}

}  // namespace
}  // namespace brdma::test

int main(int argc, char** argv) {
  const std::uint64_t frames = argc > 1 && std::strcmp(argv[1], "--quick") == 0 ? 6'400 : 1'000'000;
  std::printf("network\thosts\tswitches\tpacket_events\tseconds\tmillions_a_second\n");
  brdma::test::measure("dumbbell", "[topology]\nkind = \"dumbbell\"\nhosts = 1", frames);
  brdma::test::measure("leaf-spine", "[topology]\nkind = \"leaf-spine\"\nleaves = 4\nspines = 2\nhosts-per-leaf = 4",
                       frames);
  brdma::test::measure("fat-tree", "[topology]\nkind = \"fat-tree\"", frames);
  brdma::test::measure("k-ary", "[topology]\nkind = \"k-ary\"\nk = 16\noversubscription = 2", frames);
  return 0;
}
