#include "qp/queues/send_queue.h"

#include <algorithm>
#include <bit>

#include "memory/guard.h"

namespace brdma::qp {

SendQueue::SendQueue(const QpCapabilities& capabilities)
    : entries_max_(std::max(capabilities.send_wr_max, 1u)),
      sge_max_(std::max(capabilities.send_sge_max, 1u)),
      inline_max_(capabilities.inline_bytes_max) {}

std::size_t SendQueue::allocated_bytes() const {
  return slots_ * (sizeof(SendWqe) + sge_max_ * sizeof(Sge)) + (inline_ ? slots_max() * inline_max_ : 0);
}

void SendQueue::grow() {
  constexpr std::size_t kSlotsAtFirst = 4;
  const std::size_t slots = std::min(slots_max(), std::max(kSlotsAtFirst, std::size_t{slots_} * 2));
  auto wqes = std::make_unique<SendWqe[]>(slots);
  auto sges = std::make_unique<Sge[]>(slots * sge_max_);
  for (std::uint64_t number = head_; number != tail_; ++number) {
    const std::size_t to = number & (slots - 1);
    wqes[to] = (*this)[number];
    std::ranges::copy(this->sges(number), &sges[to * sge_max_]);
  }
  wqes_ = std::move(wqes);
  sges_ = std::move(sges);
  slots_ = static_cast<std::uint32_t>(slots);
}

bool SendQueue::copy_data(const SendRequest& request, std::size_t slot) {
  if (wqes_[slot].inlined) return copy_inline(request);
  std::copy(request.sges.begin(), request.sges.end(), &sges_[slot * sge_max_]);
  return true;
}

bool SendQueue::copy_inline(const SendRequest& request) {
  if (inline_max_ == 0) return true;
  if (!inline_) inline_ = std::make_unique<std::byte[]>(slots_max() * inline_max_);
  std::byte* out = inline_.get() + inline_slot(tail_) * inline_max_;
  for (const Sge& sge : request.sges) {
    if (sge.length == 0) continue;
    const auto* const from = reinterpret_cast<const std::byte*>(static_cast<std::uintptr_t>(sge.address));
    if (!memory::copy(out, from, sge.length)) return false;
    out += sge.length;
  }
  return true;
}

bool SendQueue::only_local_behind() const {
  std::uint64_t next = next_;
  while (next != tail_ && is_local((*this)[next].opcode)) ++next;
  return next == tail_;
}

}  // namespace brdma::qp
