// The switch core's cost of a packet of 4200 bytes; for callgrind, which counts instructions whatever else runs:
//   valgrind --tool=callgrind --toggle-collect='run_*' build/bin/fabric_bench CASE      divide by kPackets
// CASE: switch (one Ethernet switch) | routed1, routed2, routed3 (so many routers) | agent2 (two, with link-state)
//       | queue1 (one class) | queue4 (four classes by weight, deficit round robin)
#include <array>
#include <cstdio>
#include <string_view>
#include <vector>

#include "fabric/routing/routed_fabric.h"
#include "fabric/switch/link_state_agent.h"
#include "fabric/switch/switch.h"

using namespace brdma;  // a program, no header

namespace {

constexpr std::uint32_t kPackets = 20'000, kBytes = 4200;
constexpr Instant at(std::uint32_t packet) { return Instant::from_ns(1'000'000'000 + std::int64_t{packet} * 4'000); }

IpAddress address(std::uint8_t host) { return IpAddress::v4(10, 77, host, host); }

struct Owner {
  std::optional<std::uint32_t> duplicate(std::uint32_t) { return std::nullopt; }
  void corrupt(std::uint32_t, std::uint64_t) {}
  void discard(std::uint32_t) {}
  std::uint8_t dscp(std::uint32_t packet) { return static_cast<std::uint8_t>(packet % 4); }
  void at(std::optional<std::uint32_t>) {}
  std::optional<fabric::Routable> look(std::uint32_t) {
    return fabric::Routable{.flow = {address(1), address(2), 0xC001, 4791, 17}, .hops_left = 64, .bytes = kBytes};
  }
  void spend_hop(std::uint32_t) {}
  bool judged(std::uint32_t) { return true; }
  void routed(std::uint32_t, const fabric::Routable& routable, std::uint32_t, std::uint32_t port, Instant now) {
    if (agent != nullptr) (void)agent->routed(routable.flow, payload, port, now);
  }
  fabric::LinkStateAgent* agent = nullptr;
  std::array<std::byte, 64> payload{};
};

std::uint64_t received = 0;

}  // namespace

extern "C" {  // names for callgrind's options
__attribute__((noinline)) void run_switch(fabric::Switch<std::uint32_t>& fabric, Owner& owner) {
  const fabric::FrameInfo info{
      .destination = 0x0200'0000'0002, .source = 0x0200'0000'0001, .kind = fabric::FrameKind::kRoce};
  for (std::uint32_t i = 0; i < kPackets; ++i) {
    fabric.handle_packet(0, i, info, kBytes, at(i), owner);
    fabric.handle_timeout(at(i), owner);
    for (std::uint32_t port = 0; port < 2; ++port) {
      while (fabric.poll(port, at(i), owner)) ++received;
    }
  }
}
__attribute__((noinline)) void run_routed(fabric::RoutedFabric<std::uint32_t>& fabric, Owner& owner) {
  for (std::uint32_t i = 0; i < kPackets; ++i) {
    fabric.handle_packet(0, i, kBytes, at(i), owner);
    fabric.handle_timeout(at(i), owner);
    for (std::uint32_t host = 0; host < 2; ++host) {
      while (fabric.poll(host, at(i), owner)) ++received;
    }
  }
}
// Always some hundred packets wait: they come a little faster than they leave (3.36 us each).
__attribute__((noinline)) void run_queue(fabric::Link<std::uint32_t>& link, Owner& owner) {
  for (std::uint32_t i = 0; i < kPackets; ++i) {
    const Instant now = Instant::from_ns(1'000'000'000 + std::int64_t{i} * 3'300);
    link.handle_packet(i, kBytes, true, now, owner);
    while (link.poll(now, owner)) ++received;
  }
}
}

int main(int argc, char** argv) {
  const std::string_view which = argc > 1 ? argv[1] : "";
  Owner owner;
  const fabric::LinkConfig wire{.rate = Bandwidth::from_bps(10'000'000'000), .queue_bytes = 4u << 20};
  if (which == "switch") {
    const std::vector<std::string> hosts{"h1", "h2"};
    fabric::NetworkConfig config;
    config.link = wire;
    fabric::Switch<std::uint32_t> fabric{hosts, config};
    fabric.learn(0x0200'0000'0002, 1);
    run_switch(fabric, owner);
  } else if (which.starts_with("routed") || which == "agent2") {
    const auto routers = static_cast<std::uint32_t>(which.back() - '0');
    fabric::RoutedFabric<std::uint32_t> fabric{1};
    for (std::uint32_t i = 0; i < routers; ++i) (void)fabric.add_router();
    for (int i = 0; i < 2; ++i) (void)fabric.add_host();
    (void)fabric.join({.is_host = true, .number = 0}, {.number = 0}, {}, {}, "h1");
    for (std::uint32_t i = 1; i < routers; ++i) (void)fabric.join({.number = i - 1}, {.number = i}, wire, wire, "link");
    (void)fabric.join({.number = routers - 1}, {.is_host = true, .number = 1}, wire, wire, "h2");
    for (std::uint32_t i = 0; i < routers; ++i) {
      const std::array port{static_cast<std::uint32_t>(fabric.ports(i).size() - 1)};
      (void)fabric.router(i).table().set(fabric::Prefix::v4(IpAddress::v4(10, 77, 2, 0), 24), port);
      for (std::uint8_t other = 3; other < 19; ++other) {  // a table of some size
        (void)fabric.router(i).table().set(fabric::Prefix::v4(IpAddress::v4(10, 77, other, 0), 24), port);
      }
    }
    fabric::LinkStateAgent agent{{}, 8};
    if (which == "agent2") owner.agent = &agent;
    run_routed(fabric, owner);
    fabric.clear(owner);
  } else if (which == "queue1" || which == "queue4") {
    fabric::LinkConfig config = wire;
    if (which == "queue4") {
      config.classes.count = 4;
      config.classes.weights = {4, 3, 2, 1, 1, 1, 1, 1};
      for (std::uint8_t i = 0; i < 4; ++i) config.classes.of_dscp[i] = i;
    }
    fabric::Link<std::uint32_t> link{config, 1, "link"};
    for (std::uint32_t i = 0; i < 400; ++i) link.handle_packet(i, kBytes, true, at(0), owner);
    run_queue(link, owner);
    link.clear(owner);
  } else {
    std::fprintf(stderr, "usage: see the head of fabric_bench.cc\n");
    return 2;
  }
  std::printf("%u packets, %llu left\n", kPackets, static_cast<unsigned long long>(received));
  return 0;
}
