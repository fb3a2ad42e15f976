// enable/tree.h - the file tree that `brdma enable` changes: the running system's, or another one below a directory
// (--root DIR). There a symbolic link leads to where it would lead if DIR were "/", so that a foreign tree cannot
// redirect a write to this system (openat2(2), Linux 5.6). Paths are absolute, as seen inside the tree.
#pragma once

#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "io/system/file_descriptor.h"

namespace brdma::enable {

// Names the file, the reason and, where there is one, the next step.
struct EnableError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Tree {
 public:
  // `root`: a directory, "/" for the running system. Throws EnableError.
  explicit Tree(const std::string& root);

  [[nodiscard]] bool is_system() const { return root_.empty(); }
  // The root without a "/" at its end; "": the running system.
  [[nodiscard]] const std::string& root() const { return root_; }
  // The path as a user of the running system finds it.
  [[nodiscard]] std::string shown(const std::string& path) const { return root_ + path; }

  // Not valid: errno has the reason.
  [[nodiscard]] io::FileDescriptor open(const std::string& path, int flags) const;
  [[nodiscard]] bool exists(const std::string& path) const;
  // The whole file; nothing where there is none. Throws EnableError: other reasons, no regular file, above 1 MiB.
  [[nodiscard]] std::optional<std::string> read(const std::string& path) const;
  // Names in a directory, sorted, without "." and ".."; empty where there is none, or it may not be read.
  [[nodiscard]] std::vector<std::string> list(const std::string& path) const;

 private:
  std::string root_;
  io::FileDescriptor descriptor_;
};

// "PATH: reason of errno", with the next step for some reasons.
[[nodiscard]] EnableError file_error(const std::string& path, int error);

// The components of an absolute path. Throws EnableError for a relative one, and for "." and "..".
[[nodiscard]] std::vector<std::string> components_of(const std::string& path);

}  // namespace brdma::enable
