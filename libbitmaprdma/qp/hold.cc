#include "qp/hold.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"

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
  if (place == nullptr) return;
  const Psn psn = record.packet.bth.psn;
  const std::size_t size = record.packet.payload.size();
  placed_.push_back(
      {place, static_cast<std::uint32_t>(size), psn, static_cast<std::uint32_t>(&record - records_.data())});
  record.placed_index = static_cast<std::uint32_t>(placed_.size());
  if (newest_.empty()) newest_.assign(kBlocks, kNoPsn);
  for (const std::byte* end : {place, place + size - 1}) {
    std::uint32_t& newest = newest_[block(end)];
    if (newest == kNoPsn || distance(psn, Psn{newest}) > 0) newest = psn.value();
  }
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
  if (record.placed_index != 0) forget_place(record);
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
  if (mtu != mtu_) {  // buffers are as long as that
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
         vector_bytes(free_buffers_[0]) + vector_bytes(free_buffers_[1]) + vector_bytes(placed_) +
         vector_bytes(newest_);
}

// The stretch of the index begins at `base` now: what lies before it has been released.
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
  Placed& hole = placed_[record.placed_index - 1];
  hole = placed_.back();
  records_[hole.record].placed_index = record.placed_index;
  record.placed_index = 0;
  placed_.pop_back();
  // Stale entries only cost a needless search; PSNs wrap, so they must not stay for ever.
  if (placed_.empty()) std::fill(newest_.begin(), newest_.end(), kNoPsn);
}

std::size_t EarlyPackets::block(const std::byte* place) {
  const auto page = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(place)) >> kBlockShift;
  return static_cast<std::size_t>((page * 0x9E37'79B9'7F4A'7C15u) >> 54);  // top ten bits: kBlocks
}

EarlyPackets::Run EarlyPackets::uncovered_slow(Psn psn, const std::byte* place, std::size_t size) const {
  if (size == 0) return {};
  const auto touched = [&](const std::byte* at) {
    const std::uint32_t newest = newest_[block(at)];
    return newest != kNoPsn && distance(Psn{newest}, psn) > 0;
  };
  // A packet is at most 4096 bytes: it touches the blocks of its two ends and no other.
  if (!touched(place) && !touched(place + size - 1)) return {0, size};
  const std::byte* begin = place;
  const std::byte* end = place + size;
  // Newest first: where messages overwrite each other's buffer, the first hit covers all.
  for (auto it = placed_.rbegin(); it != placed_.rend() && begin < end; ++it) {
    if (it->begin >= end || it->begin + it->size <= begin || distance(it->psn, psn) <= 0) continue;
    if (it->begin <= begin) {
      begin = it->begin + it->size;
    } else {
      end = it->begin;
    }
  }
  if (begin >= end) return {};
  return {static_cast<std::size_t>(begin - place), static_cast<std::size_t>(end - begin)};
}

}  // namespace brdma::qp
