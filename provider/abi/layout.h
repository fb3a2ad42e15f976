// abi/layout.h - probes the layout of the loaded libibverbs for plugins, through the library itself. One binary works
// with every release from 28 on; an unknown layout is refused, with a sentence.
//
//   1. ibv_context inside verbs_context: in a scratch context, at the place where the structure's size is right before
//      a pointer to the device.
//   2. The operation table: the scratch context gets a table of 256 numbers; the numbers that the library copied to
//      the public poll_cq and req_notify_cq identify the release.
//   3. The flags of an extended queue pair: ibv_qp_to_qp_ex() returns non-null exactly when they are set.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "abi/op_table.h"
#include "base/result.h"

namespace brdma::provider::abi {

// Functions that the library exports to plugins; looked up by name, as their versions bind to one PABI.
struct CoreFunctions {
  void* (*init_and_alloc_context)(void* device, int cmd_fd, std::size_t bytes, void* offset,
                                  std::uint32_t driver_id) = nullptr;
  void (*set_ops)(void* verbs_context, const void* ops) = nullptr;
  void (*uninit_context)(void* verbs_context) = nullptr;
  void* (*qp_to_qp_ex)(void* qp) = nullptr;
};

struct Layout {
  int release = 0;                 // first release with this operation table
  std::size_t context_offset = 0;  // of ibv_context in verbs_context
  std::size_t qp_comp_mask = 0;    // of the flags in verbs_qp
};

// Bytes for a context of any release; the space after ibv_context is ours.
inline constexpr std::size_t kContextAllocation = 4096;

// `device` is the struct verbs_device to open. Leaves nothing behind. Error: the unknown part and the remedy.
[[nodiscard]] Result<Layout, std::string> probe_layout(const CoreFunctions& core, void* device, int pabi);

// A table of operations laid out for one release.
class OpTable {
 public:
  explicit OpTable(int release) : release_(release) {}
  // An operation that this release lacks is left out: nobody can call it.
  template <class Function>
  void set(std::string_view name, Function* function) {
    if (const auto index = op_index(name, release_)) slots_[*index] = reinterpret_cast<void*>(function);
  }
  [[nodiscard]] const void* data() const { return slots_.data(); }

 private:
  int release_;
  std::array<void*, kOpsMax> slots_{};
};

}  // namespace brdma::provider::abi
