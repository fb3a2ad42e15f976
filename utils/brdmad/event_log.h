// brdmad/event_log.h - what happened in the programs of this namespace, newest last: read from the rings in their
// statistics pages (trace/journal.h), and the daemon's own alarms. Bounded; the oldest give way, and are counted. Kinds
// that come with losses, or with the load, have lists of their own, or they would push out what an operator looks for.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "lease_book.h"
#include "trace/journal.h"

namespace brdma::daemon {

class EventLog {
 public:
  using Json = nlohmann::ordered_json;
  static constexpr std::size_t kEventsMax = 2048;  // of each list

  // Numbers go on where the worker before us stopped.
  explicit EventLog(LeaseBook& book) : book_(book) {}

  // Events of a lease, and how many more it had that nobody could read any more.
  void add(std::uint32_t slot, const std::vector<trace::EventRecord>& records, std::uint64_t missing);
  // One of the daemon's about a lease: "type" and what belongs to it.
  void add(std::uint32_t slot, const Json& event);
  // A lease that an earlier worker had: what that one had taken of its events went with it, and this is told.
  void add_adopted(std::uint32_t slot);

  [[nodiscard]] std::uint64_t newest() const { return book_.state().events_logged; }
  // Those with a number above `after`: {"events":[...],"newest":N,"missing":M}. `missing`: no longer here. `only`: of
  // that user's programs; they tell of PSNs.
  [[nodiscard]] Json after(std::uint64_t after, std::optional<std::uint32_t> only = std::nullopt) const;

 private:
  void push(std::uint32_t slot, std::int64_t unix_ns, const Json& event,
            trace::EventRate rate = trace::EventRate::kRare);

  struct Entry {
    std::uint32_t uid = 0;
    std::uint64_t number = 0;
    Json event;
  };

  LeaseBook& book_;
  std::array<std::deque<Entry>, 3> events_;  // [rate], each in the order of numbers
};

}  // namespace brdma::daemon
