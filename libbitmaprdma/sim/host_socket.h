// sim/host_socket.h - a host's receiving socket: packets wait in it until the host runs. What does not fit is dropped
// and counted, as with UDP.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/ring.h"
#include "sim/host_config.h"
#include "sim/packet_pool.h"

namespace brdma::sim {

class HostSocket {
 public:
  // Both outlive this.
  HostSocket(const HostConfig& config, PacketPool& pool) : config_(config), pool_(pool) {}

  // False: it does not fit, and stays the caller's.
  [[nodiscard]] bool push(PacketIndex packet) {
    const std::uint64_t bytes = pool_[packet].bytes.size();
    if (packets_.size() >= config_.socket_packets || bytes_ + bytes > config_.socket_bytes) {
      ++drops_;
      return false;
    }
    packets_.push_back(packet);
    bytes_ += bytes;
    packets_most_ = std::max(packets_most_, static_cast<std::uint32_t>(packets_.size()));
    return true;
  }
  // The oldest, which is the caller's from now on. Precondition: not empty.
  [[nodiscard]] PacketIndex take() {
    const PacketIndex packet = packets_.front();
    packets_.pop_front();
    bytes_ -= pool_[packet].bytes.size();
    return packet;
  }
  [[nodiscard]] bool empty() const { return packets_.empty(); }
  void clear() {
    while (!empty()) pool_.give_back(take());
  }

  [[nodiscard]] std::uint64_t drops() const { return drops_; }
  [[nodiscard]] std::uint32_t packets_most() const { return packets_most_; }  // that waited at the same time, ever

 private:
  const HostConfig& config_;
  PacketPool& pool_;
  Ring<PacketIndex> packets_;
  std::uint64_t bytes_ = 0;
  std::uint64_t drops_ = 0;
  std::uint32_t packets_most_ = 0;
};

}  // namespace brdma::sim
