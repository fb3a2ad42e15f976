// qp/queues/receive_queue.h - the receives of one queue pair, oldest first, with their scatter lists: posted to it, or
// taken from a shared receive queue and not completed yet. Grows with the posted receives, up to the queue pair's
// receive_wr_max; nothing is allocated per packet. Only its completion removes a receive, so index i counts from the
// oldest incomplete receive: an early SEND's RSN minus the number of receives completed. A user of receive i calls
// has(i) first: that call takes receives from the shared queue.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/bytes.h"
#include "base/datagram.h"
#include "base/result.h"
#include "bitmaprdma/types.h"
#include "memory/memory_table.h"
#include "qp/state/identity.h"

namespace brdma::qp {

class ReceiveQueue {
 public:
  struct Entry {
    std::uint64_t wr_id = 0;
    std::uint64_t bytes = 0;  // sum of the scatter list
    std::uint32_t sge_count = 0;
  };

  // `entries_max` receives of up to `sges_max` elements (room for at least one).
  ReceiveQueue(std::uint32_t entries_max, std::uint32_t sges_max);
  // For a queue pair: with receives of its own, or taken from its shared queue.
  explicit ReceiveQueue(const Identity& owner);

  // XRC target: whose receives it takes from now on. Precondition: empty().
  void take_from(SharedReceiveQueue* source);

  Status post(const ReceiveRequest& request);  // EINVAL: too many elements, or a shared queue's; ENOMEM: full
  // Receive `i` is there. From a shared queue it takes the missing ones up to it, in that queue's order.
  [[nodiscard]] bool has(std::size_t i) { return i < count_ || (source_ != nullptr && take(i)); }
  [[nodiscard]] bool empty() const { return count_ == 0; }
  [[nodiscard]] std::size_t size() const { return count_; }
  [[nodiscard]] const Entry& operator[](std::size_t i) const { return entries_[slot(i)]; }
  void pop();
  void clear();                                       // receives of a shared queue go back there
  Status set_entries_max(std::uint32_t entries_max);  // EINVAL: below the posted count
  [[nodiscard]] std::uint32_t entries_max() const { return entries_max_; }
  // Between queues with the same stride, whatever their limits: the oldest becomes the other's newest, or the newest
  // the other's oldest.
  void move_oldest_to(ReceiveQueue& other);
  void move_newest_to_front_of(ReceiveQueue& other);
  [[nodiscard]] std::size_t allocated_bytes() const { return capacity_ * (sizeof(Entry) + stride_ * sizeof(Sge)); }

  // Copies `payload` to the bytes [offset, ...) of receive `i`. The caller has checked that they fit. On a fault (an
  // invalid key, a range outside its region) a part may have been written: into the application's own buffers. `pd` is
  // the queue pair's; receives of a shared queue belong to that queue's.
  [[nodiscard]] memory::Fault scatter(const memory::MemoryTable& memory, const ProtectionDomain* pd, std::size_t i,
                                      std::uint64_t offset, ConstBytes payload) const;

  // The same for `bytes` bytes of memory to be written, without writing any. `slices` has room for kSgesMax.
  [[nodiscard]] memory::Fault resolve(const memory::MemoryTable& memory, const ProtectionDomain* pd, std::size_t i,
                                      std::uint64_t offset, std::uint64_t bytes, std::span<Slice> slices,
                                      std::size_t& count) const;

 private:
  [[nodiscard]] std::size_t slot(std::size_t i) const { return (head_ + i) & (capacity_ - 1); }
  void make_room();
  bool take(std::size_t i);
  void copy_slot(const ReceiveQueue& from, std::size_t from_slot, std::size_t to_slot);

  std::uint32_t entries_max_;
  std::uint32_t stride_;  // elements kept per receive
  std::uint32_t capacity_ = 0, head_ = 0, count_ = 0;
  SharedReceiveQueue* source_ = nullptr;
  std::unique_ptr<Entry[]> entries_;
  std::unique_ptr<Sge[]> sges_;  // capacity_ * stride_
};

}  // namespace brdma::qp
