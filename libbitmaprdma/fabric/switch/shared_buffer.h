// fabric/switch/shared_buffer.h - packet memory shared by the ports of a switch. A queue may grow up to `alpha` times
// the free memory (dynamic threshold: Choudhury and Hahne 1998). One queue alone gets alpha / (1 + alpha) of the
// memory, many get less each, and some is always left for a queue that begins to grow.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/check.h"

namespace brdma::fabric {

struct SharedBufferConfig {
  std::uint64_t bytes = 0;  // 0: none, each queue has its own limit only
  std::uint32_t alpha_per_mille = 1000;
  friend bool operator==(const SharedBufferConfig&, const SharedBufferConfig&) = default;
};

class SharedBuffer {
 public:
  void configure(const SharedBufferConfig& config) { config_ = config; }
  [[nodiscard]] bool on() const { return config_.bytes != 0; }
  // May a queue of `queued` bytes take `bytes` more?
  [[nodiscard]] bool admits(std::uint64_t queued, std::uint64_t bytes) const {
    if (!on()) return true;
    const std::uint64_t left = config_.bytes - std::min(used_, config_.bytes);
    return bytes <= left && queued + bytes <= left * config_.alpha_per_mille / 1000;
  }
  void take(std::uint64_t bytes) {
    used_ += bytes;
    most_ = std::max(most_, used_);
  }
  void give_back(std::uint64_t bytes) {
    BRDMA_CHECK(bytes <= used_);
    used_ -= bytes;
  }
  [[nodiscard]] const SharedBufferConfig& config() const { return config_; }
  [[nodiscard]] std::uint64_t used() const { return used_; }
  [[nodiscard]] std::uint64_t most() const { return most_; }
  // Of its size, in parts per million; a packet that an idle port accepts may exceed it.
  [[nodiscard]] std::uint64_t used_ppm() const { return on() ? used_ * 1'000'000 / config_.bytes : 0; }

 private:
  SharedBufferConfig config_;
  std::uint64_t used_ = 0, most_ = 0;
};

}  // namespace brdma::fabric
