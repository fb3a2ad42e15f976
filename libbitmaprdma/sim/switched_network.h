// sim/switched_network.h - hosts of a world behind the ports of one switch: the lab's (fabric/switch/switch.h), with
// the same settings, in virtual time. All packets to one host wait in one queue.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/units.h"
#include "fabric/network.h"
#include "fabric/switch/drop_notifier.h"
#include "fabric/switch/rtt_translator.h"
#include "fabric/switch/switch.h"
#include "sim/host.h"
#include "sim/packet_owner.h"
#include "sim/packet_pool.h"

namespace brdma::sim {

class SwitchedNetwork {
 public:
  // Ports in the order of `hosts`.
  SwitchedNetwork(PacketPool& pool, std::vector<Host*> hosts, const fabric::NetworkConfig& config);
  ~SwitchedNetwork();
  SwitchedNetwork(const SwitchedNetwork&) = delete;
  SwitchedNetwork& operator=(const SwitchedNetwork&) = delete;

  // Faults, rates, queues, translation of marks: from now on. Notification does not change.
  void configure(const fabric::NetworkConfig& config);
  void configure_towards(const Host& host, const fabric::LinkConfig& link) {
    switch_.configure_down(port_of(host), link);
  }
  // A packet for an address that no port leads to is lost.
  void send(const Host& from, PacketIndex packet, std::uint32_t bytes, Instant now);
  // Delivers arrived packets to the hosts.
  void deliver(Instant now);
  void send_notices(Instant now);
  [[nodiscard]] std::optional<Instant> next_timeout() const;

  [[nodiscard]] const fabric::Switch<PacketIndex>& fabric() const { return switch_; }
  [[nodiscard]] fabric::LinkCounters counters_towards(const Host& host) const;
  [[nodiscard]] const fabric::DropNotifier* notifier() const { return notifier_.get(); }
  [[nodiscard]] const fabric::RttTranslator* translator() const { return translator_.get(); }

 private:
  void configure_translation(const fabric::NetworkConfig& config);
  [[nodiscard]] std::uint32_t port_of(const Host& host) const;
  [[nodiscard]] std::optional<std::uint32_t> port_of(const IpAddress& address) const;
  [[nodiscard]] PacketOwner owner() { return {pool_, notifier_.get(), translator_.get()}; }

  PacketPool& pool_;
  std::vector<Host*> hosts_;
  fabric::Switch<PacketIndex> switch_;
  std::unique_ptr<fabric::DropNotifier> notifier_;
  std::unique_ptr<fabric::RttTranslator> translator_;
};

}  // namespace brdma::sim
