#include "bitmap/segment_pool.h"

#include <bit>
#include <new>

#include "base/check.h"

namespace brdma::bitmap {

SegmentPool::~SegmentPool() {
  BRDMA_CHECK(used_bytes_ == 0);
  for (Free* block : free_) {
    while (block != nullptr) {
      Free* const next = block->next;
      destroy(block);
      block = next;
    }
  }
}

void* SegmentPool::make(std::size_t bytes) {
  BRDMA_CHECK(std::has_single_bit(bytes) && bytes >= kBlockMin && bytes < std::size_t{1} << kSizes);
  ++allocations_;
  return ::operator new(bytes);
}

void SegmentPool::destroy(void* block) { ::operator delete(block); }

}  // namespace brdma::bitmap
