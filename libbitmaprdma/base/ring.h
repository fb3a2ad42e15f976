// base/ring.h - a queue in a power-of-two array that grows (never by itself beyond max) and keeps its order.
// Index 0 is the oldest element. Growth allocates: reserve() at set-up where the datapath must not.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/check.h"
#include "base/fetch_ahead.h"

namespace brdma {

template <class T>
class Ring {
 public:
  constexpr Ring() = default;
  explicit Ring(std::size_t capacity) { reserve(capacity); }

  [[nodiscard]] bool empty() const { return head_ == tail_; }
  [[nodiscard]] std::size_t size() const { return tail_ - head_; }
  [[nodiscard]] std::size_t capacity() const { return slots_ ? std::size_t{mask_} + 1 : 0; }
  [[nodiscard]] std::size_t allocated_bytes() const { return capacity() * sizeof(T); }
  [[nodiscard]] T& operator[](std::size_t i) { return slots_[(head_ + i) & mask_]; }
  [[nodiscard]] const T& operator[](std::size_t i) const { return slots_[(head_ + i) & mask_]; }
  [[nodiscard]] T& front() { return (*this)[0]; }
  [[nodiscard]] const T& front() const { return (*this)[0]; }
  [[nodiscard]] T& back() { return (*this)[size() - 1]; }
  [[nodiscard]] const T& back() const { return (*this)[size() - 1]; }

  T& push_back(T value) {
    T& slot = add_back();
    slot = std::move(value);
    return slot;
  }
  // A new newest element for the caller to write; its contents are undefined.
  T& add_back() {
    if (size() == capacity()) [[unlikely]]
      grow();
    return slots_[tail_++ & mask_];
  }
  T& push_front(T value) {
    if (size() == capacity()) [[unlikely]]
      grow();
    T& slot = slots_[--head_ & mask_];
    slot = std::move(value);
    return slot;
  }
  // Prefetches the place of the next push_back().
  void fetch_slot() const {
    if (slots_) fetch_ahead<sizeof(T)>(&slots_[tail_ & mask_]);
  }
  void pop_front() {
    BRDMA_CHECK(!empty());
    ++head_;
  }
  void clear() { head_ = tail_; }
  void reserve(std::size_t wanted) {
    if (wanted <= capacity()) return;
    const std::size_t grown = std::bit_ceil(wanted);
    BRDMA_CHECK(grown <= std::size_t{1} << 31);
    auto slots = std::make_unique<T[]>(grown);
    const std::size_t count = size();
    for (std::size_t i = 0; i < count; ++i) slots[i] = std::move((*this)[i]);
    slots_ = std::move(slots);
    mask_ = static_cast<std::uint32_t>(grown - 1);
    head_ = 0;
    tail_ = static_cast<std::uint32_t>(count);
  }

 private:
  static constexpr std::size_t kSlotsAtFirst = 4;
  [[gnu::noinline]] void grow() { reserve(capacity() == 0 ? kSlotsAtFirst : capacity() * 2); }

  std::unique_ptr<T[]> slots_;
  std::uint32_t mask_ = 0;
  std::uint32_t head_ = 0;  // free-running; only differences and masked values matter
  std::uint32_t tail_ = 0;
};

}  // namespace brdma
