// Objects imported by their handle: second structures for objects of the same context, as for processes that share one.
// Destroying either destroys the object; the other structure is then of nothing (ENOENT), and is given back by
// unimporting it.
#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <mutex>

#include "memory_regions/regions.h"
#include "verbs/objects.h"
#include "verbs/verbs.h"

namespace brdma::provider::verbs {
namespace {

template <class Objects, class Handle>
auto find_by(const Objects& objects, std::uint32_t handle, const Handle& handle_of) -> typename Objects::value_type {
  const auto at = std::ranges::find_if(objects, [&](const auto& each) { return handle_of(*each) == handle; });
  return at == objects.end() ? nullptr : *at;
}

}  // namespace

extern "C" {

ibv_pd* import_pd(ibv_context* context, std::uint32_t handle) {
  OpenDevice& device = device_of(context);
  auto pd = std::make_unique<ProtectionDomainObject>();
  const std::lock_guard held(device.objects());
  ProtectionDomainObject* const found = find_by(device.undestroyed().domains, handle,
                                                [](const ProtectionDomainObject& each) { return each.core.handle; });
  if (found == nullptr) return fail<ibv_pd>(ENOENT);
  pd->core = {.context = context, .handle = handle};
  pd->engine = found->engine;
  pd->td = found->td;
  pd->imported = found;
  return &pd.release()->core;
}

void unimport_pd(ibv_pd* ibv) {
  if (object_of(ibv).imported != nullptr) delete &object_of(ibv);
}

ibv_mr* import_mr(ibv_pd* pd, std::uint32_t handle) {
  OpenDevice& device = device_of(pd->context);
  auto mr = std::make_unique<MemoryRegionObject>();
  const std::lock_guard held(device.objects());
  MemoryRegionObject* const found =
      find_by(device.undestroyed().regions, handle, [](const MemoryRegionObject& each) { return each.core.mr.handle; });
  if (found == nullptr) return fail<ibv_mr>(ENOENT);
  const ibv_mr& theirs = found->core.mr;
  mr->core.mr = {.context = pd->context,
                 .pd = pd,
                 .addr = nullptr,
                 .length = theirs.length,
                 .handle = handle,
                 .lkey = theirs.lkey,
                 .rkey = theirs.rkey};
  mr->core.type = static_cast<std::uint32_t>(RegionType::kImported);
  mr->core.access = found->core.access;
  mr->imported = found;
  return &mr.release()->core.mr;
}

void unimport_mr(ibv_mr* ibv) {
  MemoryRegionObject& mr = object_of(reinterpret_cast<abi::VerbsMr*>(ibv));
  if (mr.imported != nullptr) delete &mr;
}

ibv_dm* import_dm(ibv_context* context, std::uint32_t handle) {
  OpenDevice& device = device_of(context);
  const std::lock_guard held(device.objects());
  const auto found =
      find_by(device.undestroyed().device_memories, handle, [](const DeviceMemory& each) { return each.handle; });
  if (found == nullptr) return fail<ibv_dm>(ENOENT);
  return make_device_memory_object(context, found, true);
}

void unimport_dm(ibv_dm* ibv) {
  if (object_of(ibv).imported) delete &object_of(ibv);
}

}  // extern "C"

}  // namespace brdma::provider::verbs
