// sim/host.h - one host of a world: an engine behind a socket of limited size, driven as io's shard drives its own.
// Packets wait in the socket until the host runs. It can be paused (as a process without a core), stopped (as by a
// debugger), killed, and can crash and restart. Packets that do not fit into the socket are dropped, as with UDP. QP 1
// belongs to its machine, as to brdmad: it reports whether the process is stopped (wire/stopped_peer.h).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/check.h"
#include "base/units.h"
#include "device/engine.h"
#include "sim/host_config.h"
#include "sim/host_core.h"
#include "sim/host_output.h"
#include "sim/host_socket.h"
#include "sim/packet_pool.h"
#include "sim/processes/local_processes.h"
#include "sim/station.h"
#include "sim/trace_recorder.h"

namespace brdma::sim {

class Host final : public Station {
 public:
  // `observers` belongs to the world, which may add to it.
  Host(const HostConfig& config, PacketPool& pool, TraceRecorder& recorder, const std::vector<Observer*>& observers);
  ~Host() override;

  // The caller may give it work: progress is due then only after touch(), or by the engine's own times.
  [[nodiscard]] Engine& engine() {
    changed();
    return *engine_;
  }
  [[nodiscard]] const Statistics& statistics() const { return statistics_; }
  [[nodiscard]] const HostConfig& config() const { return config_; }
  [[nodiscard]] const IpAddress& address() const override { return config_.address; }
  // Every notification made so far; tests may clear it.
  [[nodiscard]] std::vector<Notification>& notifications() { return notifications_; }
  [[nodiscard]] std::uint64_t socket_drops() const { return socket_.drops(); }
  [[nodiscard]] std::uint32_t socket_packets_most() const { return socket_.packets_most(); }

  // --- for the world ---
  void pause_until(Instant until) {
    changed();
    core_.pause_until(until);
  }
  void stop_until(Instant until) {
    changed();
    core_.stop_until(until);
  }
  void kill() {
    changed();
    dead_ = true;
  }
  // The process ends as by SIGKILL: the engine and its objects are lost.
  void crash();
  // Another process at the same address, with its own keys, queue pair numbers and first PSNs. Statistics add up.
  // Precondition: crashed.
  void restart();
  // A packet reaches the socket.
  void handle_arrival(PacketIndex packet, Instant now) override;
  // The application has called the engine: progress is due.
  void touch() {
    changed();
    touched_ = true;
  }
  [[nodiscard]] std::optional<Instant> next_wake(Instant now) const override;
  // Receives, fires timeouts, and sends.
  bool run(Instant now, SendPacket send) override;
  // Its stalls begin at times of their own.
  [[nodiscard]] bool runs_always() const override { return config_.stalls.every > Duration{}; }
  [[nodiscard]] const Host* engine_host() const override { return this; }

 private:
  class Sink;
  void make_engine(EngineConfig config);
  [[nodiscard]] bool is_timeout_due(Instant now) const {
    const auto due = engine_->next_timeout();
    return due && *due <= now;
  }
  void receive_all(Instant now);
  // False: no query; the packet is for the process.
  bool take_stopped_query(const Packet& query, Instant now);
  // The machine's, if there are any.
  bool send_replies(SendPacket send);
  // `may_wait`: the engine's output, if none of it is more urgent than an acknowledgement that may be deferred.
  void send_batches(Instant now, bool may_wait, SendPacket send);
  void hand_over(const std::vector<PacketIndex>& batch, Instant now, SendPacket send);

  HostConfig config_;
  PacketPool& pool_;
  const std::vector<Observer*>& observers_;
  Statistics statistics_;
  std::unique_ptr<Sink> sink_;
  std::unique_ptr<LocalProcess> process_;
  std::unique_ptr<Engine> engine_;
  HostSocket socket_;
  HostCore core_;
  HostOutput output_;
  std::vector<Notification> notifications_;
  std::vector<PacketIndex> replies_;  // of the machine, independent of the process
  std::uint32_t restarts_ = 0;
  bool dead_ = false;
  bool touched_ = true;
};

}  // namespace brdma::sim
