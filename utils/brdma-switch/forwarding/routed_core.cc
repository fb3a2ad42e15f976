#include "forwarding/routed_core.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "base/check.h"
#include "datapath/ethernet.h"
#include "fabric/routing/ip_header.h"
#include "fabric/switch/port_facts.h"
#include "feedback/notice_frame.h"
#include "feedback/udp_checksum.h"
#include "forwarding/packet_owner.h"
#include "io/shard/clock.h"
#include "requests/routed_control.h"

namespace brdma::lab {
namespace {

constexpr std::size_t kTtl = 8, kHopLimit = 7;
// A short burst, like the start of a flow, is no congestion that routes should react to.
constexpr Duration kQueueTime = 50_ms;

}  // namespace

class RoutedCore::Owner : public PacketOwner {
 public:
  Owner(RoutedCore& core) : PacketOwner(core.pool_, nullptr, nullptr), core_(core) {}

  void at(std::optional<std::uint32_t> router) {
    if (!router) return attach(nullptr, nullptr);
    Node& node = *core_.nodes_[*router];
    attach(&node.notices, &node.actions);
  }
  std::optional<fabric::Routable> look(const SwitchPacket& packet) {
    const ConstBytes ip = ip_of(packet);
    const auto flow = fabric::five_tuple(ip);
    if (!flow) return std::nullopt;
    const std::uint8_t hops = load_u8(&ip[load_u8(ip.data()) >> 4 == 4 ? kTtl : kHopLimit]);
    return fabric::Routable{.flow = *flow, .hops_left = hops, .bytes = packet.size};
  }
  void spend_hop(SwitchPacket& packet) { BRDMA_CHECK(fabric::spend_hop(ip_of(packet))); }
  [[nodiscard]] bool judged(const SwitchPacket& packet) const { return packet.judged; }
  void routed(SwitchPacket& packet, const fabric::Routable& routable, std::uint32_t router, std::uint32_t port,
              Instant now) {
    auto& agent = core_.nodes_[router]->agent;
    if (!agent || packet.udp_offset == 0 || routable.flow.destination_port != fabric::kRocePort) return;
    const MutableBytes frame = pool().buffer(packet.buffer).first(packet.size);
    const fabric::FrameInfo info = packet.udp_info();
    const MutableBytes payload = frame.subspan(info.payload_offset);
    if (!agent->routed(routable.flow, payload, port, now)) return;
    if (!agent->answer(routable.flow, payload, port, core_.port_facts(router, port, now), now)) return;
    mend_udp_checksum(packet, frame);
  }

 private:
  MutableBytes ip_of(const SwitchPacket& packet) {
    if (!packet.is_ip) return {};
    return pool().buffer(packet.buffer).first(packet.size).subspan(kIp);
  }

  RoutedCore& core_;
};

RoutedCore::RoutedCore(fabric::PacketPool& pool, fabric::Topology topology, const fabric::NetworkConfig& config)
    : pool_(pool), topology_(std::move(topology)), config_(config), fabric_(config.seed) {
  for (std::uint32_t router = 0; router < topology_.switches.size(); ++router) {
    (void)fabric_.add_router(config.buffer);
    nodes_.push_back(std::make_unique<Node>(pool));
  }
  for (std::uint32_t host = 0; host < topology_.hosts.size(); ++host) (void)fabric_.add_host();
  for (std::uint32_t link = 0; link < topology_.link_count(); ++link) {
    link_configs_.push_back(initial_config(link));
    built_rates_.push_back(fabric::bytes_per_second(link_configs_.back().link.rate));
  }
  configure_nodes();
  join_all();
  for (const auto& route : fabric::initial_routes(topology_)) {
    BRDMA_CHECK(fabric_.router(route.at).table().set(route.prefix, route.ports));
  }
}

// In the order of links and ports in fabric/topology.h.
void RoutedCore::join_all() {
  const auto hosts = static_cast<std::uint32_t>(topology_.hosts.size());
  for (std::uint32_t link = 0; link < topology_.link_count(); ++link) {
    Fabric::End a{.is_host = true, .number = link}, b{};
    if (topology_.is_host_link(link)) {
      b.number = topology_.hosts[link].at;
    } else {
      a = {.number = topology_.links[link - hosts].a};
      b.number = topology_.links[link - hosts].b;
    }
    (void)fabric_.join(a, b, config_of(link, /*back=*/false), config_of(link, /*back=*/true),
                       fabric::link_name(topology_, link));
  }
}

fabric::NetworkConfig RoutedCore::initial_config(std::uint32_t link) const {
  fabric::NetworkConfig config = config_;
  if (topology_.is_host_link(link)) config.link = {};  // default, except for its own options
  for (const auto& option : topology_.link_options(link)) {
    BRDMA_CHECK(!fabric::set_option(config, option.name, option.value));
  }
  return config;
}

// Several paths are several links here, and classes are the network's. A host is its link's first end.
fabric::LinkConfig RoutedCore::config_of(std::uint32_t link, bool back) const {
  const fabric::NetworkConfig& config = link_configs_[link];
  fabric::LinkConfig direction = config.link;
  if (!back && topology_.is_host_link(link)) direction.rate = config.uplink_config().rate;
  direction.paths = 1;
  direction.skew = {};
  direction.path_loss_ppm = {};
  direction.classes = config_.link.classes;
  return direction;
}

void RoutedCore::configure_nodes() {
  for (std::uint32_t router = 0; router < nodes_.size(); ++router) {
    nodes_[router]->notices.configure(config_.edn);
    configure_translation(router);
    fabric_.configure_buffer(router, config_.buffer);
    fabric_.configure_processor(router, config_.switch_rate);
    configure_agent(router);
  }
}

// With the rate of the router's slowest port, where D is computed.
void RoutedCore::configure_translation(std::uint32_t router) {
  const auto ports = fabric::ports_of(topology_, router);
  std::optional<Bandwidth> slowest;
  for (const auto& port : ports) {
    const auto& rate = link_configs_[port.link].link.rate;
    if (rate && (!slowest || *rate < *slowest)) slowest = rate;
  }
  nodes_[router]->actions.configure(config_,
                                    fabric::increment_of(config_, static_cast<std::uint32_t>(ports.size()), slowest));
}

void RoutedCore::configure_agent(std::uint32_t router) {
  auto& agent = nodes_[router]->agent;
  if (!config_.link_state) return agent.reset();
  const auto ports = fabric::ports_of(topology_, router).size();
  if (!agent || !(agent->limits() == *config_.link_state)) {
    agent.emplace(
        fabric::LinkStateAgent::Config{
            .switch_id = router + 1, .limits = *config_.link_state, .queue_time = kQueueTime},
        ports);
  }
}

fabric::PortFacts RoutedCore::port_facts(std::uint32_t router, std::uint32_t port, Instant now) {
  fabric_.advance(router, port, now);
  const Fabric::Way& way = fabric_.way(router, port);
  fabric::PortFacts facts = fabric::port_facts(way.link, built_rates_[way.number / 2], fabric_.is_up(way.number / 2));
  facts.switch_speed = config_.switch_rate.value_or(0);
  return facts;
}

void RoutedCore::serve_agent(std::uint32_t router, Instant now) {
  Node& node = *nodes_[router];
  if (!node.agent) return;
  if (const auto due = node.agent->next_timeout(); due && *due <= now) {
    for (std::uint32_t port = 0; port < node.agent->port_count(); ++port) {
      node.agent->sample(port, port_facts(router, port, now), now);
    }
    node.agent->sampled(now);
  }
  while (const auto report = node.agent->poll_report()) {
    if (report_handler_) report_handler_(router, *report);
  }
  Owner owner{*this};
  while (const auto notice = node.agent->poll_feedback()) {
    if (const auto packet = make_notice_frame(pool_, *notice)) fabric_.send(router, *packet, now, owner);
  }
}

void RoutedCore::links_changed() {
  for (auto& node : nodes_) {
    if (node->agent) node->agent->disturb(io::monotonic_now());
  }
  if (link_handler_) link_handler_();
}

void RoutedCore::configure(const fabric::NetworkConfig& config, std::vector<fabric::NetworkConfig> links) {
  BRDMA_CHECK(links.size() == topology_.link_count());
  config_ = config;
  configure_nodes();
  for (std::uint32_t link = 0; link < links.size(); ++link) configure_link(link, links[link]);
}

void RoutedCore::configure_link(std::uint32_t link, const fabric::NetworkConfig& config) {
  link_configs_[link] = config;
  for (const bool back : {false, true}) fabric_.configure(link, back, config_of(link, back));
  for (std::uint32_t router = 0; router < nodes_.size(); ++router) configure_translation(router);
  links_changed();
}

void RoutedCore::set_link_up(std::uint32_t link, bool up) {
  Owner owner{*this};
  fabric_.set_up(link, up, owner);
  links_changed();
}

void RoutedCore::handle_packet(std::uint32_t port, const SwitchPacket& packet, const fabric::FrameInfo& info,
                               Instant now) {
  Owner owner{*this};
  SwitchPacket mine = packet;
  mine.is_ip = info.kind != fabric::FrameKind::kControl;
  mine.judged = info.kind == fabric::FrameKind::kRoce ||
                (info.kind == fabric::FrameKind::kIp && config_.impaired == fabric::Impaired::kAll);
  fabric_.handle_packet(port, mine, packet.size, now, owner);
}

void RoutedCore::handle_timeout(Instant now) {
  Owner owner{*this};
  fabric_.handle_timeout(now, owner);
  for (std::uint32_t router = 0; router < nodes_.size(); ++router) {
    DropNotices& notices = nodes_[router]->notices;
    notices.handle_timeout(now);
    fabric::FrameInfo info;
    while (const auto packet = notices.poll(info)) fabric_.send(router, *packet, now, owner);
    serve_agent(router, now);
  }
}

std::optional<SwitchPacket> RoutedCore::poll(std::uint32_t port, Instant now) {
  Owner owner{*this};
  const auto packet = fabric_.poll(port, now, owner);
  if (packet) {
    std::byte* const frame = pool_.buffer(packet->buffer).data();
    fabric::store_mac(frame, fabric::topology_host_mac(port));
    fabric::store_mac(frame + 6, fabric::topology_port_mac(port));
  }
  return packet;
}

std::optional<Instant> RoutedCore::next_timeout() const {
  auto next = fabric_.next_timeout();
  for (const auto& node : nodes_) {
    const auto sample = node->agent ? node->agent->next_timeout() : std::nullopt;
    for (const auto due : {node->notices.next_timeout(), sample}) {
      if (due && (!next || *due < *next)) next = due;
    }
  }
  return next;
}

nlohmann::ordered_json RoutedCore::answer(const nlohmann::json& request, DataLoop& loop) {
  return answer_routed(request, *this, loop);
}

}  // namespace brdma::lab
