// sim/host.h - one host of a world: an engine behind a socket of limited size, driven as io's shard drives its own.
// Packets wait in the socket until the host runs. It can be paused (as a process without a core), stopped (as by a
// debugger), killed, and can crash and restart. Packets that do not fit into the socket are dropped, as with UDP. QP 1
// belongs to its machine, as to brdmad: it reports whether the process is stopped (wire/stopped_peer.h).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "base/ring.h"
#include "base/units.h"
#include "device/engine.h"
#include "sim/local_processes.h"
#include "sim/packet_pool.h"
#include "sim/trace_recorder.h"

namespace brdma::sim {

class Host;

// Sees all traffic across an engine's boundary, in the engine's order. For checkers.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void sent(const Host& from, const Packet& packet, Instant now) = 0;
  virtual void received(const Host& by, const Packet& packet, Instant now) = 0;
};

// A busy machine: once in about `every` the process loses its core, for up to `length_max`.
struct Stalls {
  Duration every{};  // 0: never
  Duration length_max{};
};

struct HostConfig {
  std::string name = "host";  // in stories
  IpAddress address;
  EngineConfig engine;
  std::uint32_t socket_packets = 1u << 16;
  std::uint64_t socket_bytes = 1u << 30;
  bool sees_ip_id = false;               // as AF_XDP does
  bool defers_acknowledgements = false;  // defers acknowledgements that may wait for the application's next call
  bool traced = false;
  Stalls stalls{};
  // Hosts with the same value are processes of one machine, which may read each other's memory.
  LocalProcesses* machine = nullptr;
  // Cost of sending: a batch leaves, and the next one after this time, as where a core copies it into the socket. None:
  // all at once.
  std::optional<Bandwidth> output_rate{};
};

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
  [[nodiscard]] std::uint64_t socket_drops() const { return socket_drops_; }
  [[nodiscard]] std::uint32_t socket_packets_most() const { return socket_packets_most_; }

  // --- for the world ---
  void pause_until(Instant until) { paused_until_ = until; }
  void stop_until(Instant until) { paused_until_ = stopped_until_ = until; }
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
  // True: it has no core at `now`.
  bool is_away(Instant now);
  void draw_stall();
  [[nodiscard]] bool is_timeout_due(Instant now) const {
    const auto due = engine_->next_timeout();
    return due && *due <= now;
  }
  void receive_all(Instant now);
  // False: no query; the packet is for the process.
  bool take_stopped_query(const Packet& query, Instant now);
  // Fills `out_` with the packets of the engine's next batch; false: nothing to send.
  bool poll_batch(Instant now);
  // The machine's, if there are any.
  template <class Send>
  bool send_replies(const Send& send);
  // `may_wait`: the engine's output, if none of it is more urgent than an acknowledgement that may be deferred.
  template <class Send>
  void send_batches(Instant now, bool may_wait, const Send& send);
  template <class Send>
  void hand_over(Instant now, const Send& send);
  void split(const Transmit& transmit);

  HostConfig config_;
  PacketPool& pool_;
  const std::vector<Observer*>& observers_;
  Statistics statistics_;
  std::unique_ptr<Sink> sink_;
  std::unique_ptr<LocalProcess> process_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<TransmitBuffer> buffer_;
  Ring<PacketIndex> socket_;
  std::uint64_t socket_used_ = 0;  // bytes
  std::uint64_t socket_drops_ = 0;
  std::uint32_t socket_packets_most_ = 0;
  std::vector<PacketIndex> out_;
  std::vector<Notification> notifications_;
  std::optional<Instant> paused_until_, stopped_until_;
  std::vector<PacketIndex> replies_;   // of the machine, independent of the process
  std::optional<Instant> busy_until_;  // end of the outgoing batch
  std::uint32_t restarts_ = 0;
  Random random_;
  Instant stall_from_, stall_until_;  // the next one
  bool dead_ = false;
  bool touched_ = true;
};

// Most batches of a host at one instant: more is an engine that sends for ever.
inline constexpr std::uint32_t kBatchesPerRunMax = 100'000;

// The packets of a batch leave; at the host's rate, if it has one.
template <class Send>
void Host::hand_over(Instant now, const Send& send) {
  if (config_.output_rate) {
    std::uint64_t bytes = 0;
    for (const PacketIndex packet : out_) bytes += pool_[packet].bytes.size();
    busy_until_ = now + config_.output_rate->time_for(bytes);
  }
  for (const PacketIndex packet : out_) {
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
  for (std::uint32_t batches = 0; !busy_until_ && !waits() && poll_batch(now); ++batches) {
    BRDMA_CHECK(batches < kBatchesPerRunMax);
    hand_over(now, send);
  }
}

template <class Send>
bool Host::run(Instant now, const Send& send) {
  const bool replied = send_replies(send);
  if (dead_ || is_away(now)) return replied;
  const bool timed_out = is_timeout_due(now);
  const bool sends_on = busy_until_ && now >= *busy_until_;
  if (!touched_ && !timed_out && !sends_on && socket_.empty()) return replied;
  const bool by_application = touched_;
  touched_ = false;
  receive_all(now);
  if (is_timeout_due(now)) engine_->handle_timeout(now);
  if (busy_until_ && now >= *busy_until_) busy_until_.reset();
  send_batches(now, config_.defers_acknowledgements && !by_application && !timed_out, send);
  while (auto notification = engine_->poll_notification()) notifications_.push_back(*notification);
  return true;
}

}  // namespace brdma::sim
