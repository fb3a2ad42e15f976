// probe/ends.h - shared by both ends of a measurement: the device of the TCP connection's address, queue pairs to the
// other end, and what they send each other about them.
#pragma once

#include <memory>
#include <string>

#include "check/probe/control.h"
#include "check/probe/verbs.h"

namespace brdma::probe {

struct End {
  std::unique_ptr<Device> device;
  int gid_index = 0;
  ibv_gid peer_gid{};
};
// The device that has the connection's own address. Throws StepFailed (peer_no_device).
[[nodiscard]] End open_end(const Channel& channel);

// Members of a message about a queue pair.
[[nodiscard]] Json numbers_of(const End& end, std::uint32_t qpn);
// Of the peer's message, checked. `region`: with rkey and address.
[[nodiscard]] Remote remote_of(const End& end, const Json& message, bool region);

}  // namespace brdma::probe
