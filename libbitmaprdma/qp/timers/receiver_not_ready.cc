#include "qp/timers/receiver_not_ready.h"

#include <array>

namespace brdma::qp {

Duration rnr_wait(std::uint8_t syndrome) {
  static constexpr std::array<std::uint32_t, 32> k10us = {
      65536, 1,   2,   3,   4,    6,    8,    12,   16,   24,   32,   48,    64,    96,    128,   192,
      256,   384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};
  return 10_us * static_cast<std::int64_t>(k10us[syndrome & 0x1F]);
}

}  // namespace brdma::qp
