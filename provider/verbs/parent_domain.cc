// Parent domains and thread domains: a program names the objects that one thread uses alone. Ours need no locks beyond
// the shards', so a parent domain is another name of its protection domain. A thread domain selects a shard for objects
// of its parent domains: queue pairs of threads with a domain each do not share a lock, as far as there are shards.
#include <cerrno>
#include <memory>
#include <mutex>

#include "verbs/objects.h"
#include "verbs/verbs.h"

namespace brdma::provider::verbs {
extern "C" {

ibv_td* alloc_td(ibv_context* context, ibv_td_init_attr* wanted) {
  if (wanted->comp_mask != 0) return fail<ibv_td>(EINVAL);
  auto td = std::make_unique<ThreadDomainObject>();
  td->core.context = context;
  OpenDevice& device = device_of(context);
  const std::lock_guard held(device.objects());
  td->shard = device.least_used_shard();
  device.put_into(td->shard);
  device.undestroyed().thread_domains.insert(td.get());
  return &td.release()->core;
}

int dealloc_td(ibv_td* ibv) {
  ThreadDomainObject& td = object_of(ibv);
  {
    OpenDevice& device = device_of(ibv->context);
    const std::lock_guard held(device.objects());
    if (td.parents != 0) return EBUSY;
    device.taken_from(td.shard);
    device.undestroyed().thread_domains.erase(&td);
  }
  delete &td;
  return 0;
}

// Memory that a program allows to share with a device outside a confidential guest need not be shared: there is none.
ibv_pd* alloc_parent_domain(ibv_context* context, ibv_parent_domain_init_attr* wanted) {
  constexpr std::uint32_t kKnown = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT |
                                   abi::kParentDomainAllowUnprotected;
  if ((wanted->comp_mask & ~kKnown) != 0) return fail<ibv_pd>(EINVAL);
  const bool allocates = (wanted->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) != 0;
  if (allocates && (wanted->alloc == nullptr || wanted->free == nullptr)) return fail<ibv_pd>(EINVAL);
  if (wanted->pd == nullptr || wanted->pd->context != context) return fail<ibv_pd>(EINVAL);
  if (wanted->td != nullptr && wanted->td->context != context) return fail<ibv_pd>(EINVAL);
  ProtectionDomainObject& named = object_of(wanted->pd);
  ProtectionDomainObject& given = named.imported != nullptr ? *named.imported : named;
  OpenDevice& device = device_of(context);
  auto parent = std::make_unique<ProtectionDomainObject>();
  parent->core.context = context;
  parent->core.handle = device.next_handle();
  parent->engine = given.engine;
  parent->base = given.base != nullptr ? given.base : &given;
  if (allocates) parent->allocators = {.alloc = wanted->alloc, .free = wanted->free};
  if ((wanted->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT) != 0)
    parent->allocators.context = wanted->pd_context;
  parent->td = wanted->td == nullptr ? nullptr : &object_of(wanted->td);
  const std::lock_guard held(device.objects());
  ++parent->base->parents;
  if (parent->td != nullptr) ++parent->td->parents;
  device.undestroyed().domains.insert(parent.get());
  return &parent.release()->core;
}

}  // extern "C"
}  // namespace brdma::provider::verbs
