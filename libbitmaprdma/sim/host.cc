#include "sim/host.h"

#include <algorithm>

#include "base/check.h"
#include "wire/crc/icrc.h"
#include "wire/stopped_peer.h"

namespace brdma::sim {

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
      buffer_(std::make_unique<TransmitBuffer>()),
      random_(config.engine.seed.low, "stalls") {
  if (config_.stalls.every > Duration{}) draw_stall();
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
  dead_ = true;
  engine_.reset();
  process_.reset();
  for (; !socket_.empty(); socket_.pop_front()) pool_.give_back(socket_.front());
  socket_used_ = 0;
  paused_until_.reset();
  busy_until_.reset();
}

void Host::restart() {
  BRDMA_CHECK(dead_ && engine_ == nullptr);
  EngineConfig config = config_.engine;
  config.seed.low += ++restarts_;
  make_engine(config);
  dead_ = false;
  touched_ = true;
}

bool Host::take_stopped_query(const Packet& query, Instant now) {
  if (query.source_port == 0) return false;  // ICMP
  const auto asked = wire::parse_stopped_query_packet(query.bytes);
  if (!asked) return false;
  const wire::IcrcPath came{.source = query.source, .destination = query.destination, .source_port = query.source_port};
  const bool stopped = !dead_ && stopped_until_ && now < *stopped_until_;
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
  if (take_stopped_query(pool_[packet], now)) return pool_.give_back(packet);
  const std::uint64_t bytes = pool_[packet].bytes.size();
  if (dead_ || socket_.size() >= config_.socket_packets || socket_used_ + bytes > config_.socket_bytes) {
    if (!dead_) ++socket_drops_;
    pool_.give_back(packet);
    return;
  }
  pool_[packet].arrived = now;
  socket_.push_back(packet);
  socket_used_ += bytes;
  socket_packets_most_ = std::max(socket_packets_most_, static_cast<std::uint32_t>(socket_.size()));
}

// The next stall: some time after this one.
void Host::draw_stall() {
  const auto up_to = [this](Duration most) {
    return Duration::from_ns(static_cast<std::int64_t>(random_.below(static_cast<std::uint64_t>(most.ns()) + 1)));
  };
  stall_from_ = stall_until_ + up_to(config_.stalls.every * 2);
  stall_until_ = stall_from_ + up_to(config_.stalls.length_max) + kTick;
}

bool Host::is_away(Instant now) {
  while (config_.stalls.every > Duration{} && now >= stall_from_) {
    if (now < stall_until_) paused_until_ = std::max(paused_until_.value_or(stall_until_), stall_until_);
    draw_stall();
  }
  if (paused_until_ && now < *paused_until_) return true;
  paused_until_.reset();
  return false;
}

std::optional<Instant> Host::next_wake(Instant now) const {
  if (!replies_.empty()) return now;
  if (dead_) return std::nullopt;
  std::optional<Instant> wake = engine_->next_timeout();
  if (busy_until_ && (!wake || *busy_until_ < *wake)) wake = std::max(now, *busy_until_);
  if (touched_ || !socket_.empty()) wake = now;
  if (wake && paused_until_ && *wake < *paused_until_) wake = paused_until_;
  return wake;
}

void Host::receive_all(Instant now) {
  while (!socket_.empty()) {
    const PacketIndex index = socket_.front();
    socket_.pop_front();
    const Packet& packet = pool_[index];
    socket_used_ -= packet.bytes.size();
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

bool Host::poll_batch(Instant now) {
  Transmit transmit;
  if (!engine_->poll_transmit(*buffer_, transmit, now)) return false;
  split(transmit);
  return true;
}

// As the kernel does with a GSO message: gathers the slices and cuts them into segments.
void Host::split(const Transmit& transmit) {
  out_.clear();
  BRDMA_CHECK(transmit.segments > 0 && transmit.path < config_.engine.source_ports.size());
  std::size_t slice = 0, used = 0;
  std::uint32_t left = transmit.bytes;
  for (std::uint16_t segment = 0; segment < transmit.segments; ++segment) {
    std::size_t wanted = std::min<std::size_t>(transmit.segment_bytes, left);
    BRDMA_CHECK(wanted > 0);
    left -= static_cast<std::uint32_t>(wanted);
    const PacketIndex index = pool_.take();
    Packet& packet = pool_[index];
    packet.source = transmit.source;
    packet.destination = transmit.destination;
    packet.source_port = config_.engine.source_ports[transmit.path];
    packet.ip_id = transmit.standard ? segment : std::uint16_t{0};
    packet.traffic_class = transmit.traffic_class;
    packet.hop_limit = transmit.hop_limit;
    while (wanted > 0) {
      BRDMA_CHECK(slice < transmit.slices.size());
      const Slice& from = transmit.slices[slice];
      const std::size_t here = std::min(wanted, from.size - used);
      const auto* bytes = static_cast<const std::byte*>(from.data) + used;
      packet.bytes.insert(packet.bytes.end(), bytes, bytes + here);
      wanted -= here;
      used += here;
      if (used == from.size) {
        ++slice;
        used = 0;
      }
    }
    out_.push_back(index);
  }
  BRDMA_CHECK(left == 0 && slice == transmit.slices.size());
}

}  // namespace brdma::sim
