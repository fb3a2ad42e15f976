// io/shard/clock.h - the one clock of the sockets: CLOCK_MONOTONIC, read in user space (vDSO, about 20 ns). Processes
// of one machine share it; engines never rely on that.
#pragma once

#include <ctime>

#include "base/units.h"

namespace brdma::io {

[[nodiscard]] inline Instant monotonic_now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return Instant::from_ns(std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec);
}

}  // namespace brdma::io
