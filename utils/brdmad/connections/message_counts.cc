#include "connections/message_counts.h"

namespace brdma::daemon {

void MessageCounts::count(Group group, Group again, const IpAddress& local, const IpAddress& remote,
                          const wire::CmMad& mad) {
  auto found = counts_.find(local);
  if (found == counts_.end()) {
    if (counts_.size() == kAddressesMax) return;
    found = counts_.try_emplace(local).first;
  }
  const std::size_t kind = mad.message.index();
  ++found->second[group][kind];
  const auto [at, is_new] = seen_.emplace(group, local, remote, mad.transaction, kind);
  if (!is_new) {
    ++found->second[again][kind];
    return;
  }
  recent_.push_back(at);
  if (recent_.size() <= kRecentMax) return;
  seen_.erase(recent_.front());
  recent_.pop_front();
}

}  // namespace brdma::daemon
