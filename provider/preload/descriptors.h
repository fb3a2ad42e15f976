// preload/descriptors.h - which file descriptors are uverbs nodes: their writes are commands. One byte a descriptor, so
// that write(), which every program calls all the time, pays one load and one comparison.
//
// A descriptor can change hands without our seeing it (close inside fclose(), raw system calls). So a mark is only a
// hint: who acts on it also checks that the descriptor still is the node's device and that the bytes are a command.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace brdma::preload {

class DescriptorMarks {
 public:
  static constexpr int kDescriptorsMax = 1 << 20;  // default of fs.nr_open; untouched pages cost nothing

  [[nodiscard]] bool is_marked(int fd) const {
    return static_cast<unsigned>(fd) < kDescriptorsMax &&
           __atomic_load_n(&marks_[static_cast<std::size_t>(fd)], __ATOMIC_RELAXED) != 0;
  }
  void mark(int fd) { set(fd, 1); }
  void clear(int fd) {
    if (is_marked(fd)) set(fd, 0);
  }
  void clear_range(unsigned first, unsigned last);
  // dup2(from, to) and the like.
  void copy(int from, int to);

 private:
  void set(int fd, std::uint8_t value);
  // Not std::atomic: constructing a million of them at compile time is more than clang does.
  std::array<std::uint8_t, kDescriptorsMax> marks_{};
  std::atomic<int> highest_{-1};  // nothing is marked above
};

extern DescriptorMarks uverbs_marks;

}  // namespace brdma::preload
