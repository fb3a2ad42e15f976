// Hooks: opening by path.
#include <fcntl.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstring>

#include "preload/descriptors.h"
#include "preload/real.h"
#include "preload/sysfs.h"
#include "preload/view.h"
#include "rdma_cm/server.h"

using brdma::preload::Node;
using brdma::preload::node_marks;
using brdma::preload::ShownPath;

// Compiler-made calls of programs built with _FORTIFY_SOURCE; declared nowhere.
extern "C" {
int __open_2(const char* path, int flags);
int __open64_2(const char* path, int flags);
int __openat_2(int directory, const char* path, int flags);
int __openat64_2(int directory, const char* path, int flags);
}

namespace {

BRDMA_REAL(open);
BRDMA_REAL(open64);
BRDMA_REAL(openat);
BRDMA_REAL(openat64);
BRDMA_REAL(__open_2);
BRDMA_REAL(__open64_2);
BRDMA_REAL(__openat_2);
BRDMA_REAL(__openat64_2);
BRDMA_REAL(fopen);
BRDMA_REAL(fopen64);
BRDMA_REAL(freopen);
BRDMA_REAL(freopen64);
BRDMA_REAL(inotify_add_watch);

// Opens the shown path. RDMA-CM's node is no file: an event channel takes its place.
template <class Open>
int open_shown(const char* written, const ShownPath& path, int flags, Open open) {
  if (const int error = brdma::preload::check_writing(path, flags); error != 0) {
    errno = error;
    return -1;
  }
  if ((flags & O_ACCMODE) != O_RDONLY && brdma::preload::is_uevent(path)) return open("/dev/null");
  int fd = path.is_rdma_cm_node() ? brdma::provider::open_cm_channel() : open(path.get());
  if (fd < 0 && path.is_ours() && !path.is_rdma_cm_node() && (errno == ENOENT || errno == EACCES))
    fd = path.open_within(flags);
  if (fd >= 0 && path.is_uverbs_node()) node_marks.mark(fd, Node::kUverbs);
  if (fd >= 0 && path.is_rdma_cm_node()) node_marks.mark(fd, Node::kRdmaCm);
  return brdma::preload::with_live_value(fd, written, path, flags);
}

// The flags of open(2) for a mode of fopen(3).
int flags_of(const char* mode) { return mode != nullptr && std::strpbrk(mode, "wa+") != nullptr ? O_RDWR : O_RDONLY; }

// fopen(3). A counter's value is a file of its own, which takes the place of the stream's: it has read nothing yet.
template <class Open>
FILE* open_stream(const char* written, const ShownPath& shown, const char* mode, Open open) {
  const int flags = flags_of(mode);
  if (const int error = brdma::preload::check_writing(shown, flags); error != 0) {
    errno = error;
    return nullptr;
  }
  FILE* const stream = open(flags != O_RDONLY && brdma::preload::is_uevent(shown) ? "/dev/null" : shown.get());
  if (stream == nullptr || !brdma::preload::may_move(written, shown)) [[likely]]
    return stream;
  const int copy = ::fcntl(::fileno(stream), F_DUPFD_CLOEXEC, 0);
  const int live = brdma::preload::with_live_value(copy, written, shown, flags | O_CLOEXEC);
  if (live >= 0 && live != copy) ::dup3(live, ::fileno(stream), std::strchr(mode, 'e') != nullptr ? O_CLOEXEC : 0);
  if (live >= 0) ::close(live);
  return stream;
}

bool takes_mode(int flags) { return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE; }

}  // namespace

#define BRDMA_MODE_ARGUMENT(flags)    \
  mode_t mode = 0;                    \
  if (takes_mode(flags)) {            \
    va_list arguments;                \
    va_start(arguments, flags);       \
    mode = va_arg(arguments, mode_t); \
    va_end(arguments);                \
  }

BRDMA_HOOK int open(const char* path, int flags, ...) {
  BRDMA_MODE_ARGUMENT(flags)
  const ShownPath shown(path, BRDMA_CALLER);
  return open_shown(path, shown, flags, [&](const char* file) { return real_open.get()(file, flags, mode); });
}

BRDMA_HOOK int open64(const char* path, int flags, ...) {
  BRDMA_MODE_ARGUMENT(flags)
  const ShownPath shown(path, BRDMA_CALLER);
  return open_shown(path, shown, flags, [&](const char* file) { return real_open64.get()(file, flags, mode); });
}

BRDMA_HOOK int openat(int directory, const char* path, int flags, ...) {
  BRDMA_MODE_ARGUMENT(flags)
  const ShownPath shown(path, BRDMA_CALLER);
  return open_shown(path, shown, flags,
                    [&](const char* file) { return real_openat.get()(directory, file, flags, mode); });
}

BRDMA_HOOK int openat64(int directory, const char* path, int flags, ...) {
  BRDMA_MODE_ARGUMENT(flags)
  const ShownPath shown(path, BRDMA_CALLER);
  return open_shown(path, shown, flags,
                    [&](const char* file) { return real_openat64.get()(directory, file, flags, mode); });
}

BRDMA_HOOK int __open_2(const char* path, int flags) {
  const ShownPath shown(path, BRDMA_CALLER);
  return open_shown(path, shown, flags, [&](const char* file) { return real___open_2.get()(file, flags); });
}

BRDMA_HOOK int __open64_2(const char* path, int flags) {
  const ShownPath shown(path, BRDMA_CALLER);
  return open_shown(path, shown, flags, [&](const char* file) { return real___open64_2.get()(file, flags); });
}

BRDMA_HOOK int __openat_2(int directory, const char* path, int flags) {
  const ShownPath shown(path, BRDMA_CALLER);
  return open_shown(path, shown, flags,
                    [&](const char* file) { return real___openat_2.get()(directory, file, flags); });
}

BRDMA_HOOK int __openat64_2(int directory, const char* path, int flags) {
  const ShownPath shown(path, BRDMA_CALLER);
  return open_shown(path, shown, flags,
                    [&](const char* file) { return real___openat64_2.get()(directory, file, flags); });
}

BRDMA_HOOK FILE* fopen(const char* path, const char* mode) {
  const ShownPath shown(path, BRDMA_CALLER);
  return open_stream(path, shown, mode, [mode](const char* file) { return real_fopen.get()(file, mode); });
}

BRDMA_HOOK FILE* fopen64(const char* path, const char* mode) {
  const ShownPath shown(path, BRDMA_CALLER);
  return open_stream(path, shown, mode, [mode](const char* file) { return real_fopen64.get()(file, mode); });
}

BRDMA_HOOK FILE* freopen(const char* path, const char* mode, FILE* stream) {
  const ShownPath shown(path, BRDMA_CALLER);
  return real_freopen.get()(shown.get(), mode, stream);
}

BRDMA_HOOK FILE* freopen64(const char* path, const char* mode, FILE* stream) {
  const ShownPath shown(path, BRDMA_CALLER);
  return real_freopen64.get()(shown.get(), mode, stream);
}

BRDMA_HOOK int inotify_add_watch(int fd, const char* path, uint32_t mask) noexcept {
  const ShownPath shown(path, BRDMA_CALLER);
  return real_inotify_add_watch.get()(fd, shown.get(), mask);
}
