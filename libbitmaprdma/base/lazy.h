// base/lazy.h - a part that most of its owners never use: a pointer, and the part is made when something is first put
// into it. Until then it reads as an empty one.
#pragma once

#include <memory>
#include <utility>

namespace brdma {

// T: its default constructor is constexpr and makes an empty one.
template <class T>
class Lazy {
 public:
  [[nodiscard]] const T& operator*() const { return part_ ? *part_ : kEmpty; }
  [[nodiscard]] const T* operator->() const { return &**this; }
  // To be changed; `arguments` of its constructor, should it have to be made.
  template <class... Arguments>
  [[nodiscard]] T& made(Arguments&&... arguments) {
    if (!part_) [[unlikely]]
      part_ = std::make_unique<T>(std::forward<Arguments>(arguments)...);
    return *part_;
  }
  // To be changed where there is something to change; null: it is empty.
  [[nodiscard]] T* if_made() { return part_.get(); }
  [[nodiscard]] std::size_t allocated_bytes() const { return part_ ? sizeof(T) + part_->allocated_bytes() : 0; }

 private:
  static constinit inline const T kEmpty{};
  std::unique_ptr<T> part_;
};

}  // namespace brdma
