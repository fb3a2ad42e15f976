// context/shards.h - the shards of an open device (datapath.shards), a brdma::Context each: its own engine, socket and
// lock. Threads whose queue pairs are in different ones do not wait for each other.
//   queue pairs, shared receive queues   live in one for life
//   protection domains, memory regions   are in all, regions under the same keys
//   completion queues                    are where queue pairs complete into them (completion_rings.h)
//   memory windows                       only where there is one shard: a binding would have to reach all at once
// Thread-safety: the list does not change; the placement of objects is read and changed with SharedDevice::objects()
// held.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "bitmaprdma/context.h"

namespace brdma::provider {

class Shards {
 public:
  Shards() = default;
  explicit Shards(std::vector<std::unique_ptr<Context>> contexts) : contexts_(std::move(contexts)) {}

  [[nodiscard]] std::size_t size() const { return contexts_.size(); }
  [[nodiscard]] Context& operator[](std::size_t shard) const { return *contexts_[shard]; }
  // For state that is the same in all.
  [[nodiscard]] Context& first() const { return *contexts_.front(); }

  // Number of objects in each.
  using Use = std::array<std::uint32_t, kShardsMax>;
  [[nodiscard]] Use& use() { return use_; }
  // The one with the fewest of `own`, a context's; among several the one with the fewest of all.
  [[nodiscard]] std::size_t least_used(const Use& own) const {
    std::size_t least = 0;
    for (std::size_t i = 1; i < size(); ++i) {
      if (std::pair{own[i], use_[i]} < std::pair{own[least], use_[least]}) least = i;
    }
    return least;
  }

 private:
  std::vector<std::unique_ptr<Context>> contexts_;
  Use use_{};
};

}  // namespace brdma::provider
