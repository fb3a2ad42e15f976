#include "xdp/xdp_book.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "supervisor/handover.h"

namespace brdma::daemon {

const XdpSteering* XdpBook::find(std::uint32_t ifindex) const {
  const auto found = all_.find(ifindex);
  return found != all_.end() && found->second.is_attached_to(ifindex) ? &found->second : nullptr;
}

std::uint32_t XdpBook::leaving(std::uint32_t ifindex) const {
  const auto found = leaving_.find(ifindex);
  return found != leaving_.end() ? found->second : 0;
}

bool XdpBook::keep(std::uint32_t ifindex, XdpSteering steering) {
  if (!send_steering(channel_, ifindex, steering)) return false;
  all_.insert_or_assign(ifindex, std::move(steering));
  leaving_.erase(ifindex);
  return true;
}

bool XdpBook::forget_unused(const SharedState& state) {
  const auto slots_end = state.slots.begin() + state.slots_end;
  return std::erase_if(all_, [&](const auto& entry) {
           const std::uint32_t ifindex = entry.first;
           if (entry.second.orphaned) return false;
           const auto uses = [ifindex](const SlotRecord& record) {
             return has_lease(record) && record.xdp_ifindex == ifindex;
           };
           if (std::any_of(state.slots.begin(), slots_end, uses)) return false;
           leaving_[ifindex] = entry.second.program_id();
           static_cast<void>(send_no_steering(channel_, ifindex));
           return true;
         }) > 0;
}

void XdpBook::steer_extra(const SharedState& state) const {
  if (all_.empty()) return;
  const Lessees table = lessees(state);
  for (const auto& [ifindex, steering] : all_) {
    if (const Status done = steering.set_lessees(table); !done.ok())
      spdlog::error("steering of further slots to AF_XDP sockets: {}", std::strerror(done.error()));
  }
}

}  // namespace brdma::daemon
