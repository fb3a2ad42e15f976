#include "qp/receive/placed_writes.h"

#include <algorithm>

#include "base/check.h"
#include "base/vector_bytes.h"

namespace brdma::qp {

void PlacedWrites::add(std::uint32_t number, const Data& data) {
  BRDMA_CHECK(data.size > 0);
  if (places_.size() <= number) places_.resize(number + 1);
  places_[number].data = data;
  if (++count_ > blocks_.size()) return grow_blocks();
  link(number);
}

void PlacedWrites::remove(std::uint32_t number) {
  if (number >= places_.size() || places_[number].data.size == 0) return;
  for (std::size_t end = 0; end < blocks_of(places_[number].data); ++end) unlink_end(number, end);
  places_[number].data.size = 0;
  --count_;
}

// Places are linked in the order of their numbers, not of arrival: lookups still find them, some later.
void PlacedWrites::grow_blocks() {
  blocks_.assign(std::max(kBlocksAtFirst, blocks_.size() * 2), {});
  for (std::uint32_t number = 0; number < places_.size(); ++number) {
    if (places_[number].data.size > 0) link(number);
  }
}

void PlacedWrites::link(std::uint32_t number) {
  for (std::size_t end = 0; end < blocks_of(places_[number].data); ++end) link_end(number, end);
}

void PlacedWrites::link_end(std::uint32_t number, std::size_t end) {
  Place& place = places_[number];
  const std::uint32_t self = number * 2 + static_cast<std::uint32_t>(end) + 1;
  Block& block = block_of_end(place.data, end);
  place.previous[end] = kNone;
  place.next[end] = block.first;
  if (block.first != kNone) places_[(block.first - 1) / 2].previous[(block.first - 1) % 2] = self;
  block.first = self;
  if (block.newest == kNoPsn || distance(place.data.psn, Psn{block.newest}) > 0) block.newest = place.data.psn.value();
}

void PlacedWrites::unlink_end(std::uint32_t number, std::size_t end) {
  const Place& place = places_[number];
  const std::uint32_t next = place.next[end], previous = place.previous[end];
  if (next != kNone) places_[(next - 1) / 2].previous[(next - 1) % 2] = previous;
  if (previous != kNone) {
    places_[(previous - 1) / 2].next[(previous - 1) % 2] = next;
    return;
  }
  Block& block = block_of_end(place.data, end);
  block.first = next;
  // PSNs wrap, so this must be reset; until then it only costs a needless search.
  if (next == kNone) block.newest = kNoPsn;
}

std::size_t PlacedWrites::block(const std::byte* place) const {
  const auto page = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(place)) >> kBlockShift;
  return static_cast<std::size_t>((page * 0x9E37'79B9'7F4A'7C15u) >> 32) & (blocks_.size() - 1);
}

PlacedWrites::Block& PlacedWrites::block_of_end(const Data& data, std::size_t end) {
  return blocks_[block(data.begin + (end == 0 ? 0 : data.size - 1))];
}

std::size_t PlacedWrites::blocks_of(const Data& data) const {
  return block(data.begin) == block(data.begin + data.size - 1) ? 1 : 2;
}

PlacedWrites::Run PlacedWrites::uncovered_slow(Psn psn, const std::byte* place, std::size_t size) const {
  if (size == 0) return {};
  Span left{place, place + size};
  const std::size_t first = block(place), last = block(place + size - 1);
  uncover(psn, blocks_[first], left);
  if (first != last) uncover(psn, blocks_[last], left);
  if (left.begin >= left.end) return {};
  return {static_cast<std::size_t>(left.begin - place), static_cast<std::size_t>(left.end - left.begin)};
}

// Takes from `left` what later PSNs of the block's list have written.
void PlacedWrites::uncover(Psn psn, const Block& block, Span& left) const {
  if (block.newest == kNoPsn || distance(Psn{block.newest}, psn) <= 0) return;
  // Newest first: where messages overwrite each other's buffer, the first hit covers all.
  for (std::uint32_t link = block.first; link != kNone && left.begin < left.end;) {
    const Place& other = places_[(link - 1) / 2];
    link = other.next[(link - 1) % 2];
    ++searched_;
    const std::byte* const other_begin = other.data.begin;
    const std::byte* const other_end = other_begin + other.data.size;
    if (other_begin >= left.end || other_end <= left.begin || distance(other.data.psn, psn) <= 0) continue;
    if (other_begin <= left.begin) {
      left.begin = other_end;
    } else {
      left.end = other_begin;
    }
  }
}

std::size_t PlacedWrites::allocated_bytes() const { return vector_bytes(places_) + vector_bytes(blocks_); }

}  // namespace brdma::qp
