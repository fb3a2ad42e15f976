#include "preload/sysfs.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <string>
#include <string_view>

#include "device_files/counter_files.h"
#include "device_files/device_catalog.h"

namespace brdma::preload {
namespace {

constexpr std::string_view kSys = "sys/", kUevent = "/uevent", kTreeName = "/tree-";

bool is_below_sys(const ShownPath& shown) {
  return shown.is_ours() && std::string_view{shown.within()}.starts_with(kSys);
}

std::string_view file_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

// Where a relative path has led; empty: not into a tree.
std::string path_of(int fd) {
  struct stat opened {};
  if (::syscall(SYS_fstat, fd, &opened) != 0 || opened.st_mtim.tv_nsec != kTreeNanoseconds) return {};
  if (!is_of_tree(opened.st_dev, opened.st_uid, opened.st_nlink)) return {};
  std::array<char, PATH_MAX> path{};
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  const ssize_t length = ::syscall(SYS_readlinkat, AT_FDCWD, link.c_str(), path.data(), path.size() - 1);
  std::string found{path.data(), length > 0 ? static_cast<std::size_t>(length) : 0};
  return found.find(kTreeName) != found.npos ? found : std::string{};
}

// A file of its own, that looks as the tree's does.
int file_of(const std::string& text, int flags) {
  const int fd = ::memfd_create("counter", (flags & O_CLOEXEC) != 0 ? MFD_CLOEXEC : 0);
  if (fd < 0) return -1;
  const timespec time{0, kTreeNanoseconds};
  const timespec times[2] = {time, time};
  const bool made = ::syscall(SYS_write, fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
                    ::fchmod(fd, 0444) == 0 && ::futimens(fd, times) == 0 && ::lseek(fd, 0, SEEK_SET) == 0;
  if (made) return fd;
  ::syscall(SYS_close, fd);
  return -1;
}

}  // namespace

int as_sysfs(int result, struct statx* out) {
  if (result != 0 || out->stx_mtime.tv_nsec != kTreeNanoseconds) [[likely]]
    return result;
  if (!is_of_tree(makedev(out->stx_dev_major, out->stx_dev_minor), out->stx_uid, out->stx_nlink)) return result;
  out->stx_uid = 0;
  out->stx_gid = 0;
  out->stx_size = S_ISREG(out->stx_mode) ? kSysfsFileBytes : 0;
  out->stx_blocks = 0;
  return result;
}

bool may_move(const char* path, const ShownPath& shown) {
  if (path == nullptr || (path[0] == '/' && !is_below_sys(shown))) [[likely]]
    return false;
  return may_be_counter(file_name(path));
}

int with_live_value(int fd, const char* path, const ShownPath& shown, int flags) {
  if (fd < 0 || (flags & O_ACCMODE) != O_RDONLY || !may_move(path, shown)) [[likely]]
    return fd;
  const int saved_errno = errno;
  const auto file = parse_counter_path(is_below_sys(shown) ? std::string{shown.within()} : path_of(fd));
  const auto device = file ? provider::find_device(std::string_view{file->device}) : std::nullopt;
  if (device) {
    if (const auto value = counter_value(*file, *device)) {
      const int live = file_of(std::to_string(value.value()) + "\n", flags);
      if (live >= 0) {
        ::syscall(SYS_close, fd);
        fd = live;
      }
    }
  }
  errno = saved_errno;
  return fd;
}

int check_writing(const ShownPath& shown, int flags) {
  if ((flags & O_ACCMODE) == O_RDONLY || !is_below_sys(shown)) [[likely]]
    return 0;
  return ::geteuid() == 0 ? 0 : EACCES;
}

bool is_uevent(const ShownPath& shown) {
  return is_below_sys(shown) && std::string_view{shown.within()}.ends_with(kUevent);
}

}  // namespace brdma::preload
