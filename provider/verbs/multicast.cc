// Attaching UD queue pairs to multicast groups. Over RoCEv2 a group's GID is its IP multicast address.
#include <algorithm>
#include <mutex>
#include <vector>

#include "verbs/address_handle.h"
#include "verbs/objects.h"
#include "verbs/verbs.h"

namespace brdma::provider::verbs {
extern "C" {

int attach_mcast(ibv_qp* ibv, const ibv_gid* gid, std::uint16_t) {
  QueuePairObject& qp = object_of(ibv);
  const IpAddress group = address_of(*gid);
  const std::lock_guard held(device_of(ibv->context).objects());
  const Status attached = qp.context->attach_multicast(qp.engine, group);
  if (attached.ok() && std::ranges::find(qp.groups, group) == qp.groups.end()) qp.groups.push_back(group);
  return attached.error();
}

int detach_mcast(ibv_qp* ibv, const ibv_gid* gid, std::uint16_t) {
  QueuePairObject& qp = object_of(ibv);
  const IpAddress group = address_of(*gid);
  const std::lock_guard held(device_of(ibv->context).objects());
  const Status detached = qp.context->detach_multicast(qp.engine, group);
  if (detached.ok()) std::erase(qp.groups, group);
  return detached.error();
}

}  // extern "C"
}  // namespace brdma::provider::verbs
