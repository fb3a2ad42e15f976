#include "run/models.h"

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <variant>

#include "base/check.h"
#include "models/protocols.h"
#include "network/shape.h"
#include "run/model_host.h"

namespace brdma::simulator {
namespace {

// Of full packets over the longest path, without queues: from the first and the last host to all others.
Duration base_rtt(const Shape& shape, std::uint32_t payload, const PacketSizes& sizes) {
  Duration longest{};
  const auto last = static_cast<std::uint32_t>(shape.hosts.size() - 1);
  for (const std::uint32_t from : {0u, last}) {
    for (std::uint32_t to = 0; to <= last; ++to) {
      if (to == from || (to + 1 <= last && to > 0 && shape.hosts[to].at == shape.hosts[to - 1].at && to - 1 != from))
        continue;
      longest =
          std::max(longest, standalone_time(payload, payload, sizes, hops(shape, from, to), hops(shape, to, from)));
    }
  }
  return longest;
}

const models::Sizes& sizes_in(const models::Protocol& protocol) {
  return std::visit([](const auto& settings) -> const models::Sizes& { return settings.sizes; }, protocol);
}

class Models final : public ModelFlows {
 public:
  Models(sim::World& world, sim::RoutedNetwork& network, const Scenario& scenario, const Shape& shape)
      : world_(world), scenario_(scenario), shape_(shape), hosts_(shape.hosts.size()) {
    network.notify_frame_drops([this](const sim::Packet& dropped, Instant now) -> std::optional<sim::PacketIndex> {
      if (!reports_) return std::nullopt;
      const auto notice = notice_of(world_.packets(), dropped, now);
      notices_ += notice ? 1 : 0;
      return notice;
    });
  }

  sim::Station& add_host(std::uint32_t number, const IpAddress& address, const std::optional<Bandwidth>& rate,
                         const ProtocolPlan& plan) override {
    auto made = std::make_unique<ModelHost>(world_.packets(), address, rate);
    Host& host = hosts_[number];
    host.station = made.get();
    host.protocol = protocol_of(plan, rate);
    by_station_[made.get()] = made.get();
    reports_ = reports_ || is_notified_model(plan.name) || scenario_.network.edn != fabric::EdnForm::kOff;
    return world_.add_station(std::move(made));
  }

  void begin(std::size_t id, const Flow& flow, Instant now) override {
    const Host &from = hosts_[flow.from], &to = hosts_[flow.to];
    const auto number = static_cast<models::FlowId>(id);
    to.station->accept(number, models::make_receiver(*from.protocol, number), from.station->address());
    from.station->begin(number, models::make_sender(*from.protocol, number), to.station->address(), flow.bytes, now);
  }

  void take_done(sim::Station& host, FunctionRef<void(std::size_t)> done) override {
    for (const models::FlowId flow : by_station_.at(&host)->take_done()) done(flow);
  }

  ModelCounts counts() const override {
    static constexpr std::array<const char*, models::kCauses> kNames{"retransmitted_by_ack", "retransmitted_by_timeout",
                                                                     "retransmitted_by_probe", "retransmitted_by_edn"};
    ModelCounts sum;
    sum.notices = notices_;
    for (const Host& host : hosts_) {
      if (host.station == nullptr) continue;
      const models::Counters counters = host.station->counters();
      sum.sent += counters.sent - counters.retransmitted();
      sum.timeouts += counters.timeouts;
      for (std::size_t i = 0; i < models::kCauses; ++i) sum.retransmitted[kNames[i]] += counters.again[i];
    }
    return sum;
  }

  std::pair<PacketSizes, std::uint32_t> sizes(std::uint32_t host) const override {
    return packets_of(*hosts_[host].protocol);
  }

 private:
  struct Host {
    ModelHost* station = nullptr;
    std::shared_ptr<const models::Protocol> protocol;  // one for all hosts with the same name and rate
  };
  static std::pair<PacketSizes, std::uint32_t> packets_of(const models::Protocol& protocol) {
    const models::Sizes& sizes = sizes_in(protocol);
    return {{sizes.header, sizes.header, sizes.answer, 1}, sizes.payload};
  }
  std::shared_ptr<const models::Protocol> protocol_of(const ProtocolPlan& plan, const std::optional<Bandwidth>& rate) {
    const Bandwidth line = rate.value_or(*scenario_.network.link.rate);
    auto& known = protocols_[{plan.name, line.bps()}];
    if (known) return known;
    // The round trip depends on the packets' sizes, which depend on the protocol alone.
    const auto first = models::find_protocol(plan.name, {line, 10_us}, scenario_.network.mtu);
    BRDMA_CHECK(first.has_value());
    const auto packets = packets_of(*first);
    const models::Path path{line, base_rtt(shape_, packets.second, packets.first)};
    known = std::make_shared<const models::Protocol>(*models::find_protocol(plan.name, path, scenario_.network.mtu));
    return known;
  }

  sim::World& world_;
  const Scenario& scenario_;
  const Shape& shape_;
  std::vector<Host> hosts_;
  std::unordered_map<const sim::Station*, ModelHost*> by_station_;
  std::map<std::pair<std::string, std::uint64_t>, std::shared_ptr<const models::Protocol>> protocols_;
  bool reports_ = false;
  std::uint64_t notices_ = 0;
};

}  // namespace

std::vector<std::string_view> model_names() { return {models::kProtocolNames.begin(), models::kProtocolNames.end()}; }

bool is_notified_model(std::string_view name) { return name.ends_with("-edn"); }

std::unique_ptr<ModelFlows> make_model_flows(sim::World& world, sim::RoutedNetwork& network, const Scenario& scenario,
                                             const Shape& shape) {
  return std::make_unique<Models>(world, network, scenario, shape);
}

}  // namespace brdma::simulator
