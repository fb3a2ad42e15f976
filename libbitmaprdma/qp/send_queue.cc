#include "qp/send_queue.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"

namespace brdma::qp {

SendQueue::SendQueue(const QpCapabilities& capabilities)
    : entries_max_(std::max(capabilities.send_wr_max, 1u)),
      sge_max_(std::max(capabilities.send_sge_max, 1u)),
      inline_max_(capabilities.inline_bytes_max) {
  const std::size_t slots = std::bit_ceil(std::size_t{entries_max_});
  mask_ = slots - 1;
  wqes_ = std::make_unique<SendWqe[]>(slots);
  sges_ = std::make_unique<Sge[]>(slots * sge_max_);
  if (inline_max_ > 0) inline_ = std::make_unique<std::byte[]>(slots * inline_max_);
}

void SendQueue::push(const SendRequest& request, std::uint32_t length) {
  BRDMA_CHECK(!full());
  const std::uint64_t slot = tail_ & mask_;
  wqes_[slot] = SendWqe{.wr_id = request.wr_id,
                        .remote_address = request.remote_address,
                        .compare_or_add = request.compare_or_add,
                        .swap = request.swap,
                        .length = length,
                        .rkey = request.rkey,
                        .immediate_be = request.immediate_be,
                        .flags = request.flags,
                        .opcode = request.opcode,
                        .inlined = (request.flags & kSendInline) != 0,
                        .sge_count = static_cast<std::uint16_t>(request.sges.size())};
  if (wqes_[slot].inlined) {
    std::byte* out = inline_.get() + slot * inline_max_;
    for (const Sge& sge : request.sges) {
      if (sge.length == 0) continue;
      std::memcpy(out, reinterpret_cast<const void*>(static_cast<std::uintptr_t>(sge.address)), sge.length);
      out += sge.length;
    }
  } else {
    std::copy(request.sges.begin(), request.sges.end(), &sges_[slot * sge_max_]);
  }
  ++tail_;
}

}  // namespace brdma::qp
