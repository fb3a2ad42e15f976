// Protection domains and memory regions.
#include <cerrno>
#include <functional>
#include <memory>
#include <mutex>
#include <span>

#include "base/check.h"
#include "io/system/fault_handler.h"
#include "memory/memory_table.h"
#include "memory_regions/reachable.h"
#include "verbs/objects.h"
#include "verbs/verbs.h"

namespace brdma::provider::verbs {
namespace {

static_assert(memory::kChangeTranslation == IBV_REREG_MR_CHANGE_TRANSLATION);
static_assert(memory::kChangeDomain == IBV_REREG_MR_CHANGE_PD && memory::kChangeAccess == IBV_REREG_MR_CHANGE_ACCESS);

// As in the kernel (ib_access_writable): memory that may be bound to a window may be written through it.
constexpr int kWrites =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND;

// Real devices return EFAULT for memory that is not mapped or lacks the access rights.
bool may_register(const void* address, std::size_t length, int access) {
  return is_reachable(address, length, (access & kWrites) != 0 ? Access::kWrite : Access::kRead,
                      (access & IBV_ACCESS_ON_DEMAND) != 0 ? Pages::kAsTheyAre : Pages::kMayBeMade);
}

// In every shard, one after the other; SharedDevice::objects() held. Their tables see the same calls, so all refuse
// alike.
Status in_all(Shards& shards, const std::function<Status(Engine&, std::size_t)>& act) {
  const Status status = act(Context::Session(shards.first()).engine(), 0);
  for (std::size_t i = 1; status.ok() && i < shards.size(); ++i) {
    const Status likewise = act(Context::Session(shards[i]).engine(), i);
    BRDMA_CHECK(likewise.ok());
  }
  return status;
}

// Queue pairs of any shard may use it.
bool in_use(Shards& shards, const ProtectionDomainObject& pd) {
  for (std::size_t i = 0; i < shards.size(); ++i) {
    if (Context::Session(shards[i]).engine().in_use(pd.engine[i])) return true;
  }
  return false;
}

}  // namespace

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
  ProtectionDomainObject& pd = object_of(ibv);
  OpenDevice& device = device_of(ibv->context);
  {
    const std::lock_guard held(device.objects());
    if (pd.parents != 0) return EBUSY;
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
  delete &pd;
  return 0;
}

ibv_mr* reg_mr(ibv_pd* ibv, void* address, std::size_t length, std::uint64_t iova, int access) {
  OpenDevice& device = device_of(ibv->context);
  if (!may_register(address, length, access)) return fail<ibv_mr>(EFAULT);
  io::keep_fault_handler();  // the program may have replaced it
  auto mr = std::make_unique<MemoryRegionObject>();
  const std::uint64_t start = (access & IBV_ACCESS_ZERO_BASED) != 0 ? 0 : iova;
  const auto bits = static_cast<std::uint32_t>(access & ~kAccessHints);
  MemoryRegionInfo keys;
  const std::lock_guard held(device.objects());
  const Status status = in_all(device.shards(), [&](Engine& engine, std::size_t shard) {
    auto region = engine.register_memory(object_of(ibv).engine[shard], reinterpret_cast<std::uintptr_t>(address),
                                         length, start, bits);
    if (!region) return region.reason();
    const MemoryRegionInfo here = engine.info(region.value());
    if (shard == 0) keys = here;
    BRDMA_CHECK(here.lkey == keys.lkey && here.rkey == keys.rkey);
    mr->engine.push_back(region.value());
    return Status::success();
  });
  if (!status.ok()) return fail<ibv_mr>(status.error());
  mr->core.mr.handle = device.next_handle();
  mr->core.mr.lkey = keys.lkey;
  mr->core.mr.rkey = keys.rkey;
  mr->core.access = access;
  device.undestroyed().regions.insert(mr.get());
  return &mr.release()->core.mr;
}

// Changes the parts named by `flags`; keys stay. On failure nothing has changed.
int rereg_mr(abi::VerbsMr* ibv, int flags, ibv_pd* pd, void* address, std::size_t length, int access) {
  MemoryRegionObject& mr = object_of(ibv);
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

// Pages are mapped at the first access, by anyone: only check the arguments.
int advise_mr(ibv_pd* pd, ibv_advise_mr_advice advice, std::uint32_t flags, ibv_sge* list, std::uint32_t count) {
  if ((flags & ~static_cast<std::uint32_t>(IBV_ADVISE_MR_FLAG_FLUSH)) != 0) return EINVAL;
  if (advice > IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT) return EOPNOTSUPP;
  const std::uint32_t needed = advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE ? kAccessLocalWrite : 0;
  Context::Session session(device_of(pd->context).shards().first());
  for (const ibv_sge& each : std::span(list, count)) {
    if (!session.engine().covers(object_of(pd).engine.front(), each.lkey, each.addr, each.length, needed))
      return EFAULT;
  }
  return 0;
}

int dereg_mr(abi::VerbsMr* ibv) {
  MemoryRegionObject& mr = object_of(ibv);
  OpenDevice& device = device_of(ibv->mr.context);
  {
    const std::lock_guard held(device.objects());
    const Status status = in_all(
        device.shards(), [&](Engine& engine, std::size_t shard) { return engine.deregister_memory(mr.engine[shard]); });
    if (!status.ok()) return status.error();
    if (mr.watch != 0) device.write_watches().unwatch(mr.watch);
    device.undestroyed().regions.erase(&mr);
  }
  delete &mr;
  return 0;
}

}  // extern "C"

}  // namespace brdma::provider::verbs
