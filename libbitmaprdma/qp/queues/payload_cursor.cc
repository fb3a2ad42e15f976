#include "qp/queues/payload_cursor.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "memory/guard.h"

namespace brdma::qp {

void PayloadCursor::seek(const SendQueue& queue, std::uint64_t wqe, std::uint32_t offset) {
  if (wqe == wqe_ && offset == position_) return;
  wqe_ = wqe;
  position_ = offset;
  resolved_ = nullptr;
  inline_ = queue[wqe].inlined ? queue.inline_bytes(wqe) : nullptr;
  if (inline_ != nullptr) return;
  sges_ = queue.sges(wqe);
  in_sge_ = offset;
  while (!sges_.empty() && in_sge_ >= sges_.front().length) {
    in_sge_ -= sges_.front().length;
    sges_ = sges_.subspan(1);
  }
}

bool PayloadCursor::take(std::uint32_t bytes) {
  slice_count_ = 0;
  const std::uint32_t from = position_;
  position_ += bytes;
  if (inline_ != nullptr) {
    if (bytes > 0) slices_[slice_count_++] = Slice{inline_ + from, bytes};
    return true;
  }
  while (bytes > 0) {
    BRDMA_CHECK(!sges_.empty());
    if (resolved_ == nullptr && !enter()) return false;
    const std::uint32_t part = std::min(bytes, sges_.front().length - in_sge_);
    if (part > 0) slices_[slice_count_++] = Slice{resolved_ + in_sge_, part};
    if (!memory_.holds(resolved_ + in_sge_, part)) return false;
    in_sge_ += part;
    bytes -= part;
    if (in_sge_ == sges_.front().length) leave();
  }
  return true;
}

std::uint32_t PayloadCursor::take_run(std::uint32_t bytes, std::uint32_t count, const std::byte*& at) {
  if (inline_ != nullptr || sges_.empty() || (resolved_ == nullptr && !enter())) return 0;
  const std::uint32_t length = sges_.front().length;
  count = std::min(count, (length - in_sge_) / bytes);
  at = resolved_ + in_sge_;
  if (!memory_.holds(at, std::size_t{count} * bytes)) return 0;
  position_ += count * bytes;
  in_sge_ += count * bytes;
  if (in_sge_ == length) leave();
  return count;
}

void PayloadCursor::leave() {
  sges_ = sges_.subspan(1);
  in_sge_ = 0;
  resolved_ = nullptr;
}

bool PayloadCursor::enter() {
  const Sge& sge = sges_.front();
  if (sge.length == 0) {
    static std::byte nothing;
    resolved_ = &nothing;
    return true;
  }
  resolved_ = resolve(sge);
  return resolved_ != nullptr;
}

std::byte* PayloadCursor::resolve(const Sge& sge) {
  if (region_ != nullptr && region_->key == sge.lkey)
    return region_->covers(sge.address, sge.length) ? region_->bytes_at(sge.address) : nullptr;
  std::byte* at = nullptr;
  const auto fault = memory_.resolve(memory::Accessor{pd_}, sge.lkey, sge.address, sge.length, access_, &at);
  if (fault != memory::Fault::kNone) return nullptr;
  const MemoryRegion* const region = memory_.find(sge.lkey);
  region_ = memory_.careful() || region->null ? nullptr : region;
  return at;
}

bool PayloadCursor::take_pieces(const SendQueue& queue, std::uint64_t wqe) {
  const SendWqe& request = queue[wqe];
  wqe_ = kNowhere;
  slice_count_ = 0;
  if (request.inlined) {
    if (request.length > 0) slices_[slice_count_++] = Slice{queue.inline_bytes(wqe), request.length};
    return true;
  }
  for (const Sge& sge : queue.sges(wqe)) {
    if (sge.length == 0) continue;
    const std::byte* const at = resolve(sge);
    if (at == nullptr || !memory_.holds(at, sge.length)) return false;
    slices_[slice_count_++] = Slice{at, sge.length};
  }
  return true;
}

bool scatter(const memory::MemoryTable& memory, const ProtectionDomain* pd, const SendQueue& queue, std::uint64_t wqe,
             std::uint32_t offset, ConstBytes bytes) {
  for (const Sge& sge : queue.sges(wqe)) {
    if (bytes.empty()) break;
    if (offset >= sge.length) {
      offset -= sge.length;
      continue;
    }
    const std::size_t part = std::min<std::size_t>(bytes.size(), sge.length - offset);
    std::byte* memory_at = nullptr;
    if (memory.resolve(memory::Accessor{pd}, sge.lkey, sge.address + offset, part, kAccessLocalWrite, &memory_at) !=
        memory::Fault::kNone) {
      return false;
    }
    if (!memory::copy(memory_at, bytes.data(), part)) return false;
    bytes = bytes.subspan(part);
    offset = 0;
  }
  return true;
}

bool writable(const memory::MemoryTable& memory, const ProtectionDomain* pd, const SendQueue& queue,
              std::uint64_t wqe) {
  for (const Sge& sge : queue.sges(wqe)) {
    std::byte* ignored = nullptr;
    if (sge.length > 0 && memory.resolve(memory::Accessor{pd}, sge.lkey, sge.address, sge.length, kAccessLocalWrite,
                                         &ignored) != memory::Fault::kNone) {
      return false;
    }
  }
  return true;
}

}  // namespace brdma::qp
