// fabric/packet_pool.h - buffers of one size, allocated once, last in, first out: the buffers of a short queue stay in
// the cache, and unused memory is never touched. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/check.h"

namespace brdma::fabric {

class PacketPool {
 public:
  using Index = std::uint32_t;

  PacketPool(std::uint32_t count, std::size_t buffer_size)
      : buffer_size_(buffer_size), memory_(std::make_unique_for_overwrite<std::byte[]>(count * buffer_size)) {
    free_.reserve(count);
    for (Index i = count; i > 0; --i) free_.push_back(i - 1);
  }

  [[nodiscard]] std::size_t buffer_size() const { return buffer_size_; }
  [[nodiscard]] std::size_t free_count() const { return free_.size(); }
  [[nodiscard]] MutableBytes buffer(Index index) { return {memory_.get() + index * buffer_size_, buffer_size_}; }

  [[nodiscard]] std::optional<Index> take() {
    if (free_.empty()) return std::nullopt;
    const Index index = free_.back();
    free_.pop_back();
    return index;
  }
  void give_back(Index index) {
    BRDMA_CHECK(free_.size() < free_.capacity());
    free_.push_back(index);
  }

 private:
  std::size_t buffer_size_;
  std::unique_ptr<std::byte[]> memory_;
  std::vector<Index> free_;
};

}  // namespace brdma::fabric
