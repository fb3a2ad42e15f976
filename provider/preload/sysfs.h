// preload/sysfs.h - files below /sys as sysfs has them: what stat(2) says of them, counters that move, rules of
// writing. The tree's files are known by their time, place and owner (view.h), however the program found them.
#pragma once

#include <sys/stat.h>

#include "device_files/device_tree.h"
#include "preload/view.h"

struct statx;

namespace brdma::preload {

// A file of sysfs is root's, and has a page, whatever is in it.
inline constexpr int kSysfsFileBytes = 4096;

// For the results of stat() and the like.
template <class Stat>
int as_sysfs(int result, Stat* out) {
  if (result != 0 || out->st_mtim.tv_nsec != kTreeNanoseconds) [[likely]]
    return result;
  if (!is_of_tree(out->st_dev, out->st_uid, out->st_nlink)) return result;
  out->st_uid = 0;
  out->st_gid = 0;
  out->st_size = S_ISREG(out->st_mode) ? kSysfsFileBytes : 0;
  out->st_blocks = 0;
  return result;
}
int as_sysfs(int result, struct statx* out);

// False: the file that the program names so is no counter. A cheap look.
[[nodiscard]] bool may_move(const char* path, const ShownPath& shown);
// If `fd` has opened a counter of a device: a descriptor of its value now, in place of `fd`, which is closed. Else
// `fd`. `path`: as the program wrote it; `flags` as of open(2).
[[nodiscard]] int with_live_value(int fd, const char* path, const ShownPath& shown, int flags);

// 0, or the errno value of opening a file of ours below /sys with these flags. sysfs lets only root write.
[[nodiscard]] int check_writing(const ShownPath& shown, int flags);
// Writes to this one are taken and forgotten: the kernel makes an event of them.
[[nodiscard]] bool is_uevent(const ShownPath& shown);

}  // namespace brdma::preload
