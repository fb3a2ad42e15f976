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
#include "sim/local_processes.h"
#include "sim/packet_pool.h"
#include "sim/trace_recorder.h"

namespace brdma::sim {

class Host {
 public:
  // `observers` belongs to the world, which may add to it.
  Host(const HostConfig& config, PacketPool& pool, TraceRecorder& recorder, const std::vector<Observer*>& observers);
  ~Host();
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  [[nodiscard]] Engine& engine() { return *engine_; }
  [[nodiscard]] const Statistics& statistics() const { return statistics_; }
  [[nodiscard]] const HostConfig& config() const { return config_; }
  [[nodiscard]] const IpAddress& address() const { return config_.address; }
  // Every notification made so far; tests may clear it.
  [[nodiscard]] std::vector<Notification>& notifications() { return notifications_; }
  [[nodiscard]] std::uint64_t socket_drops() const { return socket_.drops(); }
  [[nodiscard]] std::uint32_t socket_packets_most() const { return socket_.packets_most(); }

  // --- for the world ---
  void pause_until(Instant until) { core_.pause_until(until); }
  void stop_until(Instant until) { core_.stop_until(until); }
  void kill() { dead_ = true; }
  // The process ends as by SIGKILL: the engine and its objects are lost.
  void crash();
  // Another process at the same address, with its own keys, queue pair numbers and first PSNs. Statistics add up.
  // Precondition: crashed.
  void restart();
  // A packet reaches the socket.
  void handle_arrival(PacketIndex packet, Instant now);
  // The application has called the engine: progress is due.
  void touch() { touched_ = true; }
  [[nodiscard]] std::optional<Instant> next_wake(Instant now) const;
  // Receives, fires timeouts, and passes every outgoing packet to `send(PacketIndex)`. True: something happened.
  template <class Send>
  bool run(Instant now, const Send& send);

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
  template <class Send>
  bool send_replies(const Send& send);
  // `may_wait`: the engine's output, if none of it is more urgent than an acknowledgement that may be deferred.
  template <class Send>
  void send_batches(Instant now, bool may_wait, const Send& send);
  template <class Send>
  void hand_over(const std::vector<PacketIndex>& batch, Instant now, const Send& send);

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

// Most batches of a host at one instant: more is an engine that sends for ever.
inline constexpr std::uint32_t kBatchesPerRunMax = 100'000;

template <class Send>
void Host::hand_over(const std::vector<PacketIndex>& batch, Instant now, const Send& send) {
  for (const PacketIndex packet : batch) {
    for (Observer* observer : observers_) observer->sent(*this, pool_[packet], now);
    send(packet);
  }
}

template <class Send>
bool Host::send_replies(const Send& send) {
  const bool replied = !replies_.empty();
  for (const PacketIndex reply : replies_) send(reply);
  replies_.clear();
  return replied;
}

template <class Send>
void Host::send_batches(Instant now, bool may_wait, const Send& send) {
  const auto waits = [&] { return may_wait && engine_->transmit_interest().level == TransmitInterest::kDeferrable; };
  for (std::uint32_t batches = 0; !output_.busy_until() && !waits(); ++batches) {
    const std::vector<PacketIndex>* const batch = output_.take_batch(*engine_, now);
    if (batch == nullptr) return;
    BRDMA_CHECK(batches < kBatchesPerRunMax);
    hand_over(*batch, now, send);
  }
}

template <class Send>
bool Host::run(Instant now, const Send& send) {
  const bool replied = send_replies(send);
  if (dead_ || core_.is_away(now)) return replied;
  const bool timed_out = is_timeout_due(now);
  const bool sends_on = output_.finish(now);
  if (!touched_ && !timed_out && !sends_on && socket_.empty()) return replied;
  const bool by_application = touched_;
  touched_ = false;
  receive_all(now);
  if (is_timeout_due(now)) engine_->handle_timeout(now);
  send_batches(now, config_.defers_acknowledgements && !by_application && !timed_out, send);
  while (auto notification = engine_->poll_notification()) notifications_.push_back(*notification);
  return true;
}

}  // namespace brdma::sim
