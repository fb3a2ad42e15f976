// support/engine_pair.h - the smallest world: a sender "tx" and a receiver "rx", connected, tracing, with one region of
// memory each. For worked examples and small scenarios; random traffic is in traffic.h and endpoint.h.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/world.h"
#include "support/arena.h"
#include "support/endpoint.h"

namespace brdma::test {

struct PairConfig {
  std::uint64_t seed = 1;
  Psn start_psn{1000};  // of tx; rx starts at 5000
  Duration one_way_delay = 5_us;
  std::uint32_t paths = 1;                                              // of each side, and of the link
  Duration skew{};                                                      // of the last path
  std::optional<Bandwidth> rate = Bandwidth::from_bps(10'000'000'000);  // packets arrive one by one
  RecoveryConfig tx{}, rx{};
  EndpointConfig endpoint{};
  std::uint32_t memory_bytes = 1u << 20;
};

class EnginePair {
 public:
  explicit EnginePair(const PairConfig& config = {});

  // Loses copy number `copy` (from 1) of tx's request packet `psn`.
  void drop_copy(Psn psn, unsigned copy) { drops_[psn.value()].push_back(copy); }
  // Delays the first copy of tx's request packet `psn` by so much: it arrives late, after others.
  void delay_packet(Psn psn, Duration by) { delays_[psn.value()] = by; }
  // Loses rx's first `count` packets of this opcode from now on.
  void drop_answers(std::uint8_t opcode, unsigned count) { answer_drops_[opcode] = count; }
  // Posts one WRITE of `count` whole packets / of `bytes`, from the start of tx's memory to the start of rx's.
  void post_packets(std::uint32_t count) { post_write(count * mtu_bytes(config_.endpoint.mtu)); }
  void post_write(std::uint32_t bytes);
  void post(const SendRequest& request);

  // The link between them, to change and pass to world().configure_links().
  [[nodiscard]] fabric::LinkConfig link() const;
  // Lets CAPS pass in both directions; then clears the trace.
  void agree();
  bool run_until_idle(Duration at_most) { return world_.run_until_idle(at_most); }
  [[nodiscard]] std::string story(std::initializer_list<std::string_view> filters) {
    return world_.trace().story(filters);
  }
  [[nodiscard]] std::string full_trace() { return "\n" + world_.trace().full_trace(); }
  [[nodiscard]] std::vector<Completion> completions(Endpoint& of);
  // The first `bytes` of both memories are equal.
  [[nodiscard]] bool same_bytes(std::uint32_t bytes);

  [[nodiscard]] sim::World& world() { return world_; }
  [[nodiscard]] Endpoint& tx() { return tx_; }
  [[nodiscard]] Endpoint& rx() { return rx_; }
  [[nodiscard]] std::uint64_t count(Endpoint& of, Counter counter) { return of.host().statistics().get(counter); }

 private:
  bool passes(const sim::Host& from, const sim::Packet& packet);
  void deliver_late(const sim::Packet& packet, Duration by);

  PairConfig config_;
  sim::World world_;
  Arena tx_arena_, rx_arena_;
  sim::Host& tx_host_;
  sim::Host& rx_host_;
  Endpoint tx_, rx_;
  std::map<std::uint32_t, std::vector<unsigned>> drops_;
  std::map<std::uint32_t, unsigned> copies_;
  std::map<std::uint32_t, Duration> delays_;
  std::map<std::uint8_t, unsigned> answer_drops_;
};

}  // namespace brdma::test
