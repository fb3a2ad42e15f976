// io/system/sealed_memory.h - checks memory of another process, passed as a descriptor (memfd_create(2)), before
// mapping. A file that shrinks under a mapping, or whose pages are unavailable, raises SIGBUS on access.
#pragma once

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <cstddef>

namespace brdma::io {

// True if it is at least `bytes` of ordinary memory, sealed against shrinking.
[[nodiscard]] inline bool is_sealed_memory(int fd, std::size_t bytes) {
  struct stat status {};
  struct statfs system {};
  const int seals = ::fcntl(fd, F_GET_SEALS);
  return seals >= 0 && (seals & F_SEAL_SHRINK) != 0 && ::fstat(fd, &status) == 0 &&
         status.st_size >= static_cast<off_t>(bytes) && ::fstatfs(fd, &system) == 0 && system.f_type == TMPFS_MAGIC;
}

}  // namespace brdma::io
