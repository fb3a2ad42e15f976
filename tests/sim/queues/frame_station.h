// sim/queues/frame_station.h - a station that sends frames without payload at random times (Poisson) to random others,
// and measures how long frames took that come to it.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <span>

#include "base/random.h"
#include "sim/station.h"
#include "sim/world.h"

namespace brdma::test {

class FrameStation : public sim::Station {
 public:
  struct Traffic {
    std::span<const IpAddress> to;  // each frame goes to one of them, but not to its sender; outlives the station
    std::uint32_t bytes = 1048;
    double gap_ns = 1000;  // mean
    std::uint64_t count = 0;
  };

  FrameStation(sim::PacketPool& pool, const IpAddress& address, std::uint64_t seed)
      : pool_(pool), address_(address), random_(seed, "frames") {}

  // Before the world runs.
  void send(const Traffic& traffic) {
    traffic_ = traffic;
    left_ = traffic_.count;
    if (left_ > 0) pass();
    changed();
  }

  [[nodiscard]] std::uint64_t received() const { return received_; }
  // From a frame's sending to its arrival, mean in ns.
  [[nodiscard]] double mean_delay() const { return static_cast<double>(delays_ns_) / static_cast<double>(received_); }

  [[nodiscard]] const IpAddress& address() const override { return address_; }
  void handle_arrival(sim::PacketIndex packet, Instant now) override {
    ++received_;
    delays_ns_ += static_cast<std::uint64_t>((now - pool_[packet].arrived).ns());
    pool_.give_back(packet);
  }
  [[nodiscard]] std::optional<Instant> next_wake(Instant /*now*/) const override {
    return left_ > 0 ? std::optional{next_} : std::nullopt;
  }
  bool run(Instant now, SendPacket send) override {
    for (; left_ > 0 && next_ <= now; pass()) {
      --left_;
      const sim::PacketIndex index = pool_.take();
      sim::Packet& packet = pool_[index];
      packet.source = address_;
      do {
        packet.destination = traffic_.to[static_cast<std::size_t>(random_.below(traffic_.to.size()))];
      } while (packet.destination == address_);
      packet.source_port = static_cast<std::uint16_t>(1 + random_.below(60'000));
      packet.traffic_class = 0;
      packet.hop_limit = 64;
      packet.frame_bytes = traffic_.bytes;
      packet.arrived = now;  // at its sender
      send(index);
    }
    return true;
  }

 private:
  void pass() {
    const double uniform = (static_cast<double>(random_.next() >> 11) + 0.5) / 9007199254740992.0;
    at_ns_ -= std::log(uniform) * traffic_.gap_ns;
    next_ = Instant::from_ns(static_cast<std::int64_t>(at_ns_));
  }

  sim::PacketPool& pool_;
  IpAddress address_;
  Random random_;
  Traffic traffic_;
  std::uint64_t left_ = 0, received_ = 0, delays_ns_ = 0;
  double at_ns_ = 0;
  Instant next_;
};

}  // namespace brdma::test
