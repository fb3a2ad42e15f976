// Hooks: reading of directories. Only the list of devices ever differs from the kernel's (device_order.h).
#include <dirent.h>

#include "device_files/device_order.h"
#include "preload/real.h"
#include "preload/view.h"

using brdma::preload::ShownPath;

namespace {

BRDMA_REAL(opendir);
BRDMA_REAL(readdir);
BRDMA_REAL(readdir64);
BRDMA_REAL(rewinddir);
BRDMA_REAL(closedir);

// Never destroyed: hooks run until the very end of the process.
brdma::preload::OrderedStreams& streams() {
  static auto* const instance = new brdma::preload::OrderedStreams;
  return *instance;
}

static_assert(sizeof(dirent) == sizeof(dirent64), "one layout, as with every 64-bit system");

}  // namespace

BRDMA_HOOK DIR* opendir(const char* path) {
  const ShownPath shown(path, BRDMA_CALLER);
  DIR* const stream = real_opendir.get()(shown.get());
  if (stream != nullptr && shown.is_device_list())
    streams().add(stream, brdma::preload::device_order(), real_readdir64.get());
  return stream;
}

BRDMA_HOOK dirent* readdir(DIR* stream) {
  dirent64* entry = nullptr;
  return streams().next(stream, entry) ? reinterpret_cast<dirent*>(entry) : real_readdir.get()(stream);
}

BRDMA_HOOK dirent64* readdir64(DIR* stream) {
  dirent64* entry = nullptr;
  return streams().next(stream, entry) ? entry : real_readdir64.get()(stream);
}

BRDMA_HOOK void rewinddir(DIR* stream) noexcept {
  streams().rewind(stream);
  real_rewinddir.get()(stream);
}

BRDMA_HOOK int closedir(DIR* stream) {
  streams().remove(stream);
  return real_closedir.get()(stream);
}
