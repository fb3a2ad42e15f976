#include "sim/host_output.h"

#include <algorithm>

#include "base/check.h"

namespace brdma::sim {

HostOutput::HostOutput(const HostConfig& config, PacketPool& pool)
    : config_(config), pool_(pool), buffer_(std::make_unique<TransmitBuffer>()) {}

bool HostOutput::finish(Instant now) {
  if (!busy_until_ || now < *busy_until_) return false;
  busy_until_.reset();
  return true;
}

const std::vector<PacketIndex>* HostOutput::take_batch(Engine& engine, Instant now) {
  Transmit transmit;
  if (!engine.poll_transmit(*buffer_, transmit, now)) return nullptr;
  split(transmit);
  if (config_.output_rate) busy_until_ = now + config_.output_rate->time_for(transmit.bytes);
  return &batch_;
}

// As the kernel does with a GSO message: gathers the slices and cuts them into segments.
void HostOutput::split(const Transmit& transmit) {
  batch_.clear();
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
    batch_.push_back(index);
  }
  BRDMA_CHECK(left == 0 && slice == transmit.slices.size());
}

}  // namespace brdma::sim
