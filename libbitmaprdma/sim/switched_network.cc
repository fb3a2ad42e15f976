#include "sim/switched_network.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/check.h"

namespace brdma::sim {
namespace {

std::vector<std::string> names_of(const std::vector<Host*>& hosts) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < hosts.size(); ++i) names.push_back("h" + std::to_string(i + 1));
  return names;
}
// Hosts of a world have no Ethernet: one address per port.
fabric::MacAddress mac_of(std::uint32_t port) { return port + 1; }

}  // namespace

SwitchedNetwork::SwitchedNetwork(PacketPool& pool, std::vector<Host*> hosts, const fabric::NetworkConfig& config)
    : pool_(pool), hosts_(std::move(hosts)), switch_(names_of(hosts_), config) {
  for (std::uint32_t port = 0; port < hosts_.size(); ++port) switch_.learn(mac_of(port), port);
  if (config.edn != fabric::EdnForm::kOff) {
    notifier_ = std::make_unique<fabric::DropNotifier>(fabric::DropNotifier::Config{.form = config.edn});
  }
  configure_translation(config);
}

void SwitchedNetwork::configure(const fabric::NetworkConfig& config) {
  switch_.configure(config);
  configure_translation(config);
}

void SwitchedNetwork::configure_translation(const fabric::NetworkConfig& config) {
  const auto increment = fabric::increment_of(config, static_cast<std::uint32_t>(hosts_.size()), config.link.rate);
  if (!increment) return translator_.reset();
  if (!translator_) translator_ = std::make_unique<fabric::RttTranslator>(fabric::RttTranslator::Config{});
  translator_->configure(*increment, config.ecn_to_rtt->rewrite);
}

SwitchedNetwork::~SwitchedNetwork() {
  PacketOwner mine = owner();
  switch_.clear(mine);
}

std::uint32_t SwitchedNetwork::port_of(const Host& host) const {
  const auto found = std::find(hosts_.begin(), hosts_.end(), &host);
  BRDMA_CHECK(found != hosts_.end());
  return static_cast<std::uint32_t>(found - hosts_.begin());
}

std::optional<std::uint32_t> SwitchedNetwork::port_of(const IpAddress& address) const {
  const auto found =
      std::find_if(hosts_.begin(), hosts_.end(), [&](const Host* host) { return host->address() == address; });
  if (found == hosts_.end()) return std::nullopt;
  return static_cast<std::uint32_t>(found - hosts_.begin());
}

void SwitchedNetwork::send(const Host& from, PacketIndex packet, std::uint32_t bytes, Instant now) {
  const auto to = port_of(pool_[packet].destination);
  if (!to) return pool_.give_back(packet);
  fabric::FrameInfo info;
  info.source = mac_of(port_of(from));
  info.destination = mac_of(*to);
  info.kind = fabric::FrameKind::kRoce;
  info.source_port = pool_[packet].source_port;
  PacketOwner mine = owner();
  switch_.handle_packet(port_of(from), packet, info, bytes, now, mine);
}

void SwitchedNetwork::deliver(Instant now) {
  PacketOwner mine = owner();
  switch_.handle_timeout(now, mine);
  for (std::uint32_t port = 0; port < hosts_.size(); ++port) {
    while (const auto packet = switch_.poll(port, now, mine)) hosts_[port]->handle_arrival(*packet, now);
  }
}

void SwitchedNetwork::send_notices(Instant now) {
  if (!notifier_) return;
  notifier_->handle_timeout(now);
  while (const auto notice = notifier_->poll()) {
    const auto to = port_of(notice->destination);
    if (!to) continue;
    fabric::FrameInfo info;
    info.destination = mac_of(*to);
    const PacketIndex packet = take_notice(pool_, *notice);
    PacketOwner mine = owner();
    switch_.send(packet, info, wire_bytes(pool_[packet]), now, mine);
  }
}

std::optional<Instant> SwitchedNetwork::next_timeout() const {
  std::optional<Instant> next = switch_.next_timeout();
  if (!notifier_) return next;
  const auto flush = notifier_->next_timeout();
  return next && flush ? std::min(*next, *flush) : next ? next : flush;
}

fabric::LinkCounters SwitchedNetwork::counters_towards(const Host& host) const {
  return switch_.down_counters(port_of(host));
}

}  // namespace brdma::sim
