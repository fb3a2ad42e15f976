// base/compact_optional.h - a value or nothing in the room of the value: for what each of thousands of queue pairs
// keeps and seldom has. One value of T means nothing; CompactNone<T> names it. Like std::optional, as far as it goes.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>

#include "base/check.h"
#include "base/units.h"

namespace brdma {

// Specialise: `value()`, which is none; `is(v)`, whether v is it.
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
