// base/vector_bytes.h - what a vector has allocated, for accounts of memory.
#pragma once

#include <cstddef>
#include <vector>

namespace brdma {

template <class T>
[[nodiscard]] std::size_t vector_bytes(const std::vector<T>& vector) {
  return vector.capacity() * sizeof(T);
}

}  // namespace brdma
