// preload/view.h - what a program is shown for a path: the one question that all path hooks ask.
//
// The device tree is made at the first path that is ours, never before: every child process of a program inherits this
// library, and most of them have nothing to do with RDMA. It is looked at anew when libibverbs lists the devices.
// When it cannot be made, one line on standard error says why, and paths stay as they are (the program finds nothing).
#pragma once

#include <sys/types.h>

#include <climits>
#include <memory>
#include <string>
#include <vector>

namespace brdma::preload {

struct Match;

class ShownPath {
 public:
  // `path` may be null. `caller`: return address of the hook, by which libibverbs is recognised.
  ShownPath(const char* path, const void* caller);
  ShownPath(const ShownPath&) = delete;
  ShownPath& operator=(const ShownPath&) = delete;

  [[nodiscard]] const char* get() const { return shown_; }  // the program's own pointer where nothing is to be changed
  [[nodiscard]] bool is_ours() const { return buffer_ != nullptr; }
  // What get() names, where that does not lead to it any more: the program has changed its root or its user since the
  // files were made. As open(2) has it.
  [[nodiscard]] int open_within(int flags) const;
  [[nodiscard]] bool is_uverbs_node() const { return is_uverbs_node_; }
  [[nodiscard]] bool is_device_list() const { return is_device_list_; }  // and ours
  [[nodiscard]] bool is_rdma_cm_node() const { return is_rdma_cm_node_; }

 private:
  [[gnu::noinline]] void lead(const Match& match, const void* caller);
  const char* shown_;
  const char* within_ = nullptr;  // below the tree's root
  int tree_fd_ = -1;
  bool is_uverbs_node_ = false, is_rdma_cm_node_ = false, is_device_list_ = false;
  struct Text {
    char bytes[PATH_MAX];
  };
  std::unique_ptr<Text> buffer_;  // not on the stack: threads that open some other file may have little of it
};

// Of the device file that stands behind our uverbs nodes, as st_rdev has it.
[[nodiscard]] dev_t node_device();

// Looks at the interfaces anew, and shows what there is now to whoever has been shown something before.
void refresh();

// The names in the list of devices as they are shown now, "uverbs2": ours as list_devices() has them, then the
// kernel's.
[[nodiscard]] std::vector<std::string> device_order();

}  // namespace brdma::preload
