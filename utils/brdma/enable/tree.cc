#include "enable/tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace brdma::enable {
namespace {

constexpr std::size_t kFileBytesMax = 1 << 20;

std::string real_root(const std::string& root) {
  std::array<char, PATH_MAX> real{};
  if (realpath(root.c_str(), real.data()) == nullptr) throw file_error(root, errno);
  const std::string path{real.data()};
  return path == "/" ? std::string{} : path;
}

}  // namespace

EnableError file_error(const std::string& path, int error) {
  std::string text = path + ": " + std::strerror(error);
  if (error == EACCES || error == EPERM) text += ": run this as root, or use --user";
  if (error == ENOSYS) text += ": another tree needs openat2 (Linux 5.6); run brdma inside of it, without --root";
  if (error == ENOSPC || error == EDQUOT) text += ": nothing was changed; free some space first";
  if (error == EROFS) text += ": nothing was changed; use a tree that can be written, or 'brdma run -- PROGRAM'";
  return EnableError{text};
}

std::vector<std::string> components_of(const std::string& path) {
  if (path.empty() || path.front() != '/') throw EnableError{"'" + path + "' is not an absolute path"};
  std::vector<std::string> parts;
  for (std::size_t from = 1; from < path.size();) {
    const std::size_t end = std::min(path.find('/', from), path.size());
    const std::string part = path.substr(from, end - from);
    if (part == "." || part == "..") throw EnableError{"'" + path + "': write the path without '.' and '..'"};
    if (!part.empty()) parts.push_back(part);
    from = end + 1;
  }
  return parts;
}

Tree::Tree(const std::string& root)
    : root_(real_root(root)), descriptor_(::open(root.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (!descriptor_.valid()) throw file_error(root, errno);
}

io::FileDescriptor Tree::open(const std::string& path, int flags) const {
  if (is_system()) return io::FileDescriptor{::open(path.c_str(), flags | O_CLOEXEC)};
  open_how how{};
  how.flags = static_cast<unsigned>(flags | O_CLOEXEC);
  how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
  return io::FileDescriptor{static_cast<int>(syscall(SYS_openat2, descriptor_.get(), path.c_str(), &how, sizeof how))};
}

bool Tree::exists(const std::string& path) const { return open(path, O_PATH).valid(); }

std::optional<std::string> Tree::read(const std::string& path) const {
  const io::FileDescriptor file = open(path, O_RDONLY | O_NONBLOCK);
  if (!file.valid()) {
    if (errno == ENOENT || errno == ENOTDIR) return std::nullopt;
    throw file_error(shown(path), errno);
  }
  struct stat status {};
  if (fstat(file.get(), &status) != 0) throw file_error(shown(path), errno);
  if (!S_ISREG(status.st_mode)) throw EnableError{shown(path) + " is not a regular file: move it away first"};
  std::string text;
  std::array<char, 4096> bytes{};
  for (;;) {
    const ssize_t size = ::read(file.get(), bytes.data(), bytes.size());
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) throw file_error(shown(path), errno);
    if (size == 0) return text;
    text.append(bytes.data(), static_cast<std::size_t>(size));
    if (text.size() > kFileBytesMax) throw EnableError{shown(path) + " is larger than 1 MiB: not a file of its kind"};
  }
}

std::vector<std::string> Tree::list(const std::string& path) const {
  std::vector<std::string> names;
  io::FileDescriptor folder = open(path, O_RDONLY | O_DIRECTORY);
  if (!folder.valid()) return names;
  const std::unique_ptr<DIR, int (*)(DIR*)> entries{fdopendir(folder.get()), closedir};
  if (entries == nullptr) return names;
  (void)folder.release();
  while (const dirent* entry = readdir(entries.get())) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace brdma::enable
