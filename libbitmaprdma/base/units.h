// base/units.h - time, rate and size as distinct types; only meaningful arithmetic compiles.
//   Duration, Instant: signed 64-bit nanoseconds. An Instant counts from an origin that its driver chose; two engines
//   never compare theirs. Bandwidth: bit/s. "None" is an empty std::optional, never a zero.
#pragma once

#include <compare>
#include <cstdint>

namespace brdma {

class Duration {
 public:
  constexpr Duration() = default;
  static constexpr Duration from_ns(std::int64_t ns) { return Duration{ns}; }
  [[nodiscard]] constexpr std::int64_t ns() const { return ns_; }
  friend constexpr auto operator<=>(Duration, Duration) = default;
  friend constexpr Duration operator+(Duration a, Duration b) { return Duration{a.ns_ + b.ns_}; }
  friend constexpr Duration operator-(Duration a, Duration b) { return Duration{a.ns_ - b.ns_}; }
  friend constexpr Duration operator*(Duration a, std::int64_t k) { return Duration{a.ns_ * k}; }
  friend constexpr Duration operator/(Duration a, std::int64_t k) { return Duration{a.ns_ / k}; }

 private:
  constexpr explicit Duration(std::int64_t ns) : ns_(ns) {}
  std::int64_t ns_ = 0;
};

class Instant {
 public:
  constexpr Instant() = default;
  static constexpr Instant from_ns(std::int64_t ns) { return Instant{ns}; }
  [[nodiscard]] constexpr std::int64_t ns() const { return ns_; }
  friend constexpr auto operator<=>(Instant, Instant) = default;
  friend constexpr Instant operator+(Instant a, Duration d) { return Instant{a.ns_ + d.ns()}; }
  friend constexpr Instant operator-(Instant a, Duration d) { return Instant{a.ns_ - d.ns()}; }
  friend constexpr Duration operator-(Instant a, Instant b) { return Duration::from_ns(a.ns_ - b.ns_); }

 private:
  constexpr explicit Instant(std::int64_t ns) : ns_(ns) {}
  std::int64_t ns_ = 0;
};

inline namespace literals {
constexpr Duration operator""_ns(unsigned long long v) { return Duration::from_ns(static_cast<std::int64_t>(v)); }
constexpr Duration operator""_us(unsigned long long v) {
  return Duration::from_ns(static_cast<std::int64_t>(v) * 1000);
}
constexpr Duration operator""_ms(unsigned long long v) {
  return Duration::from_ns(static_cast<std::int64_t>(v) * 1'000'000);
}
constexpr Duration operator""_s(unsigned long long v) {
  return Duration::from_ns(static_cast<std::int64_t>(v) * 1'000'000'000);
}
}  // namespace literals

// The smallest step of time. "More than 50 us" first holds at 50 us + kTick. A timer set there wakes when the condition
// holds; one set at 50 us would wake for ever.
inline constexpr Duration kTick = 1_ns;

class Bandwidth {
 public:
  constexpr Bandwidth() = default;
  static constexpr Bandwidth from_bps(std::uint64_t bps) { return Bandwidth{bps}; }
  [[nodiscard]] constexpr std::uint64_t bps() const { return bps_; }
  // Time that `bytes` occupy a link of this rate, rounded up. Precondition: bps() > 0.
  [[nodiscard]] constexpr Duration time_for(std::uint64_t bytes) const {
    const auto bits = static_cast<unsigned __int128>(bytes) * 8 * 1'000'000'000;
    return Duration::from_ns(static_cast<std::int64_t>((bits + bps_ - 1) / bps_));
  }
  friend constexpr auto operator<=>(Bandwidth, Bandwidth) = default;

 private:
  constexpr explicit Bandwidth(std::uint64_t bps) : bps_(bps) {}
  std::uint64_t bps_ = 0;
};

}  // namespace brdma
