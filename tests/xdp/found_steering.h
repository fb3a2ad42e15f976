// tests/xdp/found_steering.h - grants AF_XDP sockets as brdmad does, which knows its attached program: here it is found
// by its number.
#pragma once

#include "xdp/xdp_grant.h"
#include "xdp/xdp_steering.h"

namespace brdma::test {

[[nodiscard]] inline Result<daemon::XdpGrant, ContextError> grant_xdp_there(daemon::XdpWish wish) {
  const daemon::XdpSteering found = daemon::XdpSteering::find(wish.ifindex);
  if (found.link.valid()) wish.steering = &found;
  return daemon::grant_xdp(wish);
}

}  // namespace brdma::test
