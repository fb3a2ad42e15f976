// Actions when the library is loaded: nearly none. Preloaded into a program it waits for a path hook; loaded by
// libibverbs as a plugin (RDMAV_DRIVERS, a .driver file) it registers, which libibverbs expects of a constructor. And
// when the program ends: it may not have closed its devices.
#include <dlfcn.h>

#include "context/shared_device.h"
#include "plugin/libibverbs.h"
#include "rdma_cm/server.h"

namespace {

// Another file of this library is linked or preloaded, and this one is a plugin by another path (RDMAV_DRIVERS). The
// other one owns the devices: the program calls it by name (bitmaprdma/write_events.h), and it would not know this
// one's contexts.
bool another_copy_serves() {
  static const char here = 0;
  Dl_info own{}, first{};
  void* const exported = ::dlsym(RTLD_DEFAULT, "brdma_create_write_channel");
  return exported != nullptr && ::dladdr(exported, &first) != 0 && ::dladdr(&here, &own) != 0 &&
         first.dli_fbase != own.dli_fbase;
}

__attribute__((constructor)) void register_plugin() {
  if (!another_copy_serves()) brdma::provider::Libibverbs::register_with_loaded();
}

__attribute__((destructor)) void leave() {
  brdma::provider::leave_cm();
  brdma::provider::SharedDevice::leave_all();
}

}  // namespace
