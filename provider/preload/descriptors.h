// preload/descriptors.h - marks file descriptors: nodes of ours and RDMA_NETLINK's sockets, to which commands are
// written, and the program's ends of event pipes, whose closing ends ours (event_channels.h). One byte a descriptor, so
// that the frequent write() pays one load and one comparison.
//
// A descriptor can change hands without our knowledge (close inside fclose(), raw system calls). So a mark is only a
// hint: its user also checks that the descriptor still is the node's device and that the bytes are a command.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace brdma::preload {

enum class Node : std::uint8_t { kNone = 0, kUverbs = 1, kRdmaCm = 2, kEvents = 3, kNetlink = 4 };

class DescriptorMarks {
 public:
  static constexpr int kDescriptorsMax = 1 << 20;  // default of fs.nr_open; untouched pages cost nothing

  [[nodiscard]] Node node(int fd) const {
    if (static_cast<unsigned>(fd) >= kDescriptorsMax) return Node::kNone;
    return static_cast<Node>(__atomic_load_n(&marks_[static_cast<std::size_t>(fd)], __ATOMIC_RELAXED));
  }
  [[nodiscard]] bool is_marked(int fd) const { return node(fd) != Node::kNone; }
  void mark(int fd, Node node) { set(fd, static_cast<std::uint8_t>(node)); }
  void clear(int fd) {
    if (is_marked(fd)) set(fd, 0);
  }
  // Calls `visit` for each marked one from `first` to `last`.
  template <class Visit>
  void for_each(unsigned first, unsigned last, Visit visit) const {
    const int highest = highest_.load(std::memory_order_relaxed);
    if (highest < 0) return;
    const unsigned end = last < static_cast<unsigned>(highest) ? last : static_cast<unsigned>(highest);
    for (unsigned fd = first; fd <= end; ++fd) {
      if (is_marked(static_cast<int>(fd))) visit(static_cast<int>(fd));
    }
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

extern DescriptorMarks node_marks;

}  // namespace brdma::preload
