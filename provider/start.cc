// What happens when the library is loaded: nearly nothing. Preloaded into a program it waits for a path hook; loaded by
// libibverbs as a plugin (RDMAV_DRIVERS, a .driver file) it registers, which libibverbs expects of a constructor.
// And when the program ends: it may not have closed its devices.
#include "libibverbs.h"
#include "rdma_cm/server.h"
#include "shared_device.h"

namespace {

__attribute__((constructor)) void register_plugin() { brdma::provider::Libibverbs::register_with_loaded(); }

__attribute__((destructor)) void leave() {
  brdma::provider::leave_cm();
  brdma::provider::SharedDevice::leave_all();
}

}  // namespace
