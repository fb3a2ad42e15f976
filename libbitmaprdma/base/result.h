// base/result.h - a value or a reason; and Status, a caller's mistake as an errno value of the verbs manual.
#pragma once

#include <utility>
#include <variant>

#include "base/check.h"

namespace brdma {

// errno value, 0 = done. Operations that return a Status other than ok have changed nothing.
class [[nodiscard]] Status {
 public:
  constexpr Status() = default;
  constexpr explicit Status(int error_number) : errno_(error_number) {}
  static constexpr Status success() { return Status{}; }
  [[nodiscard]] constexpr bool ok() const { return errno_ == 0; }
  [[nodiscard]] constexpr int error() const { return errno_; }
  friend constexpr bool operator==(Status, Status) = default;

 private:
  int errno_ = 0;
};

template <class T, class E>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}    // NOLINT(google-explicit-constructor)
  Result(E reason) : state_(std::in_place_index<1>, std::move(reason)) {}  // NOLINT(google-explicit-constructor)
  [[nodiscard]] bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  [[nodiscard]] T& value() & {
    BRDMA_CHECK(ok());
    return std::get<0>(state_);
  }
  [[nodiscard]] const T& value() const& {
    BRDMA_CHECK(ok());
    return std::get<0>(state_);
  }
  [[nodiscard]] T&& value() && {
    BRDMA_CHECK(ok());
    return std::get<0>(std::move(state_));
  }
  [[nodiscard]] const E& reason() const {
    BRDMA_CHECK(!ok());
    return std::get<1>(state_);
  }

 private:
  std::variant<T, E> state_;
};

}  // namespace brdma
