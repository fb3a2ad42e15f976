// device_files/device_tree.h - the device files on disk, the target of the hooks. Shared by all processes of a user:
//   <runtime directory>/tree-<hash of its content>/{dev,sys}/...
// Written under a temporary name and renamed, so nobody ever sees half a tree; never changed afterwards. A user of a
// tree holds a shared lock on its directory; the maker of the next tree removes those unlocked and unused for a day.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "base/result.h"
#include "device_files/device_files.h"

namespace brdma::preload {

// Of the times of everything below sys: by it a file is known as one of a tree, however it was found (is_of_tree). The
// kernel's sysfs has no such time, and other files one in a thousand million.
inline constexpr long kTreeNanoseconds = 424'242'421;

// A tree in use by this process: an open, locked directory. Small; kept for the life of the process.
class DeviceTree {
 public:
  // Writes `entries` below one of the runtime directories, or uses an existing tree. Error: a sentence.
  static Result<DeviceTree, std::string> open(std::span<const TreeEntry> entries);
  // The same below one given directory; errno value.
  static Result<DeviceTree, int> open_in(const std::string& directory, std::span<const TreeEntry> entries);

  ~DeviceTree();
  DeviceTree(DeviceTree&& other) noexcept;
  DeviceTree& operator=(DeviceTree&&) = delete;
  DeviceTree(const DeviceTree&) = delete;
  DeviceTree& operator=(const DeviceTree&) = delete;

  [[nodiscard]] const std::string& root() const { return root_; }
  [[nodiscard]] int fd() const { return lock_fd_; }
  // True if its path still leads to it for this process.
  [[nodiscard]] bool is_reachable() const;

 private:
  DeviceTree(std::string root, int lock_fd) : root_(std::move(root)), lock_fd_(lock_fd) {}
  std::string root_;
  int lock_fd_;
};

// Writes `entries` below `root`, a directory that has none of them; 0 or an errno value.
[[nodiscard]] int write_tree(const std::string& root, std::span<const TreeEntry> entries);

// Removes the trees in `directory` that nobody uses and whose last use was at least `idle_seconds` ago.
void prune_trees(const std::string& directory, long idle_seconds);

}  // namespace brdma::preload
