#include "queries/event_log.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <string>
#include <string_view>

#include "process/unix_time.h"
#include "recovery/gap_judge.h"

namespace brdma::daemon {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<std::string_view, 7> kStates{"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
constexpr std::array<std::string_view, 2> kSides{"send", "receive"};
constexpr std::array<std::string_view, 2> kLimits{"recovery.qps_max", "recovery.device_state_bytes_max"};

// The engines' clock is CLOCK_MONOTONIC, one for the machine.
std::int64_t monotonic_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

template <std::size_t N>
Json named(const std::array<std::string_view, N>& names, std::uint64_t value) {
  return value < N ? Json(names[value]) : Json(value);
}

// A value in readable form. It comes from another process: any number is possible.
Json value_json(trace::EventType type, std::size_t place, std::uint64_t value) {
  if (type == trace::EventType::kQpState) return named(kStates, value);
  if (type == trace::EventType::kLimitReached && place == 0) return named(kLimits, value);
  if ((type == trace::EventType::kWindowGrown || type == trace::EventType::kWindowShrunk) && place == 0) {
    return named(kSides, value);
  }
  if (type == trace::EventType::kGapPromoted && place == 2 && value >= 1 && value <= 5) {
    return recovery::name(static_cast<recovery::LossCause>(value));
  }
  return value;
}

}  // namespace

void EventLog::add(std::uint32_t slot, const std::vector<trace::EventRecord>& records, std::uint64_t missing) {
  const std::int64_t now = monotonic_ns(), offset = unix_ns() - now;
  if (missing > 0) push(slot, unix_ns(), {{"type", "events_lost"}, {"count", missing}});
  for (const trace::EventRecord& record : records) {
    const auto& info = trace::kEventTypes[static_cast<std::size_t>(record.type)];
    Json event = {{"type", info.name}};
    if (record.qpn != 0) event["lqpn"] = record.qpn;
    for (std::size_t i = 0; i < info.values.size(); ++i) {
      if (!info.values[i].empty()) event[std::string(info.values[i])] = value_json(record.type, i, record.values[i]);
    }
    // Another process has written the time: no event is older than the machine's start, or yet to come.
    push(slot, std::clamp<std::int64_t>(record.when_ns, 0, now) + offset, event, info.rate);
  }
}

void EventLog::add(std::uint32_t slot, const Json& event) { push(slot, unix_ns(), event); }

void EventLog::add_adopted(std::uint32_t slot) {
  const std::uint64_t gone = book_.state().slots[slot].events_logged;
  if (gone > 0) push(slot, unix_ns(), {{"type", "events_lost"}, {"count", gone}});
}

void EventLog::push(std::uint32_t slot, std::int64_t when, const Json& event, trace::EventRate rate) {
  const SlotRecord& lease = book_.state().slots[slot];
  const std::uint64_t number = book_.number_event(slot);
  Json entry = {{"number", number},
                {"time_unix_ns", when},
                {"ifname", std::string(io::get_text(lease.device))},
                {"pid", lease.pid},
                {"comm", std::string(io::get_text(lease.program))}};
  entry.update(event);
  std::deque<Entry>& list = events_[static_cast<std::size_t>(rate)];
  list.push_back({lease.uid, number, std::move(entry)});
  if (list.size() > kEventsMax) list.pop_front();
}

Json EventLog::after(std::uint64_t after, std::optional<std::uint32_t> only) const {
  const std::uint64_t last = newest();
  if (after > last) after = 0;  // a number of an earlier daemon
  std::vector<const Entry*> found;
  for (const std::deque<Entry>& of_rate : events_) {
    const auto first =
        std::partition_point(of_rate.begin(), of_rate.end(), [&](const Entry& entry) { return entry.number <= after; });
    for (auto entry = first; entry != of_rate.end(); ++entry) found.push_back(&*entry);
  }
  const std::uint64_t missing = last - after - found.size();
  if (only) std::erase_if(found, [only](const Entry* entry) { return entry->uid != *only; });
  std::ranges::sort(found, {}, &Entry::number);
  Json list = Json::array();
  for (const Entry* entry : found) list.push_back(entry->event);
  return {{"events", std::move(list)}, {"newest", last}, {"missing", missing}};
}

}  // namespace brdma::daemon
