// fabric/switch/switch.h - an Ethernet switch with a host behind each port: learns addresses, floods unknown ones, and
// passes each packet through the links between. Sans-I/O like fabric/link.h, with the same Owner.
//
//   host -> up link (rate, queue) -> processor, forwarding -> down link of the destination's port (faults, rate, queue,
//        delay) -> host
//
// Faults and delay are on the down link alone: between two hosts a packet meets each of them once. So are marking and
// classes; the queues before the down links may share one buffer.
// The driver calls handle_packet for packets of hosts, then poll for each port until it returns nothing, then waits
// until next_timeout. Without a rate the up links are skipped.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "fabric/link.h"
#include "fabric/network.h"
#include "fabric/processor.h"
#include "fabric/routing/frame.h"
#include "fabric/routing/mac_table.h"
#include "fabric/routing/path_map.h"
#include "fabric/switch/shared_buffer.h"

namespace brdma::fabric {

template <class Packet>
class Switch {
 public:
  // One port a name. Names select the links' random streams: "h1".
  Switch(std::span<const std::string> ports, const NetworkConfig& config) : config_(config) {
    ports_.reserve(ports.size());
    for (const std::string& name : ports) {
      ports_.push_back(Port{Link<UpPacket>{config.uplink_config(), config.seed, name + ".up"},
                            Link<Packet>{config.link, config.seed, name + ".down"}});
      ports_.back().down.share(&buffer_);
    }
    buffer_.configure(config.buffer);
    processor_.configure(config.switch_rate);
  }
  Switch(const Switch&) = delete;  // its links refer to its buffer
  Switch& operator=(const Switch&) = delete;

  void configure(const NetworkConfig& config) {
    config_ = config;
    buffer_.configure(config.buffer);
    processor_.configure(config.switch_rate);
    for (Port& port : ports_) {
      port.up.configure(config.uplink_config());
      port.down.configure(config.link);
    }
  }
  // Packets to one host only; until the next configure().
  void configure_down(std::uint32_t port, const LinkConfig& link) { ports_[port].down.configure(link); }
  [[nodiscard]] const NetworkConfig& config() const { return config_; }
  [[nodiscard]] std::uint32_t port_count() const { return static_cast<std::uint32_t>(ports_.size()); }
  [[nodiscard]] LinkCounters up_counters(std::uint32_t port) const { return ports_[port].up.counters(); }
  [[nodiscard]] LinkCounters down_counters(std::uint32_t port) const { return ports_[port].down.counters(); }
  [[nodiscard]] const SharedBuffer& buffer() const { return buffer_; }
  [[nodiscard]] const ProcessorCounters& processing() const { return processor_.counters(); }
  // The queue to the host behind `port`.
  [[nodiscard]] const OutputQueue<Packet>& queue(std::uint32_t port) const { return ports_[port].down.queue(); }
  [[nodiscard]] const LinkCounters& path_counters(std::uint32_t port, std::size_t path) const {
    return ports_[port].down.path_counters(path);
  }

  // Enters an address before it has sent anything.
  void learn(MacAddress address, std::uint32_t port) { table_.learn(address, port); }
  // Returns every packet to its owner.
  template <class Owner>
  void clear(Owner& owner) {
    UpOwner<Owner> up_owner{owner};
    processor_.clear([&up_owner](UpPacket up) { up_owner.discard(std::move(up)); });
    for (Port& port : ports_) {
      port.up.clear(up_owner);
      port.down.clear(owner);
    }
  }

  // A packet of `bytes` came from the host behind `from`.
  template <class Owner>
  void handle_packet(std::uint32_t from, Packet packet, const FrameInfo& info, std::uint32_t bytes, Instant now,
                     Owner& owner) {
    BRDMA_CHECK(from < ports_.size());
    table_.learn(info.source, from);
    Port& port = ports_[from];
    const std::uint32_t flow =
        config_.link.paths > 1 && info.kind == FrameKind::kRoce ? paths_.find(info.source, info.source_port) : 0;
    UpPacket up{std::move(packet), info.destination, from, bytes, flow, is_judged(info.kind)};
    if (!port.up.config().rate && port.up.pending() == 0) return process(std::move(up), now, owner);
    UpOwner<Owner> up_owner{owner};
    port.up.handle_packet(std::move(up), bytes, false, now, up_owner);
  }

  // Call before reading queues and buffer: removes packets that have left by then.
  void advance(Instant now) {
    for (Port& port : ports_) port.down.advance(now);
  }

  // A packet of the switch's own, to the host behind the port of its destination; without faults.
  template <class Owner>
  void send(Packet packet, const FrameInfo& info, std::uint32_t bytes, Instant now, Owner& owner) {
    const auto to = table_.find(info.destination);
    if (!to) return owner.discard(std::move(packet));
    ports_[*to].down.handle_packet(std::move(packet), bytes, /*judged=*/false, now, owner);
  }

  // Moves due packets. Call before a round of polls.
  template <class Owner>
  void handle_timeout(Instant now, Owner& owner) {
    UpOwner<Owner> up_owner{owner};
    for (std::uint32_t i = 0; i < ports_.size(); ++i) {
      // With its due time: the driver's lateness does not accumulate, and a full rate stays full.
      Link<UpPacket>& link = ports_[i].up;
      while (auto up = link.poll(now, up_owner)) process(std::move(*up), link.polled_due(), owner);
    }
    while (auto done = processor_.poll(now)) forward(std::move(done->item), done->at, owner);
  }

  // The next packet that is due at the host behind `port`.
  template <class Owner>
  [[nodiscard]] std::optional<Packet> poll(std::uint32_t port, Instant now, Owner& owner) {
    return ports_[port].down.poll(now, owner);
  }

  [[nodiscard]] std::optional<Instant> next_timeout() const {
    std::optional<Instant> next = processor_.next_timeout();
    for (const Port& port : ports_) {
      for (const auto due : {port.up.next_timeout(), port.down.next_timeout()}) {
        if (due && (!next || *due < *next)) next = due;
      }
    }
    return next;
  }

 private:
  struct UpPacket {
    Packet packet{};
    MacAddress destination = 0;
    std::uint32_t from = 0;  // port
    std::uint32_t bytes = 0;
    std::uint32_t flow = 0;  // its path
    bool judged = false;
  };
  // The up links have no faults: only discard of their owner is called.
  template <class Owner>
  struct UpOwner {
    Owner& owner;
    std::optional<UpPacket> duplicate(const UpPacket&) { return std::nullopt; }
    void corrupt(UpPacket&, std::uint64_t) {}
    void discard(UpPacket up) { owner.discard(std::move(up.packet)); }
  };
  struct Port {
    Link<UpPacket> up;
    Link<Packet> down;
  };

  [[nodiscard]] bool is_judged(FrameKind kind) const {
    return kind == FrameKind::kRoce || (kind == FrameKind::kIp && config_.impaired == Impaired::kAll);
  }

  // It may drop the packet, as a full queue does.
  template <class Owner>
  void process(UpPacket up, Instant now, Owner& owner) {
    if (processor_.passes_at_once()) return forward(std::move(up), now, owner);
    if (processor_.accept(up, now)) return;
    if constexpr (requires { owner.dropped(up.packet, Duration{}, now); }) {
      owner.dropped(up.packet, processor_.drain(now), now);
    }
    owner.discard(std::move(up.packet));
  }

  template <class Owner>
  void forward(UpPacket up, Instant now, Owner& owner) {
    const std::uint32_t from = up.from;
    if (buffer_.on()) advance(now);  // memory of departed packets is free
    if (const auto to = table_.find(up.destination)) {
      if (*to == from) return owner.discard(std::move(up.packet));  // the host talks to itself
      return ports_[*to].down.handle_packet(std::move(up.packet), up.bytes, up.judged, now, owner, up.flow);
    }
    for (std::uint32_t to = 0; to < ports_.size(); ++to) {
      if (to == from) continue;
      if (auto copy = owner.duplicate(up.packet)) {
        ports_[to].down.handle_packet(std::move(*copy), up.bytes, up.judged, now, owner, up.flow);
      }
    }
    owner.discard(std::move(up.packet));
  }

  NetworkConfig config_;
  SharedBuffer buffer_;
  Processor<UpPacket> processor_;
  std::vector<Port> ports_;
  MacTable table_;
  PathMap paths_;
};

}  // namespace brdma::fabric
