#include "qp/queues/receive_queue.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/check.h"
#include "memory/guard.h"
#include "qp/queues/shared_receive_queue.h"

namespace brdma::qp {

ReceiveQueue::ReceiveQueue(std::uint32_t entries_max, std::uint32_t sges_max)
    : entries_max_(entries_max), stride_(std::max(1u, sges_max)) {}

ReceiveQueue::ReceiveQueue(const Identity& owner)
    : ReceiveQueue(owner.capabilities.receive_wr_max, owner.capabilities.receive_sge_max) {
  if (owner.srq == nullptr) return;
  source_ = owner.srq;
  stride_ = source_->receives().stride_;
}

void ReceiveQueue::take_from(SharedReceiveQueue* source) {
  BRDMA_CHECK(count_ == 0);
  source_ = source;
  if (source == nullptr || source->receives().stride_ == stride_) return;
  stride_ = source->receives().stride_;
  capacity_ = head_ = 0;  // room of that stride is made with the next one
}

Status ReceiveQueue::post(const ReceiveRequest& request) {
  if (source_ != nullptr || request.sges.size() > stride_) return Status{EINVAL};
  if (count_ >= entries_max_) return Status{ENOMEM};
  make_room();
  const std::size_t at = slot(count_);
  Entry& entry = entries_[at];
  entry = Entry{request.wr_id, 0, static_cast<std::uint32_t>(request.sges.size())};
  for (const Sge& sge : request.sges) entry.bytes += sge.length;
  std::copy(request.sges.begin(), request.sges.end(), &sges_[at * stride_]);
  ++count_;
  return Status::success();
}

void ReceiveQueue::pop() {
  BRDMA_CHECK(count_ > 0);
  head_ = static_cast<std::uint32_t>(slot(1));
  --count_;
}

bool ReceiveQueue::take(std::size_t i) {
  while (count_ <= i) {
    if (!source_->give_to(*this)) return false;
  }
  return true;
}

void ReceiveQueue::clear() {
  if (source_ != nullptr) source_->take_back(*this);
  count_ = 0;
}

Status ReceiveQueue::set_entries_max(std::uint32_t entries_max) {
  if (entries_max < count_) return Status{EINVAL};
  entries_max_ = entries_max;
  return Status::success();
}

void ReceiveQueue::copy_slot(const ReceiveQueue& from, std::size_t from_slot, std::size_t to_slot) {
  entries_[to_slot] = from.entries_[from_slot];
  std::copy_n(&from.sges_[from_slot * stride_], entries_[to_slot].sge_count, &sges_[to_slot * stride_]);
}

void ReceiveQueue::move_oldest_to(ReceiveQueue& other) {
  BRDMA_CHECK(count_ > 0 && stride_ == other.stride_);
  other.make_room();
  other.copy_slot(*this, head_, other.slot(other.count_));
  ++other.count_;
  pop();
}

void ReceiveQueue::move_newest_to_front_of(ReceiveQueue& other) {
  BRDMA_CHECK(count_ > 0 && stride_ == other.stride_);
  other.make_room();
  other.head_ = static_cast<std::uint32_t>(other.slot(other.capacity_ - 1));
  other.copy_slot(*this, slot(count_ - 1), other.head_);
  ++other.count_;
  --count_;
}

void ReceiveQueue::make_room() {
  if (count_ < capacity_) return;
  const std::uint32_t grown = std::max<std::uint32_t>(8, capacity_ * 2);
  auto entries = std::make_unique<Entry[]>(grown);
  auto sges = std::make_unique<Sge[]>(grown * stride_);
  for (std::size_t i = 0; i < count_; ++i) {
    entries[i] = entries_[slot(i)];
    std::copy_n(&sges_[slot(i) * stride_], entries[i].sge_count, &sges[i * stride_]);
  }
  entries_ = std::move(entries);
  sges_ = std::move(sges);
  capacity_ = grown;
  head_ = 0;
}

memory::Fault ReceiveQueue::resolve(const memory::MemoryTable& memory, const ProtectionDomain* pd, std::size_t i,
                                    std::uint64_t offset, std::uint64_t bytes, std::span<Slice> slices,
                                    std::size_t& count) const {
  BRDMA_CHECK(i < count_);
  if (source_ != nullptr) pd = source_->pd();
  count = 0;
  const Entry& entry = entries_[slot(i)];
  const Sge* sge = &sges_[slot(i) * stride_];
  for (std::uint32_t left = entry.sge_count; left > 0 && bytes > 0; --left, ++sge) {
    if (offset >= sge->length) {
      offset -= sge->length;
      continue;
    }
    const std::uint64_t here = std::min<std::uint64_t>(bytes, sge->length - offset);
    std::byte* to = nullptr;
    const auto fault =
        memory.resolve(memory::Accessor{pd}, sge->lkey, sge->address + offset, here, kAccessLocalWrite, &to);
    if (fault != memory::Fault::kNone) return fault;
    slices[count++] = {to, here};
    bytes -= here;
    offset = 0;
  }
  BRDMA_CHECK(bytes == 0);
  return memory::Fault::kNone;
}

memory::Fault ReceiveQueue::scatter(const memory::MemoryTable& memory, const ProtectionDomain* pd, std::size_t i,
                                    std::uint64_t offset, ConstBytes payload) const {
  BRDMA_CHECK(i < count_);
  if (source_ != nullptr) pd = source_->pd();
  const Entry& entry = entries_[slot(i)];
  const Sge* sge = &sges_[slot(i) * stride_];
  for (std::uint32_t left = entry.sge_count; left > 0 && !payload.empty(); --left, ++sge) {
    if (offset >= sge->length) {
      offset -= sge->length;
      continue;
    }
    const std::size_t here = std::min<std::size_t>(payload.size(), sge->length - offset);
    std::byte* to = nullptr;
    const auto fault =
        memory.resolve(memory::Accessor{pd}, sge->lkey, sge->address + offset, here, kAccessLocalWrite, &to);
    if (fault != memory::Fault::kNone) return fault;
    if (!memory::copy(to, payload.data(), here)) return memory::Fault::kNotThere;
    payload = payload.subspan(here);
    offset = 0;
  }
  BRDMA_CHECK(payload.empty());
  return memory::Fault::kNone;
}

}  // namespace brdma::qp
