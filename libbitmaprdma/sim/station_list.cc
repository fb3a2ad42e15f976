#include "sim/station_list.h"

#include <utility>

namespace brdma::sim {

Station& StationList::add(std::unique_ptr<Station> station) {
  Station& added = *all_.emplace_back(std::move(station));
  added.number_ = static_cast<std::uint32_t>(all_.size() - 1);
  added.marked_ = &marked_;
  added.changed();
  if (added.runs_always()) restless_.push_back(added.number_);
  return added;
}

void StationList::update(std::uint32_t number, Instant now) { wakes_.set(number, all_[number]->next_wake(now), now); }

void StationList::take_marked(Instant now) {
  for (std::size_t i = 0; i < marked_.size(); ++i) {
    all_[marked_[i]]->is_marked_ = false;
    update(marked_[i], now);
  }
  marked_.clear();
}

std::optional<Instant> StationList::next(Instant now) {
  take_marked(now);
  for (std::uint32_t number = 0; !only_due_ && number < all_.size(); ++number) update(number, now);
  return wakes_.next();
}

void StationList::run_due(Instant now, FunctionRef<void(Station&)> run) {
  ran_.clear();
  for (std::size_t i = 0; !only_due_ && i < all_.size(); ++i) {
    run(*all_[i]);
    ran_.push_back(all_[i].get());
  }
  if (!only_due_) return;
  take_marked(now);
  for (const std::uint32_t number : restless_) wakes_.set(number, now, now);
  wakes_.begin_pass(now);
  while (const auto number = wakes_.next_due()) {
    run(*all_[*number]);
    ran_.push_back(all_[*number].get());
    update(*number, now);
    take_marked(now);
  }
}

}  // namespace brdma::sim
