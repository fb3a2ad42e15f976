// qp/queues/payload_cursor.h - walks a work request's payload from an offset and gives the memory as slices. A scatter
// entry's key is resolved when the walk enters it: once per entry, not per packet. A cursor is valid for one call of
// poll_transmit only: afterwards the region may be gone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "base/datagram.h"
#include "bitmaprdma/types.h"
#include "memory/memory_table.h"
#include "qp/queues/send_queue.h"
#include "qp/state/limits.h"

namespace brdma::qp {

class PayloadCursor {
 public:
  // `access`: required rights (0: local read).
  PayloadCursor(const memory::MemoryTable& memory, const ProtectionDomain* pd, std::uint32_t access)
      : memory_(memory), pd_(pd), access_(access) {}

  // Moves to `offset` of work request `wqe`. Cheap when it stands there already.
  void seek(const SendQueue& queue, std::uint64_t wqe, std::uint32_t offset);
  // The next `bytes` bytes as slices; false on an invalid key or range, or memory found unmapped (MemoryTable::holds).
  // At most kSgesMax slices.
  [[nodiscard]] bool take(std::uint32_t bytes);
  // The same, up to `count` times `bytes`, if they are contiguous from `at` on; returns how many. 0: call take(), which
  // finds the error, and gathers scattered memory.
  [[nodiscard]] std::uint32_t take_run(std::uint32_t bytes, std::uint32_t count, const std::byte*& at);
  // Work request `wqe` as a whole, the same; the cursor's position is then undefined.
  [[nodiscard]] bool take_all(const SendQueue& queue, std::uint64_t wqe) {
    const SendWqe& request = queue[wqe];
    if (!request.inlined && request.sge_count == 1 && region_ != nullptr)
        [[likely]] {  // most often like the one before
      const Sge& sge = queue.first_sge(wqe);
      if (sge.lkey == region_->key && sge.length > 0 && region_->covers(sge.address, sge.length)) {
        wqe_ = kNowhere;
        slices_[0] = Slice{region_->bytes_at(sge.address), sge.length};
        slice_count_ = 1;
        return true;
      }
    }
    return take_pieces(queue, wqe);
  }
  [[nodiscard]] std::span<const Slice> slices() const { return {slices_, slice_count_}; }

 private:
  [[nodiscard]] bool take_pieces(const SendQueue& queue, std::uint64_t wqe);
  void leave();                                      // for the next scatter entry
  bool enter();                                      // resolves the scatter entry that the cursor stands in
  [[nodiscard]] std::byte* resolve(const Sge& sge);  // null: invalid key or range
  static constexpr std::uint64_t kNowhere = ~std::uint64_t{0};

  const memory::MemoryTable& memory_;
  const ProtectionDomain* pd_;
  std::uint32_t access_;
  const MemoryRegion* region_ = nullptr;  // of the last entry, with access checked: most are in the same
  std::uint64_t wqe_ = kNowhere;
  std::uint32_t position_ = 0;         // in the work request
  std::span<const Sge> sges_;          // from the current entry on
  std::uint32_t in_sge_ = 0;           // bytes of it that are behind
  std::byte* resolved_ = nullptr;      // start of the current entry's memory; null: not resolved yet
  const std::byte* inline_ = nullptr;  // inline data instead of a scatter list
  std::size_t slice_count_ = 0;
  union {
    Slice slices_[kSgesMax];  // not zeroed for each cursor
  };
};

// Copies `bytes` into the work request's memory at `offset` (READ responses, atomic results). False: an invalid key or
// range, or its memory is not mapped; nothing beyond it was written.
[[nodiscard]] bool scatter(const memory::MemoryTable& memory, const ProtectionDomain* pd, const SendQueue& queue,
                           std::uint64_t wqe, std::uint32_t offset, ConstBytes bytes);
// Can the whole scatter list be written to?
[[nodiscard]] bool writable(const memory::MemoryTable& memory, const ProtectionDomain* pd, const SendQueue& queue,
                            std::uint64_t wqe);

}  // namespace brdma::qp
