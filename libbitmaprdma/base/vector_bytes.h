// base/vector_bytes.h - bytes that a vector has allocated, for memory accounting.
#pragma once

#include <cstddef>
#include <vector>

namespace brdma {

template <class T>
[[nodiscard]] std::size_t vector_bytes(const std::vector<T>& vector) {
  return vector.capacity() * sizeof(T);
}

}  // namespace brdma
