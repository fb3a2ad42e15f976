#include "qp/queues/notify_write.h"

namespace brdma::qp {

void notify_write(Environment& env, const wire::Reth& reth, std::uint32_t qpn) {
  if (reth.length == 0) return;
  const MemoryRegion* const region = env.memory.find(reth.rkey);
  if (region == nullptr || !region->watched) return;
  if (env.notices.arrivals.size() >= kWriteArrivalsMax) return env.count(Counter::kWriteEventsLost);
  env.notices.arrivals.push_back(
      {.user = region->watcher, .address = reth.address, .length = reth.length, .qp_num = qpn});
  env.count(Counter::kWriteEvents);
}

}  // namespace brdma::qp
