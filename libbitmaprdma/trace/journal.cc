#include "trace/journal.h"

#include <algorithm>

namespace brdma::trace {
namespace {

template <class T>  // an enumeration too
void put(T& to, T value) {
  __atomic_store(&to, &value, __ATOMIC_RELAXED);
}
template <class T>
T get(const T& from) {
  T value;
  __atomic_load(&from, &value, __ATOMIC_RELAXED);
  return value;
}

unsigned most_in_period(EventRate rate) {
  switch (rate) {
    case EventRate::kWithLosses:
      return Journal::kWithLossesMax;
    case EventRate::kWithLoad:
      return Journal::kWithLoadMax;
    default:
      return Journal::kByHandMax;
  }
}

}  // namespace

// Limits a rate so that, until the daemon reads again, its events cannot overwrite rare ones.
bool Journal::admits(EventRate rate, Instant when) {
  if (rate == EventRate::kRare) return true;
  const std::uint64_t unread = get(ring_.head) - get(ring_.read);
  if (unread >= (rate == EventRate::kByHand ? EventRing::kRecords * 3 / 4 : EventRing::kRecords / 2)) return false;
  if (when >= period_end_) {
    period_end_ = when + kLimitPeriod;
    in_period_.fill(0);
  }
  return ++in_period_[static_cast<std::size_t>(rate)] <= most_in_period(rate);
}

void Journal::record(Instant when, std::uint32_t qpn, EventType type, std::array<std::uint64_t, 3> values) {
  if (!admits(kEventTypes[static_cast<std::size_t>(type)].rate, when)) {
    statistics_.add(Counter::kEventsSuppressed);
    return;
  }
  const std::uint64_t number = get(ring_.head) + 1;
  if (number > EventRing::kRecords && number - EventRing::kRecords > get(ring_.read)) {
    statistics_.add(Counter::kEventsOverwritten);
  }
  statistics_.add(Counter::kEventsRecorded);
  EventRecord& record = ring_.records[(number - 1) % EventRing::kRecords];
  put(record.number, std::uint64_t{0});
  __atomic_thread_fence(__ATOMIC_RELEASE);
  put(record.when_ns, when.ns());
  put(record.qpn, qpn);
  put(record.type, type);
  for (std::size_t i = 0; i < values.size(); ++i) put(record.values[i], values[i]);
  __atomic_store_n(&record.number, number, __ATOMIC_RELEASE);
  __atomic_store_n(&ring_.head, number, __ATOMIC_RELEASE);
}

std::uint64_t read_events(const EventRing& ring, std::uint64_t& read, std::vector<EventRecord>& out) {
  const std::uint64_t head = __atomic_load_n(&ring.head, __ATOMIC_ACQUIRE);
  std::uint64_t missing = 0;
  if (head < read) read = head;  // not a ring that we have read before
  if (head - read > EventRing::kRecords) {
    missing = head - read - EventRing::kRecords;
    read = head - EventRing::kRecords;
  }
  for (; read < head; ++read) {
    const EventRecord& live = ring.records[read % EventRing::kRecords];
    EventRecord copy;
    copy.number = __atomic_load_n(&live.number, __ATOMIC_ACQUIRE);
    copy.when_ns = get(live.when_ns);
    copy.qpn = get(live.qpn);
    copy.type = get(live.type);
    for (std::size_t i = 0; i < copy.values.size(); ++i) copy.values[i] = get(live.values[i]);
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    const bool whole = copy.number == read + 1 && get(live.number) == read + 1;
    if (whole && static_cast<std::size_t>(copy.type) < kEventTypeCount) {
      out.push_back(copy);
    } else {
      ++missing;
    }
  }
  return missing;
}

}  // namespace brdma::trace
