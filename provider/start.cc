// What happens when the library is loaded: nearly nothing. Preloaded into a program it waits for a path hook; loaded by
// libibverbs as a plugin (RDMAV_DRIVERS, a .driver file) it registers, which libibverbs expects of a constructor.
#include "libibverbs.h"

namespace {

__attribute__((constructor)) void register_plugin() { brdma::provider::Libibverbs::register_with_loaded(); }

}  // namespace
