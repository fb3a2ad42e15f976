#include "device_files/device_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <utility>

#include "device_files/runtime_directory.h"

namespace brdma::preload {
namespace {

constexpr char kTreePrefix[] = "tree-";
constexpr char kTemporaryPrefix[] = "new-";
constexpr long kIdleSeconds = 24 * 60 * 60;
constexpr unsigned kAttemptsMax = 4;  // each failure means that another process pruned the tree in between

int write_file(const std::string& path, const std::string& content, mode_t mode) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
  if (fd < 0) return errno;
  const ssize_t written = ::write(fd, content.data(), content.size());
  int error = written == static_cast<ssize_t>(content.size()) ? 0 : (written < 0 ? errno : ENOSPC);
  if (error == 0 && ::fchmod(fd, mode) != 0) error = errno;  // whatever the umask
  ::close(fd);
  return error;
}

int write_entry(const std::string& root, const TreeEntry& entry) {
  const std::string path = root + "/" + entry.path;
  switch (entry.kind) {
    case TreeEntry::Kind::kDirectory:
      return ::mkdir(path.c_str(), 0755) == 0 && ::chmod(path.c_str(), 0755) == 0 ? 0 : errno;
    case TreeEntry::Kind::kFile:
      return write_file(path, entry.content, entry.writable ? 0644 : 0444);
    case TreeEntry::Kind::kSymlink:
      return ::symlink(entry.content.c_str(), path.c_str()) == 0 ? 0 : errno;
  }
  return EINVAL;
}

// The path of a tree's directory is built by us: "<directory>/<name>", name from readdir or mkdtemp.
void remove_all(int parent_fd, const char* name) {
  const int fd = ::openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) {
    ::unlinkat(parent_fd, name, 0);
    return;
  }
  if (DIR* directory = ::fdopendir(fd)) {
    while (const dirent* entry = ::readdir(directory)) {
      const std::string child = entry->d_name;
      if (child != "." && child != "..") remove_all(::dirfd(directory), child.c_str());
    }
    ::closedir(directory);
  } else {
    ::close(fd);
  }
  ::unlinkat(parent_fd, name, AT_REMOVEDIR);
}

bool is_same(int fd, const std::string& path) {
  struct stat opened {
  }, named{};
  return ::fstat(fd, &opened) == 0 && ::stat(path.c_str(), &named) == 0 && opened.st_ino == named.st_ino &&
         opened.st_dev == named.st_dev;
}

// Opens and locks a finished tree; -1 with errno. ENOENT: there is none (any more).
int open_locked(const std::string& root) {
  const int fd = ::open(root.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return -1;
  // If removed between open and lock, the name is gone or names another one.
  if (::flock(fd, LOCK_SH) == 0 && is_same(fd, root)) {
    ::futimens(fd, nullptr);  // last use: now
    return fd;
  }
  ::close(fd);
  errno = ENOENT;
  return -1;
}

int make_tree(const std::string& directory, const std::string& root, std::span<const TreeEntry> entries) {
  std::string temporary = directory + "/" + kTemporaryPrefix + "XXXXXX";
  if (::mkdtemp(temporary.data()) == nullptr) return errno;
  int error = write_tree(temporary, entries);
  if (error == 0) {
    ::chmod(temporary.c_str(), 0755);
    if (::rename(temporary.c_str(), root.c_str()) == 0) return 0;
    error = errno;
  }
  remove_all(AT_FDCWD, temporary.c_str());
  return error == EEXIST || error == ENOTEMPTY ? 0 : error;  // another process was faster: use its tree
}

// time() uses the last tick and may be a second behind a file's creation just now.
bool is_idle(int fd, long idle_seconds) {
  struct stat status {};
  timespec now{};
  return ::fstat(fd, &status) == 0 && ::clock_gettime(CLOCK_REALTIME, &now) == 0 &&
         now.tv_sec - status.st_mtime >= idle_seconds;
}

}  // namespace

int write_tree(const std::string& root, std::span<const TreeEntry> entries) {
  for (const TreeEntry& entry : entries) {
    if (const int error = write_entry(root, entry); error != 0) return error;
  }
  // Last, as each new file in a directory changes its time.
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  for (const TreeEntry& entry : entries) {
    if (!entry.path.starts_with("sys") && entry.mtime_seconds == 0) continue;
    const timespec time{entry.mtime_seconds != 0 ? entry.mtime_seconds : now.tv_sec, kTreeNanoseconds};
    const timespec times[2] = {time, time};
    if (::utimensat(AT_FDCWD, (root + "/" + entry.path).c_str(), times, AT_SYMLINK_NOFOLLOW) != 0) return errno;
  }
  return 0;
}

Result<DeviceTree, int> DeviceTree::open_in(const std::string& directory, std::span<const TreeEntry> entries) {
  char name[32];
  std::snprintf(name, sizeof name, "%s%016llx", kTreePrefix, static_cast<unsigned long long>(hash_of(entries)));
  std::string root = directory + "/" + name;
  for (unsigned attempt = 0; attempt < kAttemptsMax; ++attempt) {
    if (const int fd = open_locked(root); fd >= 0) return DeviceTree(std::move(root), fd);
    if (errno != ENOENT) return errno;
    prune_trees(directory, kIdleSeconds);
    if (const int error = make_tree(directory, root, entries); error != 0) return error;
  }
  return EAGAIN;
}

Result<DeviceTree, std::string> DeviceTree::open(std::span<const TreeEntry> entries) {
  std::optional<DeviceTree> tree;
  const auto failure = with_runtime_directory([&](const std::string& directory) {
    auto result = open_in(directory, entries);
    if (!result) return result.reason();
    tree.emplace(std::move(result).value());
    return 0;
  });
  if (failure) return *failure;
  return std::move(*tree);
}

bool DeviceTree::is_reachable() const { return is_same(lock_fd_, root_); }

DeviceTree::~DeviceTree() {
  if (lock_fd_ >= 0) ::close(lock_fd_);
}

DeviceTree::DeviceTree(DeviceTree&& other) noexcept
    : root_(std::move(other.root_)), lock_fd_(std::exchange(other.lock_fd_, -1)) {}

void prune_trees(const std::string& directory, long idle_seconds) {
  DIR* list = ::opendir(directory.c_str());
  if (list == nullptr) return;
  while (const dirent* entry = ::readdir(list)) {
    const std::string name = entry->d_name;
    if (!name.starts_with(kTreePrefix) && !name.starts_with(kTemporaryPrefix)) continue;
    const int fd = ::openat(::dirfd(list), name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) continue;
    // The lock is kept until the tree is gone: waiters then find the name missing and make a new one.
    if (is_idle(fd, idle_seconds) && ::flock(fd, LOCK_EX | LOCK_NB) == 0) remove_all(::dirfd(list), name.c_str());
    ::close(fd);
  }
  ::closedir(list);
}

}  // namespace brdma::preload
