// models/switch/ecn.h - which packets a switch marks: asked when one leaves its queue, with the bytes that remain in
// it.
//   0 up to Kmin, rising to Pmax at Kmax, 1 above. Queues of control packets are not asked about.
// Sources: the ns-3 RDMA simulators' run scripts (DCQCN); DCTCP's step has Kmin = Kmax. 1 KB = 1000 bytes.
#pragma once

#include <cstdint>

#include "base/random.h"
#include "base/units.h"

namespace brdma::models {

struct EcnThresholds {
  std::uint64_t minimum = 100'000;  // bytes
  std::uint64_t maximum = 400'000;
  std::uint32_t most_per_million = 200'000;  // Pmax

  // HPCC: 4 KB and 16 KB per Gbit/s of the port.
  [[nodiscard]] static EcnThresholds hpcc(Bandwidth port) {
    return {port.bps() / 250'000, port.bps() / 62'500, 200'000};
  }
  // ConWeave: the same at all rates.
  [[nodiscard]] static EcnThresholds conweave() { return {}; }
  // DCTCP: 3 KB per Gbit/s.
  [[nodiscard]] static EcnThresholds dctcp(Bandwidth port) {
    const std::uint64_t step = port.bps() * 3 / 1'000'000;
    return {step, step, 1'000'000};
  }

  [[nodiscard]] std::uint32_t per_million(std::uint64_t queued) const {
    if (queued > maximum) return 1'000'000;
    if (queued <= minimum) return 0;
    return static_cast<std::uint32_t>(most_per_million * (queued - minimum) / (maximum - minimum));
  }
  [[nodiscard]] bool marks(std::uint64_t queued, Random& random) const {
    return random.chance_per_million(per_million(queued));
  }
};

}  // namespace brdma::models
