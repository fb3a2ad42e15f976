// base/lazy.h - a rarely used part, behind a pointer: made at the first write. Until then it reads as an empty one.
#pragma once

#include <memory>
#include <utility>
#include <version>

namespace brdma {

// T: its default constructor is constexpr and makes an empty one.
template <class T>
class Lazy {
 public:
  [[nodiscard]] const T& operator*() const { return part_ ? *part_ : kEmpty.part; }
  [[nodiscard]] const T* operator->() const { return &**this; }
  // For writing; `arguments` are for its constructor, if it must be made.
  template <class... Arguments>
  [[nodiscard]] T& made(Arguments&&... arguments) {
    if (!part_) [[unlikely]]
      part_ = std::make_unique<T>(std::forward<Arguments>(arguments)...);
    return *part_;
  }
  // For writing to an existing part; null: it is empty.
  [[nodiscard]] T* if_made() { return part_.get(); }
  [[nodiscard]] std::size_t allocated_bytes() const { return part_ ? sizeof(T) + part_->allocated_bytes() : 0; }

 private:
  // Never destroyed, so that it needs no constexpr destructor (g++ 14 asks for one) and outlives every owner.
  union Empty {
    constexpr Empty() : part{} {}
    constexpr ~Empty() {}
    T part;
  };
#ifdef __cpp_lib_constexpr_vector
  constinit  // before any initializer runs; g++ 11's vectors cannot
#endif
      static inline const Empty kEmpty{};
  std::unique_ptr<T> part_;
};

}  // namespace brdma
