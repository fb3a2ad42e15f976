// utils/brdmad/process/unix_time.h - wall-clock time, for people and logs.
#pragma once

#include <chrono>
#include <cstdint>

namespace brdma::daemon {

[[nodiscard]] inline std::int64_t unix_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace brdma::daemon
