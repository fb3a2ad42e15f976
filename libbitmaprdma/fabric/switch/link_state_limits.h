// fabric/switch/link_state_limits.h - limits at which a switch regards a port as congested, and as clear again.
#pragma once

#include <cstdint>

namespace brdma::fabric {

// Thousandths of the queue's room and of the link's rate.
struct LinkStateLimits {
  std::uint32_t queue_high = 750, queue_low = 375;
  std::uint32_t speed_low = 500, speed_high = 750;
  friend bool operator==(const LinkStateLimits&, const LinkStateLimits&) = default;
};

}  // namespace brdma::fabric
