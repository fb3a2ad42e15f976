// Protection domains and memory regions.
#include <cerrno>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_set>
#include <vector>

#include "base/check.h"
#include "io/system/fault_handler.h"
#include "memory/guard.h"
#include "memory/memory_table.h"
#include "memory_regions/reachable.h"
#include "memory_regions/regions.h"
#include "verbs/objects.h"
#include "verbs/verbs.h"

namespace brdma::provider {
namespace verbs {
namespace {

static_assert(memory::kChangeTranslation == IBV_REREG_MR_CHANGE_TRANSLATION);
static_assert(memory::kChangeDomain == IBV_REREG_MR_CHANGE_PD && memory::kChangeAccess == IBV_REREG_MR_CHANGE_ACCESS);

// Real devices return EFAULT for memory that is not mapped or lacks the access rights.
bool may_register(const void* address, std::size_t length, int access) {
  return is_reachable(address, length, (access & kWrites) != 0 ? Access::kWrite : Access::kRead,
                      (access & IBV_ACCESS_ON_DEMAND) != 0 ? Pages::kAsTheyAre : Pages::kMayBeMade);
}

// The whole address space, as far as programs have one: a wilder address would not be recognised as missing memory.
#if defined(__x86_64__)
constexpr std::uint64_t kAddresses = std::uint64_t{1} << 47;
#else
constexpr std::uint64_t kAddresses = std::uint64_t{1} << 48;
#endif
bool is_implicit(const void* address, std::size_t length, int access) {
  return address == nullptr && length == SIZE_MAX && (access & IBV_ACCESS_ON_DEMAND) != 0;
}

std::uint32_t handle_of(const ProtectionDomainObject& pd) { return pd.core.handle; }
std::uint32_t handle_of(const MemoryRegionObject& mr) { return mr.core.mr.handle; }

// The object of a structure, which may be an imported one. Null: another structure's call has destroyed it, and
// another object may be at its address.
template <class Object>
Object* original_of(const std::unordered_set<Object*>& all, Object& given, std::uint32_t handle) {
  Object* const own = given.imported != nullptr ? given.imported : &given;
  return all.contains(own) && handle_of(*own) == handle ? own : nullptr;
}

// Queue pairs of any shard may use it.
bool in_use(Shards& shards, const ProtectionDomainObject& pd) {
  for (std::size_t i = 0; i < shards.size(); ++i) {
    if (Context::Session(shards[i]).engine().in_use(pd.engine[i])) return true;
  }
  return false;
}

}  // namespace
}  // namespace verbs

Status in_all(Shards& shards, const std::function<Status(Engine&, std::size_t)>& act) {
  const Status status = act(Context::Session(shards.first()).engine(), 0);
  for (std::size_t i = 1; status.ok() && i < shards.size(); ++i) {
    const Status likewise = act(Context::Session(shards[i]).engine(), i);
    BRDMA_CHECK(likewise.ok());
  }
  return status;
}

ibv_mr* add_region(ibv_pd* pd, const RegionOrigin& origin, const MakeRegion& make) {
  OpenDevice& device = device_of(pd->context);
  auto mr = std::make_unique<MemoryRegionObject>();
  MemoryRegionInfo keys;
  const Status status = in_all(device.shards(), [&](Engine& engine, std::size_t shard) {
    auto region = make(engine, object_of(pd).engine[shard]);
    if (!region) return region.reason();
    const MemoryRegionInfo here = engine.info(region.value());
    if (shard == 0) keys = here;
    BRDMA_CHECK(here.lkey == keys.lkey && here.rkey == keys.rkey);
    mr->engine.push_back(region.value());
    return Status::success();
  });
  if (!status.ok()) return fail<ibv_mr>(status.error());
  mr->core.mr = {.context = pd->context,
                 .pd = pd,
                 .addr = origin.address,
                 .length = origin.length,
                 .handle = device.next_handle(),
                 .lkey = keys.lkey,
                 .rkey = keys.rkey};
  mr->core.type = static_cast<std::uint32_t>(origin.type);
  mr->core.access = origin.access;
  mr->mapping = origin.mapping;
  mr->device_memory = origin.device_memory;
  device.undestroyed().regions.insert(mr.get());
  return &mr.release()->core.mr;
}

ibv_mr* add_region(ibv_pd* pd, const RegionOrigin& origin, const void* at, std::uint64_t iova) {
  const auto access = static_cast<std::uint32_t>(origin.access & ~verbs::kAccessHints);
  return add_region(pd, origin, [&](Engine& engine, ProtectionDomain* domain) {
    return engine.register_memory(domain, reinterpret_cast<std::uintptr_t>(at), origin.length, iova, access);
  });
}

namespace verbs {

extern "C" {

ibv_pd* alloc_pd(ibv_context* context) {
  OpenDevice& device = device_of(context);
  auto pd = std::make_unique<ProtectionDomainObject>();
  const std::lock_guard held(device.objects());
  for (std::size_t i = 0; i < device.shards().size(); ++i) {
    pd->engine.push_back(Context::Session(device.shards()[i]).engine().alloc_pd());
  }
  pd->core.context = context;
  pd->core.handle = device.next_handle();
  device.undestroyed().domains.insert(pd.get());
  return &pd.release()->core;
}

int dealloc_pd(ibv_pd* ibv) {
  OpenDevice& device = device_of(ibv->context);
  {
    const std::lock_guard held(device.objects());
    ProtectionDomainObject* const own = original_of(device.undestroyed().domains, object_of(ibv), ibv->handle);
    if (own == nullptr) return ENOENT;
    ProtectionDomainObject& pd = *own;
    if (pd.parents != 0 || pd.placed != 0) return EBUSY;
    if (pd.base != nullptr) {
      --pd.base->parents;
      if (pd.td != nullptr) --pd.td->parents;
    } else {
      if (in_use(device.shards(), pd)) return EBUSY;
      const Status status = in_all(
          device.shards(), [&](Engine& engine, std::size_t shard) { return engine.dealloc_pd(pd.engine[shard]); });
      if (!status.ok()) return status.error();
    }
    device.undestroyed().domains.erase(&pd);
  }
  delete &object_of(ibv);
  return 0;
}

ibv_mr* reg_mr(ibv_pd* ibv, void* address, std::size_t length, std::uint64_t iova, int access) {
  const bool implicit = is_implicit(address, length, access);
  if (implicit && (iova != 0 || (access & IBV_ACCESS_HUGETLB) != 0)) return fail<ibv_mr>(EINVAL);
  if (!implicit && !may_register(address, length, access)) return fail<ibv_mr>(EFAULT);
  io::keep_fault_handler();  // the program may have replaced it
  const RegionOrigin origin{.address = address, .length = length, .access = access};
  const std::uint64_t start = (access & IBV_ACCESS_ZERO_BASED) != 0 ? 0 : iova;
  const std::lock_guard held(device_of(ibv->context).objects());
  if (!implicit) return add_region(ibv, origin, address, start);
  return add_region(ibv, origin, [access](Engine& engine, ProtectionDomain* pd) {
    return engine.register_memory(pd, 0, kAddresses, 0, static_cast<std::uint32_t>(access & ~kAccessHints));
  });
}

// Changes the parts named by `flags`; keys stay. On failure nothing has changed.
int rereg_mr(abi::VerbsMr* ibv, int flags, ibv_pd* pd, void* address, std::size_t length, int access) {
  MemoryRegionObject& mr = object_of(ibv);
  if (ibv->type != static_cast<std::uint32_t>(RegionType::kMemory)) return EINVAL;
  if ((flags & IBV_REREG_MR_CHANGE_PD) != 0 && (pd == nullptr || pd->context != ibv->mr.context)) return EINVAL;
  const bool moves = (flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0;
  const int becomes = (flags & IBV_REREG_MR_CHANGE_ACCESS) != 0 ? access : ibv->access;
  if (moves && !may_register(address, length, becomes)) return EFAULT;
  if (!moves && becomes != ibv->access && !may_register(ibv->mr.addr, ibv->mr.length, becomes)) return EFAULT;
  const bool zero_based = becomes & IBV_ACCESS_ZERO_BASED;
  MemoryRegion to;
  to.address = reinterpret_cast<std::uintptr_t>(address);
  to.iova = zero_based ? 0 : to.address;
  to.length = length;
  to.access = static_cast<std::uint32_t>(access & ~kAccessHints);
  OpenDevice& device = device_of(ibv->mr.context);
  const std::lock_guard held(device.objects());
  const Status status = in_all(device.shards(), [&](Engine& engine, std::size_t shard) {
    to.pd = (flags & IBV_REREG_MR_CHANGE_PD) != 0 ? object_of(pd).engine[shard] : nullptr;
    return engine.change_memory(mr.engine[shard], static_cast<std::uint32_t>(flags), to);
  });
  if (status.ok() && (flags & IBV_REREG_MR_CHANGE_ACCESS) != 0) ibv->access = access;
  return status.error();
}

// Makes pages present by accessing them, as the data path would: at once, with and without IBV_ADVISE_MR_FLAG_FLUSH.
int advise_mr(ibv_pd* pd, ibv_advise_mr_advice advice, std::uint32_t flags, ibv_sge* list, std::uint32_t count) {
  if ((flags & ~static_cast<std::uint32_t>(IBV_ADVISE_MR_FLAG_FLUSH)) != 0 || count == 0) return EINVAL;
  if (advice > IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT) return EOPNOTSUPP;
  const bool writes = advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
  const std::span<ibv_sge> all(list, count);
  std::vector<std::byte*> places;
  {
    Context::Session session(device_of(pd->context).shards().first());
    for (const ibv_sge& each : all) {
      const auto place = session.engine().locate(object_of(pd).engine.front(), each.lkey, each.addr, each.length,
                                                 writes ? kAccessLocalWrite : 0);
      if (!place) return place.reason().error();
      places.push_back(place.value());
    }
  }
  if (advice == IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT) return 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool there =
        writes ? memory::can_write(places[i], all[i].length) : memory::can_read(places[i], all[i].length);
    if (!there) return EFAULT;
  }
  return 0;
}

int dereg_mr(abi::VerbsMr* ibv) {
  OpenDevice& device = device_of(ibv->mr.context);
  {
    const std::lock_guard held(device.objects());
    MemoryRegionObject* const own = original_of(device.undestroyed().regions, object_of(ibv), ibv->mr.handle);
    if (own == nullptr) return ENOENT;
    const Status status = in_all(device.shards(), [&](Engine& engine, std::size_t shard) {
      return engine.deregister_memory(own->engine[shard]);
    });
    if (!status.ok()) return status.error();
    if (own->watch != 0) device.write_watches().unwatch(own->watch);
    if (own->device_memory != nullptr) --own->device_memory->regions;
    device.undestroyed().regions.erase(own);
  }
  delete &object_of(ibv);
  return 0;
}

}  // extern "C"

}  // namespace verbs
}  // namespace brdma::provider
