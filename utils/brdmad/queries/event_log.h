// brdmad/queries/event_log.h - events of the programs of this namespace, newest last, read from the rings in their
// statistics pages (trace/journal.h), and the daemon's own alarms. Bounded; the oldest are dropped and counted. Event
// kinds whose rate grows with losses or load have lists of their own, so that they do not push out rare events.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "lease/lease_book.h"
#include "trace/journal.h"

namespace brdma::daemon {

class EventLog {
 public:
  using Json = nlohmann::ordered_json;
  static constexpr std::size_t kEventsMax = 2048;  // of each list

  // Numbers continue where the previous worker stopped.
  explicit EventLog(LeaseBook& book) : book_(book) {}

  // Events of a lease, and how many more were overwritten before anybody read them.
  void add(std::uint32_t slot, const std::vector<trace::EventRecord>& records, std::uint64_t missing);
  // An event of the daemon about a lease: "type" and its members.
  void add(std::uint32_t slot, const Json& event);
  // A lease of an earlier worker. The events that worker had taken are lost; an event reports this.
  void add_adopted(std::uint32_t slot);

  [[nodiscard]] std::uint64_t newest() const { return book_.state().events_logged; }
  // Events with a number above `after`: {"events":[...],"newest":N,"missing":M}. `missing`: dropped. `only`: limited to
  // that user's programs, because events contain PSNs.
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
  std::array<std::deque<Entry>, trace::kEventRateCount> events_;  // [rate], each in the order of numbers
};

}  // namespace brdma::daemon
