// Hooks: functions that walk directories inside libc, past the hooks of opendir and stat. Only the start is rewritten;
// the names that ftw() gives are in our tree, where later calls find them.
#include <dirent.h>
#include <ftw.h>
#include <glob.h>

#include "preload/real.h"
#include "preload/view.h"

using brdma::preload::ShownPath;

namespace {

using Filter = int (*)(const dirent*);
using Filter64 = int (*)(const dirent64*);
using Compare = int (*)(const dirent**, const dirent**);
using Compare64 = int (*)(const dirent64**, const dirent64**);
using GlobError = int (*)(const char*, int);

BRDMA_REAL(scandir);
BRDMA_REAL(scandir64);
BRDMA_REAL(scandirat);
BRDMA_REAL(scandirat64);
BRDMA_REAL_VERSION(glob, "GLIBC_2.27");
BRDMA_REAL_VERSION(glob64, "GLIBC_2.27");
BRDMA_REAL(ftw);
BRDMA_REAL(ftw64);
BRDMA_REAL_VERSION(nftw, "GLIBC_2.3.3");
BRDMA_REAL_VERSION(nftw64, "GLIBC_2.3.3");

template <class Glob>
void hide_trees(const Glob& found) {
  for (std::size_t i = 0; i < found.gl_pathc; ++i) brdma::preload::hide_tree(found.gl_pathv[found.gl_offs + i]);
}

}  // namespace

BRDMA_HOOK int scandir(const char* path, dirent*** names, Filter filter, Compare compare) {
  const ShownPath shown(path, BRDMA_CALLER);
  return real_scandir.get()(shown.get(), names, filter, compare);
}

BRDMA_HOOK int scandir64(const char* path, dirent64*** names, Filter64 filter, Compare64 compare) {
  const ShownPath shown(path, BRDMA_CALLER);
  return real_scandir64.get()(shown.get(), names, filter, compare);
}

BRDMA_HOOK int scandirat(int directory, const char* path, dirent*** names, Filter filter, Compare compare) {
  const ShownPath shown(path, BRDMA_CALLER);
  return real_scandirat.get()(directory, shown.get(), names, filter, compare);
}

BRDMA_HOOK int scandirat64(int directory, const char* path, dirent64*** names, Filter64 filter, Compare64 compare) {
  const ShownPath shown(path, BRDMA_CALLER);
  return real_scandirat64.get()(directory, shown.get(), names, filter, compare);
}

BRDMA_HOOK int glob(const char* pattern, int flags, GlobError on_error, glob_t* out) noexcept {
  const ShownPath shown(pattern, BRDMA_CALLER);
  const int result = real_glob.get()(shown.get(), flags, on_error, out);
  if (result == 0 && shown.is_ours()) hide_trees(*out);
  return result;
}

BRDMA_HOOK int glob64(const char* pattern, int flags, GlobError on_error, glob64_t* out) noexcept {
  const ShownPath shown(pattern, BRDMA_CALLER);
  const int result = real_glob64.get()(shown.get(), flags, on_error, out);
  if (result == 0 && shown.is_ours()) hide_trees(*out);
  return result;
}

BRDMA_HOOK int ftw(const char* path, __ftw_func_t visit, int descriptors) {
  const ShownPath shown(path, BRDMA_CALLER);
  return real_ftw.get()(shown.get(), visit, descriptors);
}

BRDMA_HOOK int ftw64(const char* path, __ftw64_func_t visit, int descriptors) {
  const ShownPath shown(path, BRDMA_CALLER);
  return real_ftw64.get()(shown.get(), visit, descriptors);
}

BRDMA_HOOK int nftw(const char* path, __nftw_func_t visit, int descriptors, int flags) {
  const ShownPath shown(path, BRDMA_CALLER);
  return real_nftw.get()(shown.get(), visit, descriptors, flags);
}

BRDMA_HOOK int nftw64(const char* path, __nftw64_func_t visit, int descriptors, int flags) {
  const ShownPath shown(path, BRDMA_CALLER);
  return real_nftw64.get()(shown.get(), visit, descriptors, flags);
}
