// Attaching UD queue pairs to multicast groups. Over RoCEv2 a group's GID is its IP multicast address.
#include <cerrno>

#include "address_handle.h"
#include "objects.h"
#include "verbs.h"

namespace brdma::provider::verbs {
extern "C" {

int attach_mcast(ibv_qp* ibv, const ibv_gid* gid, std::uint16_t) {
  const QueuePairObject& qp = object_of(ibv);
  return qp.context->attach_multicast(qp.engine, address_of(*gid)).error();
}

int detach_mcast(ibv_qp* ibv, const ibv_gid* gid, std::uint16_t) {
  const QueuePairObject& qp = object_of(ibv);
  return qp.context->detach_multicast(qp.engine, address_of(*gid)).error();
}

}  // extern "C"
}  // namespace brdma::provider::verbs
