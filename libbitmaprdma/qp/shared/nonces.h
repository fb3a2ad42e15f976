// qp/shared/nonces.h - numbers that a host which does not see the packets cannot guess: one stream for each purpose.
#pragma once

#include "base/secret_random.h"
#include "base/seed.h"

namespace brdma::qp {

struct Nonces {
  explicit Nonces(Seed seed)
      : beacons(seed, "beacons"),
        queries(seed, "stopped-peer nonces"),
        tokens(seed, "tokens"),
        links(seed, "link-state nonces") {}

  SecretRandom beacons, queries, tokens, links;
};

}  // namespace brdma::qp
