// qp/receive/placed_writes.h - private: where the data of placed WRITE packets lies in the application's memory. Memory
// must end up as if all packets had come in order: a later packet of a lower PSN must not overwrite data of a higher
// PSN.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/psn.h"

namespace brdma::qp {

class PlacedWrites {
 public:
  // Of `size` bytes at `begin`, at least one and at most an MTU. `number`: chosen by the caller, of no other data here.
  struct Data {
    const std::byte* begin = nullptr;
    std::uint32_t size = 0;
    Psn psn;
  };
  void add(std::uint32_t number, const Data& data);
  void remove(std::uint32_t number);  // no effect where there is none
  [[nodiscard]] bool empty() const { return count_ == 0; }

  // The part of [place, place + size) that packet `psn` may still write: data of later PSNs stays. One run, because
  // placed packets are all of MTU size and `size` <= MTU. Offset and length within the packet.
  struct Run {
    std::size_t offset = 0, size = 0;
  };
  [[nodiscard]] Run uncovered(Psn psn, const std::byte* place, std::size_t size) const {
    if (count_ == 0) [[likely]]
      return {0, size};
    return uncovered_slow(psn, place, size);
  }
  // Places looked at by uncovered() so far: a few a packet, however many there are.
  [[nodiscard]] std::uint64_t searched() const { return searched_; }
  [[nodiscard]] std::size_t allocated_bytes() const;

 private:
  static constexpr std::size_t kBlockShift = 12;
  static constexpr std::size_t kBlocksAtFirst = 64;
  static constexpr std::uint32_t kNone = 0;  // as a link: no end; else twice the number, plus which end, plus one
  static constexpr std::uint32_t kNoPsn = ~std::uint32_t{0};

  // It is in the lists of the memory blocks of its two ends: a packet is at most as long as a block, so it touches no
  // other. Without data: no place of this number.
  struct Place {
    Data data;
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

  [[nodiscard]] Run uncovered_slow(Psn psn, const std::byte* place, std::size_t size) const;
  void uncover(Psn psn, const Block& block, Span& left) const;
  [[nodiscard]] std::size_t block(const std::byte* place) const;
  [[nodiscard]] Block& block_of_end(const Data& data, std::size_t end);
  [[nodiscard]] std::size_t blocks_of(const Data& data) const;  // 1 or 2
  void link(std::uint32_t number);
  void link_end(std::uint32_t number, std::size_t end);
  void unlink_end(std::uint32_t number, std::size_t end);
  void grow_blocks();

  std::vector<Place> places_;  // by number
  std::vector<Block> blocks_;  // a power of two, as many as places at least
  std::size_t count_ = 0;
  mutable std::uint64_t searched_ = 0;
};

}  // namespace brdma::qp
