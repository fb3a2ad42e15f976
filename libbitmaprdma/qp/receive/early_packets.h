// qp/receive/early_packets.h - the early packets of one queue pair, by PSN, for later in-order execution.
//   held:   header and a copy of the payload (held_copies.h), executed when the base reaches them;
//   placed: header only, its data is in the application's memory already (placed_writes.h); execution only updates the
//           state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "base/psn.h"
#include "bitmap/segmented_array.h"
#include "qp/receive/held_copies.h"
#include "qp/receive/placed_writes.h"
#include "wire/packet.h"

namespace brdma::qp {

class EarlyPackets {
 public:
  struct Record {
    wire::Packet packet;  // payload: the copy; of a placed packet only its size is meaningful
    bool placed = false;

   private:
    friend class EarlyPackets;
    HeldCopies::Copy copy;
  };

  EarlyPackets() = default;
  EarlyPackets(std::uint32_t mtu, std::uint32_t bytes_max, const bitmap::WindowShape& shape,
               bitmap::SegmentPool& pool) {
    begin(mtu, bytes_max, shape, pool);
  }
  // Call first, and again for another queue pair; nothing is held then. `mtu`: largest payload held; `bytes_max`: bound
  // on the copies; `shape`: of the window that the PSNs lie in.
  void begin(std::uint32_t mtu, std::uint32_t bytes_max, const bitmap::WindowShape& shape, bitmap::SegmentPool& pool);

  [[nodiscard]] bool empty() const { return count_ == 0; }
  [[nodiscard]] std::size_t size() const { return count_; }
  [[nodiscard]] std::size_t held_bytes() const { return copies_.bytes(); }
  // All memory, including buffers kept for the next packets.
  [[nodiscard]] std::size_t allocated_bytes() const;
  // Of the records and their index; payload copies are held_bytes().
  [[nodiscard]] std::size_t state_bytes() const { return count_ * sizeof(Record) + index_.bytes(); }
  // PSNs handed in lie in [base, base + window) and are not here yet. False: no room for the copy.
  bool hold(Psn base, const wire::Packet& packet);
  // `place`: of a WRITE's payload; null for a SEND (receive buffers are not shared with WRITEs).
  void note_placed(Psn base, const wire::Packet& packet, const std::byte* place);
  // A held packet's data has been written to memory: from now on it counts as placed.
  void settle(Psn psn, const std::byte* place);
  [[nodiscard]] const Record* find(Psn psn) const;
  void release(Psn psn);  // no effect where there is none
  void clear();           // records and buffers are kept where nothing was held

  // The part of [place, place + size) that packet `psn` may still write (PlacedWrites::uncovered).
  [[nodiscard]] PlacedWrites::Run uncovered(Psn psn, const std::byte* place, std::size_t size) const {
    return writes_.uncovered(psn, place, size);
  }
  // Copies that part to `place`. False: part of the memory is not mapped.
  [[nodiscard]] bool copy_uncovered(Psn psn, std::byte* place, ConstBytes payload) const;
  [[nodiscard]] bool any_placed() const { return !writes_.empty(); }
  [[nodiscard]] std::uint64_t places_searched() const { return writes_.searched(); }

 private:
  static constexpr std::uint32_t kNone = 0;  // in index_: no record; else record number plus one

  void advance_to(Psn base);
  Record& add(Psn base, const wire::Packet& packet);
  void note_place(Record& record, const std::byte* place);

  std::size_t count_ = 0;
  Psn first_, last_;                             // the range of index_ in use, while there are records
  bitmap::SegmentedArray<std::uint32_t> index_;  // by PSN: kNone, or record number plus one
  std::vector<Record> records_;
  std::vector<std::uint32_t> free_records_;
  HeldCopies copies_;
  PlacedWrites writes_;  // by record number
};

}  // namespace brdma::qp
