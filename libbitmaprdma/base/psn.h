// base/psn.h - packet sequence number: 24 bits, circular (IBTA 9.7.2).
// There is no operator<: circular order is not an order. Compare by distance from a window base.
#pragma once

#include <cstdint>

namespace brdma {

class Psn {
 public:
  static constexpr std::uint32_t kMask = 0xFF'FFFF;
  constexpr Psn() = default;
  constexpr explicit Psn(std::uint32_t value) : value_(value & kMask) {}
  [[nodiscard]] constexpr std::uint32_t value() const { return value_; }
  friend constexpr bool operator==(Psn, Psn) = default;
  friend constexpr Psn operator+(Psn p, std::uint32_t n) { return Psn{p.value_ + n}; }
  friend constexpr Psn operator-(Psn p, std::uint32_t n) { return Psn{p.value_ - n}; }
  constexpr Psn& operator++() { return *this = *this + 1; }

 private:
  std::uint32_t value_ = 0;
};

// Distance of `psn` from `base`, in [-2^23, 2^23): negative means before it.
[[nodiscard]] constexpr std::int32_t distance(Psn psn, Psn base) {
  const std::uint32_t d = (psn.value() - base.value()) & Psn::kMask;
  return d < 0x80'0000 ? static_cast<std::int32_t>(d) : static_cast<std::int32_t>(d) - 0x100'0000;
}

}  // namespace brdma
