#include "run/flows.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/random.h"
#include "run/standalone.h"
#include "samples/size_mix.h"

namespace brdma::simulator {
namespace {

using samples::SizeMix;

SizeMix mix_of(const WorkloadPlan& plan) {
  if (plan.bytes == 0) return SizeMix::open(plan.sizes, size_folders());
  return SizeMix::parse("# sampling: step\n" + std::to_string(plan.bytes) + ",1\n", "bytes");
}

// Flows of one workload.
class Arriving {
 public:
  Arriving(const Scenario& scenario, const Shape& shape, std::uint32_t number, std::uint64_t seed)
      : plan_(scenario.workloads[number]),
        number_(number),
        mix_(mix_of(plan_)),
        sizes_(seed, name("sizes")),
        times_(seed, name("times")),
        places_(seed, name("hosts")) {
    const double share = plan_.counts_headers ? wire_share(mix_.mean(), scenario.network.mtu) : 1;
    const double flows_a_second = plan_.load * capacity_of(plan_, scenario, shape).bps / (mix_.mean() * share * 8);
    gap_ns_ = 1e9 / flows_a_second;
  }

  void append_to(std::vector<Flow>& flows) {
    if (plan_.arrivals == Arrivals::kPoisson) {
      for (std::uint32_t i = 0; i < plan_.flows; ++i) add_single(flows);
      return;
    }
    for (std::uint32_t left = plan_.flows; left > 0;) left -= add_event(flows, left);
  }

 private:
  [[nodiscard]] std::string name(const char* what) const { return "workload " + std::to_string(number_) + " " + what; }

  void pass(double flows) {
    const double uniform = (static_cast<double>(times_.next() >> 11) + 0.5) / 9007199254740992.0;  // in (0, 1)
    at_ns_ -= std::log(uniform) * gap_ns_ * flows;
  }
  [[nodiscard]] Duration at() const { return plan_.start + Duration::from_ns(static_cast<std::int64_t>(at_ns_)); }
  [[nodiscard]] std::uint32_t any(const std::vector<std::uint32_t>& hosts) {
    return hosts[static_cast<std::size_t>(places_.below(hosts.size()))];
  }

  void add_single(std::vector<Flow>& flows) {
    pass(1);
    Flow flow{at(), number_, any(plan_.senders), any(plan_.receivers), mix_.draw(sizes_)};
    while (flow.from == flow.to) flow.to = any(plan_.receivers), flow.from = any(plan_.senders);
    flows.push_back(flow);
  }
  // Senders of one event, each one flow to the same receiver. Returns how many.
  std::uint32_t add_event(std::vector<Flow>& flows, std::uint32_t most) {
    const std::uint32_t to = any(plan_.receivers);
    std::vector<std::uint32_t> senders = plan_.senders;
    senders.erase(std::remove(senders.begin(), senders.end(), to), senders.end());
    const std::size_t wanted = plan_.fan_in == 0 ? senders.size() : plan_.fan_in;
    const std::size_t count = std::min({wanted, senders.size(), std::size_t{most}});
    pass(static_cast<double>(std::min(wanted, senders.size())));
    for (std::size_t i = 0; i < count; ++i) {
      std::swap(senders[i], senders[i + static_cast<std::size_t>(places_.below(senders.size() - i))]);
      flows.push_back({at(), number_, senders[i], to, mix_.draw(sizes_)});
    }
    return std::max(1u, static_cast<std::uint32_t>(count));
  }

  const WorkloadPlan& plan_;
  std::uint32_t number_;
  SizeMix mix_;
  Random sizes_, times_, places_;
  double gap_ns_ = 0, at_ns_ = 0;
};

}  // namespace

std::vector<std::string> size_folders() {
  std::error_code error;
  const std::filesystem::path own = std::filesystem::read_symlink("/proc/self/exe", error);
  return {(own.parent_path() / "../share/bitmaprdma/flow-sizes").string(), BRDMA_INSTALL_FLOW_SIZES};
}

Capacity capacity_of(const WorkloadPlan& plan, const Scenario& scenario, const Shape& shape) {
  if (plan.arrivals == Arrivals::kPoisson && scenario.topology.layout == Layout::kDumbbell) {
    return {static_cast<double>(scenario.core.rate->bps()), "the link between the switches"};
  }
  const bool incast = plan.arrivals == Arrivals::kIncast;
  double bps = 0;
  for (const std::uint32_t host : incast ? plan.receivers : plan.senders) {
    const fabric::LinkConfig& link = incast ? shape.hosts[host].down : shape.hosts[host].up;
    bps += static_cast<double>(link.rate.value_or(*scenario.network.link.rate).bps());
  }
  return {bps, incast ? "the receivers' links" : "the senders' links"};
}

std::vector<Flow> make_flows(const Scenario& scenario, const Shape& shape, std::uint64_t seed) {
  std::vector<Flow> flows;
  for (std::uint32_t i = 0; i < scenario.workloads.size(); ++i) Arriving{scenario, shape, i, seed}.append_to(flows);
  std::stable_sort(flows.begin(), flows.end(), [](const Flow& a, const Flow& b) { return a.start < b.start; });
  return flows;
}

}  // namespace brdma::simulator
