// Splits a fuzzer's bytes into small decisions; zeros behind the end. (libFuzzer's own provider is clang's only, and
// every compiler replays the corpus.)
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace brdma::fuzz {

class InputReader {
 public:
  InputReader(const std::uint8_t* data, std::size_t size) : rest_(data, size) {}
  [[nodiscard]] bool empty() const { return rest_.empty(); }
  std::uint8_t u8() { return take<std::uint8_t>(); }
  std::uint16_t u16() { return take<std::uint16_t>(); }
  std::uint32_t u32() { return take<std::uint32_t>(); }
  std::uint32_t below(std::uint32_t bound) { return bound <= 256 ? u8() % bound : u16() % bound; }
  bool coin() { return (u8() & 1) != 0; }
  // Up to `count` bytes; fewer at the end.
  std::span<const std::uint8_t> bytes(std::size_t count) {
    const auto taken = rest_.first(count < rest_.size() ? count : rest_.size());
    rest_ = rest_.subspan(taken.size());
    return taken;
  }

 private:
  template <class T>
  T take() {
    T value{};
    const auto taken = bytes(sizeof(T));
    std::memcpy(&value, taken.data(), taken.size());
    return value;
  }
  std::span<const std::uint8_t> rest_;
};

}  // namespace brdma::fuzz
