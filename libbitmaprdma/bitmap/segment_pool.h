// bitmap/segment_pool.h - memory for the windows of one engine's queue pairs: blocks of power-of-two sizes, kept for
// reuse when given back. Once use has peaked, taking a block costs no allocation. Last given is first taken: many queue
// pairs that are busy in turn share a few warm blocks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace brdma::bitmap {

class SegmentPool {
 public:
  static constexpr std::size_t kBlockMin = 32;

  SegmentPool() = default;
  ~SegmentPool();  // all blocks have been given back (our bug otherwise)
  SegmentPool(const SegmentPool&) = delete;
  SegmentPool& operator=(const SegmentPool&) = delete;

  // `bytes`: a power of two, at least kBlockMin. The block's content is undefined.
  [[nodiscard]] void* take(std::size_t bytes) {
    used_bytes_ += bytes;
    Free*& head = head_of(bytes);
    if (head == nullptr) [[unlikely]]
      return make(bytes);
    Free* const block = head;
    head = block->next;
    free_bytes_ -= bytes;
    return block;
  }
  void give(void* block, std::size_t bytes) {
    used_bytes_ -= bytes;
    if (free_bytes_ + bytes > kFreeBytesMax) [[unlikely]]
      return destroy(block);
    Free*& head = head_of(bytes);
    head = ::new (block) Free{head};
    free_bytes_ += bytes;
  }

  [[nodiscard]] std::size_t used_bytes() const { return used_bytes_; }  // taken and not given back
  [[nodiscard]] std::size_t free_bytes() const { return free_bytes_; }  // kept for the next taker, at most ...
  static constexpr std::size_t kFreeBytesMax = std::size_t{64} << 20;   // ... this: beyond, the system gets them back
  [[nodiscard]] std::uint64_t allocations() const { return allocations_; }  // blocks that had to be allocated

 private:
  struct Free {
    Free* next;
  };
  [[nodiscard]] Free*& head_of(std::size_t bytes) {
    return free_[static_cast<unsigned>(__builtin_ctzll(bytes)) % kSizes];
  }
  [[nodiscard]] void* make(std::size_t bytes);
  static void destroy(void* block);

  static constexpr std::size_t kSizes = 32;  // up to 2 GiB
  std::array<Free*, kSizes> free_{};
  std::size_t used_bytes_ = 0, free_bytes_ = 0;
  std::uint64_t allocations_ = 0;
};

}  // namespace brdma::bitmap
