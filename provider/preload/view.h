// preload/view.h - the path that is shown to a program in place of a given one; used by all path hooks.
//
// The device tree is made at the first path that is ours, never before: every child process of a program inherits this
// library, and most of them do not use RDMA. It is updated when libibverbs lists the devices. If it cannot be made, one
// line on standard error gives the reason, and paths stay unchanged (the program finds nothing).
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
  // `path` may be null. `caller`: return address of the hook, which identifies libibverbs.
  ShownPath(const char* path, const void* caller);
  ShownPath(const ShownPath&) = delete;
  ShownPath& operator=(const ShownPath&) = delete;

  [[nodiscard]] const char* get() const { return shown_; }  // the program's own pointer if unchanged
  [[nodiscard]] bool is_ours() const { return buffer_ != nullptr; }
  // Below the tree's root, of a path that is ours: "sys/class/infiniband/...".
  [[nodiscard]] const char* within() const { return within_; }
  // Opens the file of get() if the path no longer leads to it: the program has changed its root or its user since the
  // files were made. As open(2).
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
  std::unique_ptr<Text> buffer_;  // not on the stack: threads that open other files may have a small one
};

// The device number (st_rdev) of the file behind our uverbs nodes.
[[nodiscard]] dev_t node_device();

// A path in the tree as the program would have written it: "/sys/devices/virtual/...". `text` is changed in place; what
// is no path in the tree's sys stays.
void hide_tree(char* text);

// Whether a file with the tree's time (device_files/device_tree.h) is the tree's, or a counter's value, which has no
// name. Another user may give a file of its own that time, but can't make one that is this user's.
[[nodiscard]] bool is_of_tree(dev_t device, uid_t owner, nlink_t links);

// Whether the kernel has RDMA devices of its own, which programs are to see. Looks past our tree.
[[nodiscard]] bool shows_kernel_devices();

// Reads the interfaces again, and updates the shown files if any were shown before.
void refresh();

// The names in the list of devices as shown now, "uverbs2": ours in the order of list_devices(), then the kernel's.
[[nodiscard]] std::vector<std::string> device_order();

}  // namespace brdma::preload
