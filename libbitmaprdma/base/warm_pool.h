// base/warm_pool.h - a pool of rarely needed objects that keep their allocations from one use to the next; last in,
// first out. T: default constructible, with allocated_bytes(). The taker prepares an object and empties it before
// giving it back. At most kFreeBytesMax are kept; further objects are destroyed.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace brdma {

template <class T>
class WarmPool {
 public:
  static constexpr std::size_t kFreeBytesMax = std::size_t{16} << 20;

  [[nodiscard]] T* take() {
    if (free_.capacity() == 0) free_.reserve(kPlacesAtFirst);
    if (free_.empty()) return std::make_unique<T>().release();
    Free last = std::move(free_.back());
    free_.pop_back();
    free_bytes_ -= last.bytes;
    return last.object.release();
  }
  void give(T* object) {
    Free free{std::unique_ptr<T>(object), sizeof(T) + object->allocated_bytes()};
    if (free_bytes_ + free.bytes > kFreeBytesMax) return;
    free_bytes_ += free.bytes;
    free_.push_back(std::move(free));
  }
  [[nodiscard]] std::size_t free_bytes() const { return free_bytes_; }

 private:
  static constexpr std::size_t kPlacesAtFirst = 64;
  struct Free {
    std::unique_ptr<T> object;
    std::size_t bytes = 0;
  };
  std::vector<Free> free_;
  std::size_t free_bytes_ = 0;
};

}  // namespace brdma
