#include "fabric/switch/flow_counters.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace brdma::fabric {

FlowCounters::FlowCounters(std::size_t flows_max) : entries_(std::bit_ceil(flows_max)) {
  BRDMA_CHECK(flows_max >= kProbesMax);
}

FlowCount& FlowCounters::of(const FiveTuple& flow, Instant now) {
  const auto first = static_cast<std::size_t>(flow.hash(0));
  Entry* place = nullptr;
  for (std::size_t i = 0; i < kProbesMax; ++i) {
    Entry& entry = entries_[(first + i) & (entries_.size() - 1)];
    if (!entry.used || entry.flow == flow) {
      place = &entry;
      break;
    }
    if (place == nullptr || entry.seen < place->seen) place = &entry;
  }
  if (!place->used || !(place->flow == flow)) {
    others_ += place->count;
    count_ += place->used ? 0 : 1;
    *place = Entry{flow, {}, now, true};
  }
  place->seen = now;
  return place->count;
}

std::vector<FlowCounters::Entry> FlowCounters::most(std::size_t count) const {
  std::vector<Entry> all;
  std::copy_if(entries_.begin(), entries_.end(), std::back_inserter(all), [](const Entry& e) { return e.used; });
  std::stable_sort(all.begin(), all.end(),
                   [](const Entry& a, const Entry& b) { return a.count.bytes > b.count.bytes; });
  if (all.size() > count) all.resize(count);
  return all;
}

}  // namespace brdma::fabric
