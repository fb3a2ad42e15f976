// Hooks: queries of a path without opening it.
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "preload/descriptors.h"
#include "preload/real.h"
#include "preload/sysfs.h"
#include "preload/view.h"

using brdma::preload::as_sysfs;
using brdma::preload::ShownPath;

// Compiler-made calls, and those of programs built against a glibc older than 2.33; declared nowhere.
extern "C" {
int __xstat(int version, const char* path, struct stat* out);
int __xstat64(int version, const char* path, struct stat64* out);
int __lxstat(int version, const char* path, struct stat* out);
int __lxstat64(int version, const char* path, struct stat64* out);
int __fxstat(int version, int fd, struct stat* out);
int __fxstat64(int version, int fd, struct stat64* out);
int __fxstatat(int version, int directory, const char* path, struct stat* out, int flags);
int __fxstatat64(int version, int directory, const char* path, struct stat64* out, int flags);
ssize_t __readlink_chk(const char* path, char* out, size_t bytes, size_t room);
ssize_t __readlinkat_chk(int directory, const char* path, char* out, size_t bytes, size_t room);
char* __realpath_chk(const char* path, char* out, size_t room);
}

namespace {

BRDMA_REAL(stat);
BRDMA_REAL(stat64);
BRDMA_REAL(lstat);
BRDMA_REAL(lstat64);
BRDMA_REAL(fstat);
BRDMA_REAL(fstat64);
BRDMA_REAL(__fxstat);
BRDMA_REAL(__fxstat64);
BRDMA_REAL(fstatat);
BRDMA_REAL(fstatat64);
BRDMA_REAL(statx);
BRDMA_REAL(__xstat);
BRDMA_REAL(__xstat64);
BRDMA_REAL(__lxstat);
BRDMA_REAL(__lxstat64);
BRDMA_REAL(__fxstatat);
BRDMA_REAL(__fxstatat64);
BRDMA_REAL(access);
BRDMA_REAL(faccessat);
BRDMA_REAL(euidaccess);
BRDMA_REAL(eaccess);
BRDMA_REAL(readlink);
BRDMA_REAL(readlinkat);
BRDMA_REAL(__readlink_chk);
BRDMA_REAL(__readlinkat_chk);
BRDMA_REAL_VERSION(realpath, "GLIBC_2.3");
BRDMA_REAL(__realpath_chk);
BRDMA_REAL(canonicalize_file_name);
BRDMA_REAL(chdir);
BRDMA_REAL(getxattr);
BRDMA_REAL(lgetxattr);
BRDMA_REAL(listxattr);
BRDMA_REAL(llistxattr);

// librdmacm checks that its file is a character device; an event channel is none.
template <class Stat>
int as_node(int fd, Stat* out, int result) {
  if (result == 0 && brdma::preload::node_marks.node(fd) == brdma::preload::Node::kRdmaCm) [[unlikely]] {
    out->st_mode = (out->st_mode & ~static_cast<mode_t>(S_IFMT)) | S_IFCHR;
  }
  return as_sysfs(result, out);
}

// Where the kernel's links would lead.
char* as_written(char* path) {
  brdma::preload::hide_tree(path);
  return path;
}

}  // namespace

BRDMA_HOOK int fstat(int fd, struct stat* out) noexcept { return as_node(fd, out, real_fstat.get()(fd, out)); }
BRDMA_HOOK int fstat64(int fd, struct stat64* out) noexcept { return as_node(fd, out, real_fstat64.get()(fd, out)); }
BRDMA_HOOK int __fxstat(int version, int fd, struct stat* out) {
  return as_node(fd, out, real___fxstat.get()(version, fd, out));
}
BRDMA_HOOK int __fxstat64(int version, int fd, struct stat64* out) {
  return as_node(fd, out, real___fxstat64.get()(version, fd, out));
}

BRDMA_HOOK int stat(const char* path, struct stat* out) noexcept {
  const ShownPath shown(path, BRDMA_CALLER);
  return as_sysfs(real_stat.get()(shown.get(), out), out);
}

BRDMA_HOOK int stat64(const char* path, struct stat64* out) noexcept {
  const ShownPath shown(path, BRDMA_CALLER);
  return as_sysfs(real_stat64.get()(shown.get(), out), out);
}

BRDMA_HOOK int lstat(const char* path, struct stat* out) noexcept {
  const ShownPath shown(path, BRDMA_CALLER);
  return as_sysfs(real_lstat.get()(shown.get(), out), out);
}

BRDMA_HOOK int lstat64(const char* path, struct stat64* out) noexcept {
  const ShownPath shown(path, BRDMA_CALLER);
  return as_sysfs(real_lstat64.get()(shown.get(), out), out);
}

BRDMA_HOOK int fstatat(int directory, const char* path, struct stat* out, int flags) noexcept {
  const ShownPath shown(path, BRDMA_CALLER);
  return as_sysfs(real_fstatat.get()(directory, shown.get(), out, flags), out);
}

BRDMA_HOOK int fstatat64(int directory, const char* path, struct stat64* out, int flags) noexcept {
  const ShownPath shown(path, BRDMA_CALLER);
  return as_sysfs(real_fstatat64.get()(directory, shown.get(), out, flags), out);
}

BRDMA_HOOK int statx(int directory, const char* path, int flags, unsigned mask, struct statx* out) noexcept {
  const ShownPath shown(path, BRDMA_CALLER);
  return as_sysfs(real_statx.get()(directory, shown.get(), flags, mask, out), out);
}

BRDMA_HOOK int __xstat(int version, const char* path, struct stat* out) {
  const ShownPath shown(path, BRDMA_CALLER);
  return as_sysfs(real___xstat.get()(version, shown.get(), out), out);
}

BRDMA_HOOK int __xstat64(int version, const char* path, struct stat64* out) {
  const ShownPath shown(path, BRDMA_CALLER);
  return as_sysfs(real___xstat64.get()(version, shown.get(), out), out);
}

BRDMA_HOOK int __lxstat(int version, const char* path, struct stat* out) {
  const ShownPath shown(path, BRDMA_CALLER);
  return as_sysfs(real___lxstat.get()(version, shown.get(), out), out);
}

BRDMA_HOOK int __lxstat64(int version, const char* path, struct stat64* out) {
  const ShownPath shown(path, BRDMA_CALLER);
  return as_sysfs(real___lxstat64.get()(version, shown.get(), out), out);
}

BRDMA_HOOK int __fxstatat(int version, int directory, const char* path, struct stat* out, int flags) {
  const ShownPath shown(path, BRDMA_CALLER);
  return as_sysfs(real___fxstatat.get()(version, directory, shown.get(), out, flags), out);
}

BRDMA_HOOK int __fxstatat64(int version, int directory, const char* path, struct stat64* out, int flags) {
  const ShownPath shown(path, BRDMA_CALLER);
  return as_sysfs(real___fxstatat64.get()(version, directory, shown.get(), out, flags), out);
}

BRDMA_HOOK int access(const char* path, int mode) noexcept {
  const ShownPath shown(path, BRDMA_CALLER);
  return real_access.get()(shown.get(), mode);
}

BRDMA_HOOK int faccessat(int directory, const char* path, int mode, int flags) noexcept {
  const ShownPath shown(path, BRDMA_CALLER);
  return real_faccessat.get()(directory, shown.get(), mode, flags);
}

BRDMA_HOOK int euidaccess(const char* path, int mode) noexcept {
  const ShownPath shown(path, BRDMA_CALLER);
  return real_euidaccess.get()(shown.get(), mode);
}

BRDMA_HOOK int eaccess(const char* path, int mode) noexcept {
  const ShownPath shown(path, BRDMA_CALLER);
  return real_eaccess.get()(shown.get(), mode);
}

BRDMA_HOOK ssize_t readlink(const char* path, char* out, size_t bytes) noexcept {
  const ShownPath shown(path, BRDMA_CALLER);
  return real_readlink.get()(shown.get(), out, bytes);
}

BRDMA_HOOK ssize_t readlinkat(int directory, const char* path, char* out, size_t bytes) noexcept {
  const ShownPath shown(path, BRDMA_CALLER);
  return real_readlinkat.get()(directory, shown.get(), out, bytes);
}

BRDMA_HOOK ssize_t __readlink_chk(const char* path, char* out, size_t bytes, size_t room) {
  const ShownPath shown(path, BRDMA_CALLER);
  return real___readlink_chk.get()(shown.get(), out, bytes, room);
}

BRDMA_HOOK ssize_t __readlinkat_chk(int directory, const char* path, char* out, size_t bytes, size_t room) {
  const ShownPath shown(path, BRDMA_CALLER);
  return real___readlinkat_chk.get()(directory, shown.get(), out, bytes, room);
}

BRDMA_HOOK char* realpath(const char* path, char* out) noexcept {
  const ShownPath shown(path, BRDMA_CALLER);
  return as_written(real_realpath.get()(shown.get(), out));
}

BRDMA_HOOK char* __realpath_chk(const char* path, char* out, size_t room) {
  const ShownPath shown(path, BRDMA_CALLER);
  return as_written(real___realpath_chk.get()(shown.get(), out, room));
}

BRDMA_HOOK char* canonicalize_file_name(const char* path) noexcept {
  const ShownPath shown(path, BRDMA_CALLER);
  return as_written(real_canonicalize_file_name.get()(shown.get()));
}

BRDMA_HOOK int chdir(const char* path) noexcept {
  const ShownPath shown(path, BRDMA_CALLER);
  return real_chdir.get()(shown.get());
}

// ls -l queries access control lists.
BRDMA_HOOK ssize_t getxattr(const char* path, const char* name, void* out, size_t bytes) noexcept {
  const ShownPath shown(path, BRDMA_CALLER);
  return real_getxattr.get()(shown.get(), name, out, bytes);
}

BRDMA_HOOK ssize_t lgetxattr(const char* path, const char* name, void* out, size_t bytes) noexcept {
  const ShownPath shown(path, BRDMA_CALLER);
  return real_lgetxattr.get()(shown.get(), name, out, bytes);
}

BRDMA_HOOK ssize_t listxattr(const char* path, char* out, size_t bytes) noexcept {
  const ShownPath shown(path, BRDMA_CALLER);
  return real_listxattr.get()(shown.get(), out, bytes);
}

BRDMA_HOOK ssize_t llistxattr(const char* path, char* out, size_t bytes) noexcept {
  const ShownPath shown(path, BRDMA_CALLER);
  return real_llistxattr.get()(shown.get(), out, bytes);
}
