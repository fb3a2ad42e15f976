// base/compact_optional.h - an optional value in the room of the value, for rarely set members of thousands of queue
// pairs. One value of T, named by CompactNone<T>, means nothing. Interface: a part of std::optional's.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>

#include "base/check.h"
#include "base/units.h"

namespace brdma {

// Specialise: `value()` returns the value for nothing; `is(v)` tests for it.
template <class T>
struct CompactNone;

template <>
struct CompactNone<Instant> {
  static constexpr Instant value() { return Instant::from_ns(std::numeric_limits<std::int64_t>::min()); }
  static constexpr bool is(Instant instant) { return instant == value(); }
};

template <>
struct CompactNone<std::uint64_t> {
  static constexpr std::uint64_t value() { return std::numeric_limits<std::uint64_t>::max(); }
  static constexpr bool is(std::uint64_t number) { return number == value(); }
};

template <class T>
class CompactOptional {
 public:
  constexpr CompactOptional() = default;
  CompactOptional& operator=(const T& value) {
    BRDMA_CHECK_SLOW(!CompactNone<T>::is(value));
    value_ = value;
    return *this;
  }
  void reset() { value_ = CompactNone<T>::value(); }
  [[nodiscard]] constexpr bool has_value() const { return !CompactNone<T>::is(value_); }
  [[nodiscard]] constexpr explicit operator bool() const { return has_value(); }
  [[nodiscard]] constexpr const T& operator*() const { return value_; }
  [[nodiscard]] constexpr T* operator->() { return &value_; }
  [[nodiscard]] constexpr const T* operator->() const { return &value_; }
  [[nodiscard]] constexpr operator std::optional<T>() const {
    return has_value() ? std::optional{value_} : std::nullopt;
  }

 private:
  T value_ = CompactNone<T>::value();
};

}  // namespace brdma
