#include "preload/descriptors.h"

namespace brdma::preload {

constinit DescriptorMarks node_marks;

void DescriptorMarks::set(int fd, std::uint8_t value) {
  if (static_cast<unsigned>(fd) >= kDescriptorsMax) return;
  __atomic_store_n(&marks_[static_cast<std::size_t>(fd)], value, __ATOMIC_RELAXED);
  int highest = highest_.load(std::memory_order_relaxed);
  while (value != 0 && highest < fd && !highest_.compare_exchange_weak(highest, fd, std::memory_order_relaxed)) {
  }
}

void DescriptorMarks::clear_range(unsigned first, unsigned last) {
  for_each(first, last, [this](int fd) { clear(fd); });
}

void DescriptorMarks::copy(int from, int to) {
  if (is_marked(from)) {
    mark(to, node(from));
  } else {
    clear(to);
  }
}

}  // namespace brdma::preload
