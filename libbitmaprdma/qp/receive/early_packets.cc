#include "qp/receive/early_packets.h"

#include <utility>

#include "base/check.h"
#include "base/vector_bytes.h"
#include "memory/copy.h"

namespace brdma::qp {

bool EarlyPackets::hold(Psn base, const wire::Packet& packet) {
  HeldCopies::Copy copy;
  if (!copies_.keep(packet.payload, copy)) return false;
  Record& record = add(base, packet);
  record.packet.payload = {copy.data, packet.payload.size()};
  record.copy = copy;
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
  copies_.release(record.copy);
  note_place(record, place);
}

void EarlyPackets::note_place(Record& record, const std::byte* place) {
  record.placed = true;
  const auto size = static_cast<std::uint32_t>(record.packet.payload.size());
  if (place == nullptr || size == 0) return;
  const auto number = static_cast<std::uint32_t>(&record - records_.data());
  writes_.add(number, {.begin = place, .size = size, .psn = record.packet.bth.psn});
}

const EarlyPackets::Record* EarlyPackets::find(Psn psn) const {
  if (count_ == 0) return nullptr;
  if (distance(psn, first_) < 0 || distance(psn, last_) > 0) return nullptr;
  const std::uint32_t* const number = index_.find(psn.value());
  return number == nullptr || *number == kNone ? nullptr : &records_[*number - 1];
}

void EarlyPackets::release(Psn psn) {
  if (find(psn) == nullptr) return;
  std::uint32_t& at = *index_.find(psn.value());
  const std::uint32_t number = at - 1;
  copies_.release(records_[number].copy);
  writes_.remove(number);
  free_records_.push_back(number);
  at = kNone;
  if (--count_ == 0) {
    index_.release(first_.value(), static_cast<std::uint32_t>(distance(last_, first_)) + 1);
  }
}

void EarlyPackets::begin(std::uint32_t mtu, std::uint32_t bytes_max, const bitmap::WindowShape& shape,
                         bitmap::SegmentPool& pool) {
  BRDMA_CHECK(count_ == 0);
  copies_.begin(mtu, bytes_max);
  index_ = bitmap::SegmentedArray<std::uint32_t>{
      {.base = shape.base, .extension = shape.extension, .segment = shape.segment, .index_bits = 24}, pool};
}

void EarlyPackets::clear() {
  index_.clear();
  if (count_ == 0) return;
  copies_.clear();
  EarlyPackets fresh;
  fresh.index_ = std::move(index_);
  fresh.copies_ = std::move(copies_);
  *this = std::move(fresh);
}

std::size_t EarlyPackets::allocated_bytes() const {
  return index_.bytes() + vector_bytes(records_) + vector_bytes(free_records_) + copies_.allocated_bytes() +
         writes_.allocated_bytes();
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

bool EarlyPackets::copy_uncovered(Psn psn, std::byte* place, ConstBytes payload) const {
  const PlacedWrites::Run run = uncovered(psn, place, payload.size());
  return copy_end_last(place + run.offset, payload.subspan(run.offset, run.size));
}

}  // namespace brdma::qp
