// qp/receive_queue.h - the posted receives of one queue pair, oldest first, with their scatter lists.
// Grows with what is posted, up to the queue pair's receive_wr_max; nothing is allocated per packet. A receive is taken
// off by its completion only, so index i counts from the oldest receive that is not complete: where the RSN of an early
// SEND points (its RSN minus the number of receives completed).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/bytes.h"
#include "base/result.h"
#include "bitmaprdma/types.h"
#include "memory/memory_table.h"

namespace brdma::qp {

class ReceiveQueue {
 public:
  struct Entry {
    std::uint64_t wr_id = 0;
    std::uint64_t bytes = 0;  // sum of the scatter list
    std::uint32_t sge_count = 0;
  };

  // `entries_max` receives of up to `sges_max` elements (at least one is kept room for).
  ReceiveQueue(std::uint32_t entries_max, std::uint32_t sges_max);

  Status post(const ReceiveRequest& request);  // EINVAL: too many elements; ENOMEM: full
  [[nodiscard]] bool empty() const { return count_ == 0; }
  [[nodiscard]] std::size_t size() const { return count_; }
  [[nodiscard]] const Entry& operator[](std::size_t i) const { return entries_[slot(i)]; }
  void pop();
  void clear() { count_ = 0; }
  [[nodiscard]] std::size_t allocated_bytes() const { return capacity_ * (sizeof(Entry) + stride_ * sizeof(Sge)); }

  // Copies `payload` to the bytes [offset, ...) of receive `i`. The caller has checked that they fit. On a fault (a key
  // that is gone, a range outside its region) some of it may have been written: into the application's own buffers.
  [[nodiscard]] memory::Fault scatter(const memory::MemoryTable& memory, const ProtectionDomain* pd, std::size_t i,
                                      std::uint64_t offset, ConstBytes payload) const;

 private:
  [[nodiscard]] std::size_t slot(std::size_t i) const { return (head_ + i) & (capacity_ - 1); }
  void grow();

  std::uint32_t entries_max_;
  std::uint32_t stride_;  // elements kept per receive
  std::size_t capacity_ = 0, head_ = 0, count_ = 0;
  std::unique_ptr<Entry[]> entries_;
  std::unique_ptr<Sge[]> sges_;  // capacity_ * stride_
};

}  // namespace brdma::qp
