// plugin/libibverbs.h - a copy of libibverbs in this process: its functions for plugins, our registration with it, and
// its layout. A process may hold several copies (an MPI or Python package with its own); each has its own layout.
#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "abi/abi.h"
#include "abi/layout.h"

namespace brdma::provider {

class Libibverbs {
 public:
  // Registers our driver with the copy that contains `address` (the caller of a hook), or else with the loader's
  // libibverbs.so.1. Does nothing where there is none or it has our driver already.
  static void register_with_caller(const void* address);
  static void register_with_loaded();
  // An address in the code of ibv_get_cq_event(), of a copy that has our driver.
  [[nodiscard]] static bool is_get_cq_event(const void* address);
  // The copy that made `device`.
  static Libibverbs& of(const ibv_device* device);

  // Probed with the first opened device; none: unknown, the reason went to standard error once.
  [[nodiscard]] const abi::Layout* layout(ibv_device* device);
  [[nodiscard]] const abi::CoreFunctions& core() const { return core_; }

 private:
  static void register_with(void* library, const char* file);
  bool find_functions(void* library, const char* file);
  void fill_device_ops();
  void find_get_cq_event(void* library);

  void* library_ = nullptr;
  int pabi_ = 0;
  abi::CoreFunctions core_;
  void (*register_driver_)(const void* device_ops) = nullptr;
  bool short_device_ops_ = false;  // releases 28 to 30
  std::array<std::uintptr_t, abi::kDeviceOpsSlots> device_ops_{};
  std::optional<abi::Layout> layout_;
  bool refused_ = false;
};

// One line on standard error, after our name.
void complain(const std::string& sentence);

}  // namespace brdma::provider
