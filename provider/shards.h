// shards.h - the shards of an open device (datapath.shards), a brdma::Context each: an engine, a socket and a lock of
// its own. Threads whose queue pairs are in different ones do not wait for each other.
//   queue pairs, shared receive queues   live in one for life
//   protection domains, memory regions   are in all, regions under the same keys
//   completion queues                    are where queue pairs complete into them (completion_rings.h)
//   memory windows                       only where there is one shard: a binding would have to reach all at once
// Thread-safety: the list does not change; where an object is put is asked and told with OpenDevice::objects() held.
#pragma once

#include <algorithm>
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
  // For what is alike in all.
  [[nodiscard]] Context& first() const { return *contexts_.front(); }

  // The one that has the fewest objects put into it.
  [[nodiscard]] std::size_t least_used() const {
    const auto used = users_.begin();
    return static_cast<std::size_t>(std::min_element(used, used + static_cast<std::ptrdiff_t>(size())) - used);
  }
  void put_into(std::size_t shard) { ++users_[shard]; }
  void taken_from(std::size_t shard) { --users_[shard]; }

 private:
  std::vector<std::unique_ptr<Context>> contexts_;
  std::array<std::uint32_t, kShardsMax> users_{};
};

}  // namespace brdma::provider
