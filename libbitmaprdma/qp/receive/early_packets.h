// qp/receive/early_packets.h - the early packets of one queue pair, by PSN, for later in-order execution.
//   held:   header and a copy of the payload, executed when the base reaches them;
//   placed: header only, its data is in the application's memory already; execution only updates the state.
// Copies lie in buffers of two sizes, allocated when first needed, kept for reuse, bounded by `bytes_max`.
//
// The place of placed WRITE data is kept, because memory must end up as if all had come in order: a later packet of a
// lower PSN must not overwrite data of a higher PSN (uncovered()).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/psn.h"
#include "base/vector_bytes.h"
#include "bitmap/segmented_array.h"
#include "wire/packet.h"

namespace brdma::qp {

class EarlyPackets {
 public:
  struct Record {
    wire::Packet packet;  // payload: the copy; of a placed packet only its size is meaningful
    bool placed = false;

   private:
    friend class EarlyPackets;
    std::byte* buffer = nullptr;
    bool small = false;
    bool has_place = false;  // not for a placed SEND
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
  [[nodiscard]] std::size_t held_bytes() const { return held_bytes_; }
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

  // The part of [place, place + size) that packet `psn` may still write: data of later PSNs stays. One run, because
  // placed packets are all of MTU size and `size` <= MTU. Offset and length within the packet.
  struct Run {
    std::size_t offset = 0, size = 0;
  };
  [[nodiscard]] Run uncovered(Psn psn, const std::byte* place, std::size_t size) const {
    if (place_count_ == 0) [[likely]]
      return {0, size};
    return uncovered_slow(psn, place, size);
  }
  // Copies that part to `place`. False: part of the memory is not mapped.
  [[nodiscard]] bool copy_uncovered(Psn psn, std::byte* place, ConstBytes payload) const;
  [[nodiscard]] bool any_placed() const { return place_count_ > 0; }
  // Places looked at by uncovered() so far: a few a packet, however many there are.
  [[nodiscard]] std::uint64_t places_searched() const { return searched_; }

 private:
  static constexpr std::size_t kSmallBytes = 256;  // most held packets are Only and Last of small messages
  static constexpr std::size_t kBlockShift = 12;
  static constexpr std::size_t kBlocksAtFirst = 64;
  static constexpr std::uint32_t kNone = 0;  // in index_: no record; else record number plus one. As a link: no end;
                                             // else twice the record's number, plus which end, plus one
  static constexpr std::uint32_t kNoPsn = ~std::uint32_t{0};

  // Location of a placed packet's data, by record number. It is in the lists of the memory blocks of its two ends: a
  // packet is at most as long as a block, so it touches no other.
  struct Place {
    const std::byte* begin = nullptr;
    std::uint32_t size = 0;
    Psn psn;
    std::array<std::uint32_t, 2> next{}, previous{};  // links, of either end
  };
  // A list of the ends in one block, or in several by hash collision: the most recent is first.
  struct Block {
    std::uint32_t first = kNone;  // link
    // The highest PSN in it since it was empty: shows at once that none is newer.
    std::uint32_t newest = kNoPsn;
  };
  // Memory that a packet may still write.
  struct Span {
    const std::byte *begin, *end;
  };

  void advance_to(Psn base);
  Record& add(Psn base, const wire::Packet& packet);
  void note_place(Record& record, const std::byte* place);
  void give_back(Record& record);
  std::byte* take_buffer(bool small);
  void forget_place(Record& record);
  [[nodiscard]] Run uncovered_slow(Psn psn, const std::byte* place, std::size_t size) const;
  void uncover(Psn psn, const Block& block, Span& left) const;
  [[nodiscard]] std::size_t block(const std::byte* place) const;
  [[nodiscard]] std::size_t blocks_of(const Place& place) const;  // 1 or 2
  void link(std::uint32_t record, std::size_t end);
  void unlink(std::uint32_t record, std::size_t end);
  void grow_blocks();

  std::uint32_t mtu_ = 0, bytes_max_ = 0;
  std::size_t count_ = 0, held_bytes_ = 0;
  Psn first_, last_;                             // the range of index_ in use, while there are records
  bitmap::SegmentedArray<std::uint32_t> index_;  // by PSN: kNone, or record number plus one
  std::vector<Record> records_;
  std::vector<std::uint32_t> free_records_;
  std::vector<std::unique_ptr<std::byte[]>> chunks_;
  std::size_t chunk_bytes_ = 0;                          // of all of them
  std::array<std::vector<std::byte*>, 2> free_buffers_;  // [small]
  std::vector<Place> places_;                            // by record number
  std::vector<Block> blocks_;                            // a power of two, as many as places at least
  std::size_t place_count_ = 0;
  mutable std::uint64_t searched_ = 0;
};

}  // namespace brdma::qp
