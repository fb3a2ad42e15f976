#include "qp/receive/held_copies.h"

#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/vector_bytes.h"

namespace brdma::qp {

void HeldCopies::begin(std::uint32_t mtu, std::uint32_t bytes_max) {
  BRDMA_CHECK(bytes_ == 0);
  if (mtu != mtu_) clear();  // it sets the size of buffers
  mtu_ = mtu;
  bytes_max_ = bytes_max;
}

bool HeldCopies::keep(ConstBytes payload, Copy& copy) {
  BRDMA_CHECK(payload.size() <= mtu_);
  copy = {.small = payload.size() <= kSmallBytes};
  if (payload.empty()) return true;
  const std::size_t cost = buffer_bytes(copy.small);
  if (bytes_ + cost > bytes_max_) return false;
  copy.data = take(copy.small);
  bytes_ += cost;
  std::memcpy(copy.data, payload.data(), payload.size());
  return true;
}

void HeldCopies::release(Copy& copy) {
  if (copy.data == nullptr) return;
  bytes_ -= buffer_bytes(copy.small);
  free_[copy.small].push_back(copy.data);
  copy.data = nullptr;
}

void HeldCopies::clear() {
  HeldCopies fresh;
  fresh.mtu_ = mtu_;
  fresh.bytes_max_ = bytes_max_;
  *this = std::move(fresh);
}

std::byte* HeldCopies::take(bool small) {
  auto& free = free_[small];
  if (free.empty()) {
    const std::size_t size = buffer_bytes(small);
    constexpr std::size_t kPerChunk = 16;
    chunks_.push_back(std::make_unique<std::byte[]>(size * kPerChunk));
    chunk_bytes_ += size * kPerChunk;
    for (std::size_t i = 0; i < kPerChunk; ++i) free.push_back(chunks_.back().get() + i * size);
  }
  std::byte* const buffer = free.back();
  free.pop_back();
  return buffer;
}

std::size_t HeldCopies::allocated_bytes() const {
  return vector_bytes(chunks_) + chunk_bytes_ + vector_bytes(free_[0]) + vector_bytes(free_[1]);
}

}  // namespace brdma::qp
