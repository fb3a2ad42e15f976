#include "fabric/controller/pending_installs.h"

namespace brdma::fabric::controller {

void PendingInstalls::add(SwitchIndex to, std::uint64_t epoch, Prefixes prefixes, Instant deadline) {
  installs_[{to, epoch}] = {std::move(prefixes), deadline};
}

std::optional<Prefixes> PendingInstalls::take(SwitchIndex from, std::uint64_t epoch) {
  const auto install = installs_.find({from, epoch});
  if (install == installs_.end()) return std::nullopt;
  Prefixes prefixes = std::move(install->second.prefixes);
  installs_.erase(install);
  return prefixes;
}

std::vector<Prefixes> PendingInstalls::take_all(SwitchIndex of) {
  std::vector<Prefixes> all;
  const auto first = installs_.lower_bound({of, 0});
  auto last = first;
  for (; last != installs_.end() && last->first.first == of; ++last) all.push_back(std::move(last->second.prefixes));
  installs_.erase(first, last);
  return all;
}

std::vector<SwitchIndex> PendingInstalls::overdue(Instant now) const {
  std::vector<SwitchIndex> silent;
  for (const auto& [order, install] : installs_) {
    if (install.deadline <= now) silent.push_back(order.first);
  }
  return silent;
}

std::optional<Instant> PendingInstalls::next_deadline() const {
  std::optional<Instant> next;
  for (const auto& [order, install] : installs_) {
    if (!next || install.deadline < *next) next = install.deadline;
  }
  return next;
}

}  // namespace brdma::fabric::controller
