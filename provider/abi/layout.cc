#include "abi/layout.h"

#include <cstdlib>
#include <cstring>
#include <vector>

#include "abi/abi.h"

namespace brdma::provider::abi {
namespace {

template <class T>
T load(const void* base, std::size_t offset) {
  T value;
  std::memcpy(&value, static_cast<const std::byte*>(base) + offset, sizeof value);
  return value;
}

// Known: 320 to 368. Searched well beyond, since the structure grows.
constexpr std::size_t kContextOffsetMin = 64, kContextOffsetMax = 1536;

std::optional<std::size_t> find_context(const void* verbs_context, const void* device) {
  for (std::size_t offset = kContextOffsetMin; offset <= kContextOffsetMax; offset += 8) {
    if (load<std::size_t>(verbs_context, offset - kContextSizeBefore) == offset + kContextBytes &&
        load<const void*>(verbs_context, offset) == device) {
      return offset;
    }
  }
  return std::nullopt;
}

// Each slot holds its own index plus one, so that an untouched public operation is not taken for index 0.
std::optional<int> find_release(const CoreFunctions& core, void* verbs_context, std::size_t context_offset, int pabi) {
  std::array<std::uintptr_t, kOpsMax> numbers{};
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = i + 1;
  core.set_ops(verbs_context, numbers.data());
  const auto poll_cq = load<std::uintptr_t>(verbs_context, context_offset + kPublicPollCq);
  const auto req_notify_cq = load<std::uintptr_t>(verbs_context, context_offset + kPublicReqNotifyCq);
  if (poll_cq == 0 || poll_cq > kOpsMax || req_notify_cq == 0 || req_notify_cq > kOpsMax) return std::nullopt;
  return release_of_table(poll_cq - 1, req_notify_cq - 1, pabi);
}

// comp_mask and, behind it, the last member of struct verbs_qp: a pointer.
constexpr std::size_t kAfterQpCommon = 16;

std::optional<std::size_t> find_qp_comp_mask(const CoreFunctions& core) {
  for (std::size_t offset = sizeof(ibv_qp); offset + kAfterQpCommon <= kQpReserve; offset += 4) {
    alignas(16) std::array<std::byte, kObjectReserve> qp{};
    std::memcpy(qp.data() + offset, &kVerbsQpEx, sizeof kVerbsQpEx);
    if (core.qp_to_qp_ex(qp.data()) != nullptr) return offset;
  }
  return std::nullopt;
}

std::string unknown(const std::string& what) {
  return "this libibverbs has " + what +
         " that libbitmaprdma does not know (it knows rdma-core 28 to 65): update libbitmaprdma";
}

}  // namespace

Result<Layout, std::string> probe_layout(const CoreFunctions& core, void* device, int pabi) {
  // Without a command descriptor: the library's own test of the kernel's features fails, which is fine here.
  void* scratch = core.init_and_alloc_context(device, -1, kContextAllocation, nullptr, 0);
  if (scratch == nullptr) return std::string("libibverbs could not allocate a context: out of memory?");
  Layout layout;
  const auto context_offset = find_context(scratch, device);
  const auto release = context_offset ? find_release(core, scratch, *context_offset, pabi) : std::nullopt;
  core.uninit_context(scratch);
  std::free(scratch);  // made by the library with calloc
  if (!context_offset) return unknown("a layout of struct verbs_context");
  if (!release) return unknown("a table of operations");
  const auto qp_comp_mask = find_qp_comp_mask(core);
  if (!qp_comp_mask) return unknown("a layout of struct verbs_qp");
  layout.context_offset = *context_offset;
  layout.release = *release;
  layout.qp_comp_mask = *qp_comp_mask;
  return layout;
}

}  // namespace brdma::provider::abi
