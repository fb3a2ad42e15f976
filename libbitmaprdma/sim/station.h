// sim/station.h - what a world runs at the ends of its links: an engine behind a socket (host.h), or another model of a
// protocol. The world asks for the time of its next work, delivers packets, and lets it run.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/function_ref.h"
#include "base/ip_address.h"
#include "base/units.h"
#include "sim/packet_pool.h"

namespace brdma::sim {

class Host;

class Station {
 public:
  using SendPacket = FunctionRef<void(PacketIndex)>;

  Station() = default;
  virtual ~Station() = default;
  Station(const Station&) = delete;
  Station& operator=(const Station&) = delete;

  [[nodiscard]] virtual const IpAddress& address() const = 0;
  // The packet is the station's from now on.
  virtual void handle_arrival(PacketIndex packet, Instant now) = 0;
  [[nodiscard]] virtual std::optional<Instant> next_wake(Instant now) const = 0;
  // Passes every outgoing packet to `send`. True: something happened.
  virtual bool run(Instant now, SendPacket send) = 0;
  // Runs at every instant of the world, whatever next_wake() says.
  [[nodiscard]] virtual bool runs_always() const { return false; }
  [[nodiscard]] virtual const Host* engine_host() const { return nullptr; }

 protected:
  // After everything that may change next_wake(), outside of run().
  void changed() {
    if (is_marked_ || marked_ == nullptr) return;
    is_marked_ = true;
    marked_->push_back(number_);
  }

 private:
  friend class StationList;
  std::vector<std::uint32_t>* marked_ = nullptr;  // the list's
  std::uint32_t number_ = 0;
  bool is_marked_ = false;
};

}  // namespace brdma::sim
