#include "sim/host.h"

#include <algorithm>

#include "base/check.h"
#include "wire/crc/icrc.h"
#include "wire/stopped_peer.h"

namespace brdma::sim {
namespace {

// Most batches of a host at one instant: more is an engine that sends for ever.
constexpr std::uint32_t kBatchesPerRunMax = 100'000;

}  // namespace

class Host::Sink : public trace::Sink {
 public:
  Sink(TraceRecorder& recorder, std::uint16_t host) : recorder_(recorder), host_(host) {}
  void record(Instant when, std::uint32_t qpn, const trace::Event& event) override {
    recorder_.record(host_, when, qpn, event);
  }

 private:
  TraceRecorder& recorder_;
  std::uint16_t host_;
};

Host::Host(const HostConfig& config, PacketPool& pool, TraceRecorder& recorder, const std::vector<Observer*>& observers)
    : config_(config),
      pool_(pool),
      observers_(observers),
      socket_(config_, pool),
      core_(config.stalls, config.engine.seed.low),
      output_(config_, pool) {
  const std::uint16_t number = recorder.add_host(config.name);
  if (config.traced) sink_ = std::make_unique<Sink>(recorder, number);
  make_engine(config_.engine);
}

Host::~Host() = default;

void Host::make_engine(EngineConfig config) {
  if (config_.machine != nullptr) {
    process_ = std::make_unique<LocalProcess>(*config_.machine);
    config.local_memory = process_.get();
  }
  engine_ = std::make_unique<Engine>(config, statistics_, sink_.get());
}

void Host::crash() {
  changed();
  dead_ = true;
  engine_.reset();
  process_.reset();
  socket_.clear();
  core_.release();
  output_.clear();
}

void Host::restart() {
  BRDMA_CHECK(dead_ && engine_ == nullptr);
  EngineConfig config = config_.engine;
  config.seed.low += ++restarts_;
  make_engine(config);
  dead_ = false;
  touch();
}

bool Host::take_stopped_query(const Packet& query, Instant now) {
  if (query.source_port == 0) return false;  // ICMP
  const auto asked = wire::parse_stopped_query_packet(query.bytes);
  if (!asked) return false;
  const wire::IcrcPath came{.source = query.source, .destination = query.destination, .source_port = query.source_port};
  const bool stopped = !dead_ && core_.is_stopped(now);
  if (!stopped || wire::packet_icrc(came, query.bytes) != wire::stored_icrc(query.bytes)) return true;
  const PacketIndex index = pool_.take();
  Packet& reply = pool_[index];
  reply.source = query.destination;
  reply.destination = query.source;
  reply.source_port = config_.engine.source_ports.front();
  reply.ip_id = 0;
  reply.traffic_class = 0;
  reply.bytes.resize(wire::kStoppedReplyPacketSize);
  wire::emit_stopped_reply_packet({.peer_qpn = asked->peer_qpn, .nonce = asked->nonce}, asked->source_qpn,
                                  std::span<std::byte, wire::kStoppedReplyPacketSize>{reply.bytes});
  const wire::IcrcPath path{.source = reply.source, .destination = reply.destination, .source_port = reply.source_port};
  store_le32(reply.bytes.data() + reply.bytes.size() - wire::kIcrcSize, wire::packet_icrc(path, reply.bytes));
  replies_.push_back(index);
  return true;
}

void Host::handle_arrival(PacketIndex packet, Instant now) {
  changed();
  if (take_stopped_query(pool_[packet], now)) return pool_.give_back(packet);
  pool_[packet].arrived = now;
  if (dead_ || !socket_.push(packet)) pool_.give_back(packet);
}

std::optional<Instant> Host::next_wake(Instant now) const {
  if (!replies_.empty()) return now;
  if (dead_) return std::nullopt;
  std::optional<Instant> wake = engine_->next_timeout();
  const std::optional<Instant> busy_until = output_.busy_until();
  if (busy_until && (!wake || *busy_until < *wake)) wake = std::max(now, *busy_until);
  if (touched_ || !socket_.empty()) wake = now;
  return wake ? std::optional{core_.not_before(*wake)} : wake;
}

void Host::receive_all(Instant now) {
  while (!socket_.empty()) {
    const PacketIndex index = socket_.take();
    const Packet& packet = pool_[index];
    Datagram datagram;
    datagram.source = packet.source;
    datagram.destination = packet.destination;
    datagram.source_port = packet.source_port;
    datagram.traffic_class = packet.traffic_class;
    datagram.ip_id_known = config_.sees_ip_id;
    datagram.ip_id = config_.sees_ip_id ? packet.ip_id : std::uint16_t{0};
    datagram.waited = now - packet.arrived;
    datagram.bytes = packet.bytes;
    if (packet.source_port == 0) {  // ICMP
      engine_->handle_icmp(packet.bytes, now);
    } else {
      for (Observer* observer : observers_) observer->received(*this, packet, now);
      engine_->handle_datagram(datagram, now);
    }
    pool_.give_back(index);
  }
}

void Host::hand_over(const std::vector<PacketIndex>& batch, Instant now, SendPacket send) {
  for (const PacketIndex packet : batch) {
    for (Observer* observer : observers_) observer->sent(*this, pool_[packet], now);
    send(packet);
  }
}

bool Host::send_replies(SendPacket send) {
  const bool replied = !replies_.empty();
  for (const PacketIndex reply : replies_) send(reply);
  replies_.clear();
  return replied;
}

void Host::send_batches(Instant now, bool may_wait, SendPacket send) {
  const auto waits = [&] { return may_wait && engine_->transmit_interest().level == TransmitInterest::kDeferrable; };
  for (std::uint32_t batches = 0; !output_.busy_until() && !waits(); ++batches) {
    const std::vector<PacketIndex>* const batch = output_.take_batch(*engine_, now);
    if (batch == nullptr) return;
    BRDMA_CHECK(batches < kBatchesPerRunMax);
    hand_over(*batch, now, send);
  }
}

bool Host::run(Instant now, SendPacket send) {
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
