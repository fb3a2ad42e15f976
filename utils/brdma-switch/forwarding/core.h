// brdma-switch/forwarding/core.h - handles frames between reception at one port and transmission at another: one
// Ethernet switch (switch_core.h), or several routers and the links between them (routed_core.h). Ports are the hosts',
// from 0. All in the data loop's thread.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "base/units.h"
#include "fabric/routing/frame.h"
#include "forwarding/switch_packet.h"

namespace brdma::lab {

class DataLoop;

class Core {
 public:
  virtual ~Core() = default;

  // A packet; the core now owns its buffer. Times do not go back by more than the loop's lateness.
  virtual void handle_packet(std::uint32_t port, const SwitchPacket& packet, const fabric::FrameInfo& info,
                             Instant now) = 0;
  virtual void handle_timeout(Instant now) = 0;  // before a round of polls
  [[nodiscard]] virtual std::optional<SwitchPacket> poll(std::uint32_t port, Instant now) = 0;
  [[nodiscard]] virtual std::optional<Instant> next_timeout() const = 0;

  // A request from the control socket (control.h): "show", "set" and others of this core.
  [[nodiscard]] virtual nlohmann::ordered_json answer(const nlohmann::json& request, DataLoop& loop) = 0;
};

}  // namespace brdma::lab
