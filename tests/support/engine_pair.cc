#include "support/engine_pair.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"
#include "wire/headers.h"
#include "wire/opcode.h"

namespace brdma::test {
namespace {

sim::HostConfig host_config(const char* name, std::uint8_t number, const RecoveryConfig& recovery,
                            const PairConfig& pair) {
  sim::HostConfig config;
  config.name = name;
  config.address = IpAddress::v4(10, 77, 0, number);
  config.engine.recovery = recovery;
  config.engine.seed = pair.seed + number;
  for (std::uint16_t path = 1; path < pair.paths; ++path) {
    config.engine.source_ports.push_back(static_cast<std::uint16_t>(0xC000 + path));
  }
  config.engine.segments_max = 64;
  config.traced = true;
  return config;
}

EndpointConfig with_psn(EndpointConfig config, Psn psn) {
  config.first_psn = psn;
  return config;
}

Arena make_arena(std::uint64_t iova, std::uint64_t seed, std::string_view name, std::uint32_t bytes) {
  Arena arena{iova, Random{seed, name}};
  arena.allocate(bytes);
  return arena;
}

}  // namespace

EnginePair::EnginePair(const PairConfig& config)
    : config_(config),
      world_(config.seed),
      tx_arena_(make_arena(0x1000'0000'0000, config.seed, "tx", config.memory_bytes)),
      rx_arena_(make_arena(0x2000'0000'0000, config.seed, "rx", config.memory_bytes)),
      tx_host_(world_.add_host(host_config("tx", 1, config.tx, config))),
      rx_host_(world_.add_host(host_config("rx", 2, config.rx, config))),
      tx_(world_, tx_host_, with_psn(config.endpoint, config.start_psn), tx_arena_),
      rx_(world_, rx_host_, with_psn(config.endpoint, Psn{5000}), rx_arena_) {
  world_.join(tx_host_, rx_host_, link(), link());
  world_.set_filter([this](const sim::Host& from, const sim::Packet& packet) { return passes(from, packet); });
  tx_arena_.freeze();
  rx_arena_.freeze();
  tx_.start();
  rx_.start();
  tx_.connect(rx_);
  rx_.connect(tx_);
}

fabric::LinkConfig EnginePair::link() const {
  fabric::LinkConfig link;
  link.delay = config_.one_way_delay;
  link.rate = config_.rate;
  link.queue_bytes = 1u << 30;
  link.paths = config_.paths;
  link.skew = config_.skew;
  return link;
}

bool EnginePair::passes(const sim::Host& from, const sim::Packet& packet) {
  const std::byte* bth = packet.bytes.data();
  const std::uint8_t opcode = load_u8(bth);
  if (&from == &rx_host_) {
    const auto found = answer_drops_.find(opcode);
    if (found == answer_drops_.end() || found->second == 0) return true;
    --found->second;
    return false;
  }
  if ((opcode & wire::kTransportMask) == wire::kTransportControl) return true;
  const std::uint32_t psn = load_be24(bth + 9);
  const unsigned copy = ++copies_[psn];
  if (const auto late = delays_.find(psn); late != delays_.end() && copy == 1) {
    deliver_late(packet, late->second);
    return false;
  }
  const auto found = drops_.find(psn);
  return found == drops_.end() || std::find(found->second.begin(), found->second.end(), copy) == found->second.end();
}

void EnginePair::deliver_late(const sim::Packet& packet, Duration by) {
  const sim::PacketIndex copy = world_.packets().take();
  world_.packets()[copy] = packet;
  world_.at(world_.now() + config_.one_way_delay + by, [this, copy] { rx_host_.handle_arrival(copy, world_.now()); });
}

void EnginePair::post(const SendRequest& request) {
  BRDMA_CHECK(tx_host_.engine().post_send(tx_.qp(), request, world_.now()).ok());
  tx_host_.touch();
}

void EnginePair::post_write(std::uint32_t bytes) {
  const Sge sge{tx_arena_.iova(), bytes, tx_.key()};
  SendRequest request;
  request.sges = {&sge, 1};
  request.opcode = WorkOpcode::kRdmaWrite;
  request.flags = kSendSignaled;
  request.remote_address = rx_arena_.iova();
  request.rkey = rx_.key();
  post(request);
}

void EnginePair::agree() {
  BRDMA_CHECK(world_.run_until_idle(1_s));
  world_.trace().clear();
  copies_.clear();
}

std::vector<Completion> EnginePair::completions(Endpoint& of) {
  std::array<Completion, 64> taken;
  const std::size_t count = of.host().engine().poll_cq(of.cq(), taken);
  return {taken.begin(), taken.begin() + static_cast<std::ptrdiff_t>(count)};
}

bool EnginePair::same_bytes(std::uint32_t bytes) {
  return std::memcmp(tx_arena_.bytes(), rx_arena_.bytes(), bytes) == 0;
}

}  // namespace brdma::test
