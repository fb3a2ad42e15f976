#include "qp/receive_queue.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/check.h"

namespace brdma::qp {

ReceiveQueue::ReceiveQueue(std::uint32_t entries_max, std::uint32_t sges_max)
    : entries_max_(entries_max), stride_(std::max(1u, sges_max)) {}

Status ReceiveQueue::post(const ReceiveRequest& request) {
  if (request.sges.size() > stride_) return Status{EINVAL};
  if (count_ >= entries_max_) return Status{ENOMEM};
  if (count_ == capacity_) grow();
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
  head_ = slot(1);
  --count_;
}

void ReceiveQueue::grow() {
  const std::size_t grown = std::max<std::size_t>(8, capacity_ * 2);
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

memory::Fault ReceiveQueue::scatter(const memory::MemoryTable& memory, const ProtectionDomain* pd, std::size_t i,
                                    std::uint64_t offset, ConstBytes payload) const {
  BRDMA_CHECK(i < count_);
  const Entry& entry = entries_[slot(i)];
  const Sge* sge = &sges_[slot(i) * stride_];
  for (std::uint32_t left = entry.sge_count; left > 0 && !payload.empty(); --left, ++sge) {
    if (offset >= sge->length) {
      offset -= sge->length;
      continue;
    }
    const std::size_t here = std::min<std::size_t>(payload.size(), sge->length - offset);
    std::byte* to = nullptr;
    const auto fault = memory.resolve(pd, sge->lkey, sge->address + offset, here, kAccessLocalWrite, &to);
    if (fault != memory::Fault::kNone) return fault;
    std::memcpy(to, payload.data(), here);
    payload = payload.subspan(here);
    offset = 0;
  }
  BRDMA_CHECK(payload.empty());
  return memory::Fault::kNone;
}

}  // namespace brdma::qp
