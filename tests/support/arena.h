// support/arena.h - the memory of one side of a test, with its expected contents at the end. One registered region,
// filled with random bytes; buffers are cut from it with guard bytes between. Each operation is applied to
// `reference()` when it is planned. At the end every byte must agree, guards included: a stray write shows as a
// difference. Requests name the region by an address of its own (iova), so that packets do not depend on the program's
// memory layout.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "base/random.h"

namespace brdma::test {

struct Buffer {
  std::size_t offset = 0;
  std::uint32_t length = 0;
};

class Arena {
 public:
  static constexpr std::size_t kGuard = 24;
  static constexpr std::size_t kAlignment = 64;

  Arena(std::uint64_t iova, Random random) : iova_(iova), random_(random) { guard(); }

  // Before the region is registered: allocation moves the bytes.
  Buffer allocate(std::uint32_t length, std::size_t alignment = 1) {
    grow((alignment - reference_.size() % alignment) % alignment);
    const Buffer buffer{reference_.size(), length};
    grow(length);
    guard();
    return buffer;
  }
  // No allocation after this: the bytes stay in place.
  void freeze() {
    storage_.resize(reference_.size() + kAlignment);
    const auto address = reinterpret_cast<std::uintptr_t>(storage_.data());
    bytes_ = storage_.data() + (kAlignment - address % kAlignment) % kAlignment;
    std::memcpy(bytes_, initial_.data(), initial_.size());
  }
  [[nodiscard]] std::byte* bytes() { return bytes_; }
  [[nodiscard]] const std::byte* bytes() const { return bytes_; }
  [[nodiscard]] std::size_t size() const { return reference_.size(); }
  [[nodiscard]] std::uint64_t iova() const { return iova_; }
  [[nodiscard]] std::vector<std::byte>& reference() { return reference_; }
  [[nodiscard]] const std::vector<std::byte>& initial() const { return initial_; }

  [[nodiscard]] bool as_expected(const Buffer& buffer) const {
    return std::memcmp(bytes_ + buffer.offset, reference_.data() + buffer.offset, buffer.length) == 0;
  }
  // After an operation that failed its buffers have undefined contents; but the bytes between buffers are unchanged.
  [[nodiscard]] bool guards_intact() const {
    return std::all_of(guards_.begin(), guards_.end(), [this](const Buffer& guard) {
      return std::memcmp(bytes_ + guard.offset, initial_.data() + guard.offset, guard.length) == 0;
    });
  }
  // Offset of the first byte that differs; size() if none does.
  [[nodiscard]] std::size_t first_difference() const {
    for (std::size_t i = 0; i < size(); ++i) {
      if (bytes_[i] != reference_[i]) return i;
    }
    return size();
  }

 private:
  void guard() {
    guards_.push_back({reference_.size(), kGuard});
    grow(kGuard);
  }
  void grow(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) initial_.push_back(static_cast<std::byte>(next_byte()));
    reference_.insert(reference_.end(), initial_.end() - static_cast<std::ptrdiff_t>(count), initial_.end());
  }
  std::uint8_t next_byte() {
    if (left_ == 0) {
      word_ = random_.next();
      left_ = 8;
    }
    const auto byte = static_cast<std::uint8_t>(word_);
    word_ >>= 8;
    --left_;
    return byte;
  }

  std::uint64_t iova_;
  Random random_;
  std::uint64_t word_ = 0;
  unsigned left_ = 0;
  std::vector<Buffer> guards_;
  std::vector<std::byte> storage_, initial_, reference_;
  std::byte* bytes_ = nullptr;
};

}  // namespace brdma::test
