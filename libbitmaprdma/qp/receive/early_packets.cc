#include "qp/receive/early_packets.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "memory/copy.h"

namespace brdma::qp {

bool EarlyPackets::hold(Psn base, const wire::Packet& packet) {
  const ConstBytes payload = packet.payload;
  BRDMA_CHECK(payload.size() <= mtu_);
  std::byte* buffer = nullptr;
  const bool small = payload.size() <= kSmallBytes;
  if (!payload.empty()) {
    const std::size_t cost = small ? kSmallBytes : mtu_;
    if (held_bytes_ + cost > bytes_max_) return false;
    buffer = take_buffer(small);
    held_bytes_ += cost;
    std::memcpy(buffer, payload.data(), payload.size());
  }
  Record& record = add(base, packet);
  record.packet.payload = {buffer, payload.size()};
  record.buffer = buffer;
  record.small = small;
  return true;
}

void EarlyPackets::note_placed(Psn base, const wire::Packet& packet, const std::byte* place) {
  Record& record = add(base, packet);
  note_place(record, place);
}

void EarlyPackets::settle(Psn psn, const std::byte* place) {
  BRDMA_CHECK(find(psn) != nullptr);
  Record& record = records_[*index_.find(psn.value()) - 1];
  BRDMA_CHECK(!record.placed);
  give_back(record);
  note_place(record, place);
}

void EarlyPackets::note_place(Record& record, const std::byte* place) {
  record.placed = true;
  const std::size_t size = record.packet.payload.size();
  if (place == nullptr || size == 0) return;
  record.has_place = true;
  const auto number = static_cast<std::uint32_t>(&record - records_.data());
  if (places_.size() <= number) places_.resize(records_.size());
  places_[number] = {.begin = place, .size = static_cast<std::uint32_t>(size), .psn = record.packet.bth.psn};
  if (++place_count_ > blocks_.size()) return grow_blocks();
  for (std::size_t end = 0; end < blocks_of(places_[number]); ++end) link(number, end);
}

// Places are linked in the order of their records, not of arrival: lookups still find them, some later.
void EarlyPackets::grow_blocks() {
  blocks_.assign(std::max(kBlocksAtFirst, blocks_.size() * 2), {});
  for (std::uint32_t number = 0; number < places_.size(); ++number) {
    if (!records_[number].has_place) continue;
    for (std::size_t end = 0; end < blocks_of(places_[number]); ++end) link(number, end);
  }
}

void EarlyPackets::link(std::uint32_t record, std::size_t end) {
  Place& place = places_[record];
  const std::uint32_t self = record * 2 + static_cast<std::uint32_t>(end) + 1;
  Block& block = blocks_[this->block(place.begin + (end == 0 ? 0 : place.size - 1))];
  place.previous[end] = kNone;
  place.next[end] = block.first;
  if (block.first != kNone) places_[(block.first - 1) / 2].previous[(block.first - 1) % 2] = self;
  block.first = self;
  if (block.newest == kNoPsn || distance(place.psn, Psn{block.newest}) > 0) block.newest = place.psn.value();
}

void EarlyPackets::unlink(std::uint32_t record, std::size_t end) {
  const Place& place = places_[record];
  const std::uint32_t next = place.next[end], previous = place.previous[end];
  if (next != kNone) places_[(next - 1) / 2].previous[(next - 1) % 2] = previous;
  if (previous != kNone) {
    places_[(previous - 1) / 2].next[(previous - 1) % 2] = next;
    return;
  }
  Block& block = blocks_[this->block(place.begin + (end == 0 ? 0 : place.size - 1))];
  block.first = next;
  // PSNs wrap, so this must be reset; until then it only costs a needless search.
  if (next == kNone) block.newest = kNoPsn;
}

const EarlyPackets::Record* EarlyPackets::find(Psn psn) const {
  if (count_ == 0) return nullptr;
  if (distance(psn, first_) < 0 || distance(psn, last_) > 0) return nullptr;
  const std::uint32_t* const number = index_.find(psn.value());
  return number == nullptr || *number == kNone ? nullptr : &records_[*number - 1];
}

void EarlyPackets::release(Psn psn) {
  if (find(psn) == nullptr) return;
  std::uint32_t& number = *index_.find(psn.value());
  Record& record = records_[number - 1];
  give_back(record);
  if (record.has_place) forget_place(record);
  free_records_.push_back(number - 1);
  number = kNone;
  if (--count_ == 0) {
    index_.release(first_.value(), static_cast<std::uint32_t>(distance(last_, first_)) + 1);
  }
}

void EarlyPackets::give_back(Record& record) {
  if (record.buffer == nullptr) return;
  held_bytes_ -= record.small ? kSmallBytes : mtu_;
  free_buffers_[record.small].push_back(record.buffer);
  record.buffer = nullptr;
}

void EarlyPackets::begin(std::uint32_t mtu, std::uint32_t bytes_max, const bitmap::WindowShape& shape,
                         bitmap::SegmentPool& pool) {
  BRDMA_CHECK(count_ == 0);
  if (mtu != mtu_) {  // it sets the size of buffers
    for (auto& free : free_buffers_) free.clear();
    chunks_.clear();
    chunk_bytes_ = 0;
  }
  mtu_ = mtu;
  bytes_max_ = bytes_max;
  index_ = bitmap::SegmentedArray<std::uint32_t>{
      {.base = shape.base, .extension = shape.extension, .segment = shape.segment, .index_bits = 24}, pool};
}

void EarlyPackets::clear() {
  index_.clear();
  if (count_ == 0) return;
  EarlyPackets fresh;
  fresh.mtu_ = mtu_;
  fresh.bytes_max_ = bytes_max_;
  fresh.index_ = std::move(index_);
  *this = std::move(fresh);
}

std::size_t EarlyPackets::allocated_bytes() const {
  return index_.bytes() + vector_bytes(records_) + vector_bytes(free_records_) + vector_bytes(chunks_) + chunk_bytes_ +
         vector_bytes(free_buffers_[0]) + vector_bytes(free_buffers_[1]) + vector_bytes(places_) +
         vector_bytes(blocks_);
}

// The range of the index begins at `base` now: earlier PSNs have been released.
void EarlyPackets::advance_to(Psn base) {
  if (count_ == 0) {
    first_ = last_ = base;
    return;
  }
  if (distance(base, first_) <= 0) return;
  index_.leave(first_.value(), base.value(), static_cast<std::uint32_t>(distance(last_, base)) + 1);
  first_ = base;
}

EarlyPackets::Record& EarlyPackets::add(Psn base, const wire::Packet& packet) {
  const Psn psn = packet.bth.psn;
  BRDMA_CHECK(distance(psn, base) >= 0);
  advance_to(base);
  if (free_records_.empty()) {
    records_.emplace_back();
    free_records_.push_back(static_cast<std::uint32_t>(records_.size() - 1));
  }
  const std::uint32_t number = free_records_.back();
  std::uint32_t& at = index_.reach(first_.value(), psn.value());
  BRDMA_CHECK(at == kNone);
  if (distance(psn, last_) > 0) last_ = psn;
  free_records_.pop_back();
  at = number + 1;
  ++count_;
  Record& record = records_[number];
  record = Record{};
  record.packet = packet;
  return record;
}

std::byte* EarlyPackets::take_buffer(bool small) {
  auto& free = free_buffers_[small];
  if (free.empty()) {
    const std::size_t size = small ? kSmallBytes : mtu_;
    constexpr std::size_t kPerChunk = 16;
    chunks_.push_back(std::make_unique<std::byte[]>(size * kPerChunk));
    chunk_bytes_ += size * kPerChunk;
    for (std::size_t i = 0; i < kPerChunk; ++i) free.push_back(chunks_.back().get() + i * size);
  }
  std::byte* buffer = free.back();
  free.pop_back();
  return buffer;
}

void EarlyPackets::forget_place(Record& record) {
  const auto number = static_cast<std::uint32_t>(&record - records_.data());
  for (std::size_t end = 0; end < blocks_of(places_[number]); ++end) unlink(number, end);
  record.has_place = false;
  --place_count_;
}

std::size_t EarlyPackets::block(const std::byte* place) const {
  const auto page = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(place)) >> kBlockShift;
  return static_cast<std::size_t>((page * 0x9E37'79B9'7F4A'7C15u) >> 32) & (blocks_.size() - 1);
}

std::size_t EarlyPackets::blocks_of(const Place& place) const {
  return block(place.begin) == block(place.begin + place.size - 1) ? 1 : 2;
}

bool EarlyPackets::copy_uncovered(Psn psn, std::byte* place, ConstBytes payload) const {
  const Run run = uncovered(psn, place, payload.size());
  return copy_end_last(place + run.offset, payload.subspan(run.offset, run.size));
}

EarlyPackets::Run EarlyPackets::uncovered_slow(Psn psn, const std::byte* place, std::size_t size) const {
  if (size == 0) return {};
  Span left{place, place + size};
  const std::size_t first = block(place), last = block(place + size - 1);
  uncover(psn, blocks_[first], left);
  if (first != last) uncover(psn, blocks_[last], left);
  if (left.begin >= left.end) return {};
  return {static_cast<std::size_t>(left.begin - place), static_cast<std::size_t>(left.end - left.begin)};
}

// Takes from `left` what later PSNs of the block's list have written.
void EarlyPackets::uncover(Psn psn, const Block& block, Span& left) const {
  if (block.newest == kNoPsn || distance(Psn{block.newest}, psn) <= 0) return;
  // Newest first: where messages overwrite each other's buffer, the first hit covers all.
  for (std::uint32_t link = block.first; link != kNone && left.begin < left.end;) {
    const Place& other = places_[(link - 1) / 2];
    link = other.next[(link - 1) % 2];
    ++searched_;
    const std::byte* const other_end = other.begin + other.size;
    if (other.begin >= left.end || other_end <= left.begin || distance(other.psn, psn) <= 0) continue;
    if (other.begin <= left.begin) {
      left.begin = other_end;
    } else {
      left.end = other.begin;
    }
  }
}

}  // namespace brdma::qp
