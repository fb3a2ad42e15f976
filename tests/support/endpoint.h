// support/endpoint.h - one side of a connection in a simulated world. Posts its traffic and the receives for the other
// side's, and checks every completion as it comes: each once, in order, with the right memory at that moment. Findings
// are sentences; no finding means success.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/world.h"
#include "support/arena.h"
#include "support/traffic.h"

namespace brdma::test {

struct EndpointConfig {
  PathMtu mtu = PathMtu::k1024;
  Psn first_psn;
  std::uint8_t timeout = 12;
  std::uint8_t retry_count = 7;
  std::uint8_t rnr_retry = 7;
  std::uint8_t min_rnr_timer = 1;
  std::uint8_t rd_atomic_max = 4;
  std::uint32_t send_wr_max = 16;
  std::uint32_t receive_wr_max = 64;
  std::uint32_t sges_max = 4;
  std::uint32_t inline_bytes_max = 64;
  bool signal_all = false;
  bool refusal_may_be_lost = false;  // by the network: then the peer looks dead
};

class Endpoint {
 public:
  // The arena must be frozen before start().
  Endpoint(sim::World& world, sim::Host& host, const EndpointConfig& config, Arena& arena);

  // Makes the objects; connects when both sides have done so.
  void start();
  void connect(const Endpoint& peer);
  // Own traffic and the peer's. Both must outlive this.
  void set_traffic(const Traffic& own, const Traffic& peers);
  // Operations allowed so far; the rest waits (late receives cause RNR NAKs, late posts cause idle times).
  void allow_operations(std::size_t count) { operations_allowed_ = count; }
  void allow_receives(std::size_t count) { receives_allowed_ = count; }
  // The program is busy meanwhile: it neither posts nor polls.
  void look_away(bool away) { away_ = away; }
  // Its own host has crashed: it does nothing more. Its engine's objects are gone.
  void crash() { crashed_ = true; }
  // The peer's host has crashed. Posted work completes; work that the peer has not executed with RETRY_EXC_ERR and
  // flushes. Then the queue pair is moved to ERR, if it is not there, so that receives are flushed, too.
  void lose_peer() { peer_lost_ = true; }
  // Destroys the engine's objects, as a program does at its end.
  void destroy();

  // Posts as much as there is room for, takes completions, checks watched memory. Call after every instant.
  void progress();
  [[nodiscard]] bool done() const;
  [[nodiscard]] const std::vector<std::string>& findings() const { return findings_; }
  // At the end: compares memory.
  void check_end();
  [[nodiscard]] std::string state() const;  // progress, for a failure's report

  [[nodiscard]] sim::Host& host() { return host_; }
  [[nodiscard]] const sim::Host& host() const { return host_; }
  [[nodiscard]] QueuePair* qp() { return qp_; }
  [[nodiscard]] CompletionQueue* cq() { return cq_; }
  [[nodiscard]] std::uint32_t qpn() const { return host_.engine().qp_num(qp_); }
  [[nodiscard]] std::uint32_t key() const { return key_; }
  [[nodiscard]] MemoryRegion* region() { return region_; }
  [[nodiscard]] Arena& arena() { return arena_; }

 private:
  void find(std::string what);
  [[nodiscard]] bool makes_completion(const Operation& operation) const;
  bool post_operation(const Operation& operation, std::size_t index);
  bool post_receive(const Receive& receive, std::size_t index);
  void take(const Completion& completion);
  void take_send(const Completion& completion);
  void take_error(const Completion& completion, const std::string& what);
  void take_receive(const Completion& completion);
  void end_without_peer();
  [[nodiscard]] std::size_t completions_expected() const;
  void check_memory(const std::vector<Buffer>& buffers, const std::string& what);
  void watch_last_bytes();

  sim::World& world_;
  sim::Host& host_;
  EndpointConfig config_;
  Arena& arena_;
  ProtectionDomain* pd_ = nullptr;
  MemoryRegion* region_ = nullptr;
  CompletionQueue* cq_ = nullptr;
  QueuePair* qp_ = nullptr;
  std::uint32_t key_ = 0;
  const Endpoint* peer_ = nullptr;
  const Traffic* own_ = nullptr;
  const Traffic* peers_ = nullptr;
  std::size_t operations_allowed_ = SIZE_MAX, receives_allowed_ = SIZE_MAX;
  std::size_t operations_posted_ = 0, operations_completed_ = 0;
  std::size_t receives_posted_ = 0, receives_completed_ = 0;
  bool in_error_ = false;  // an operation has failed
  bool receives_flushed_ = false;
  bool away_ = false, crashed_ = false, peer_lost_ = false;
  bool moved_to_error_ = false;       // by this endpoint
  std::vector<std::size_t> watched_;  // the peer's WRITEs whose last byte has not arrived
  std::vector<std::string> findings_;
};

}  // namespace brdma::test
