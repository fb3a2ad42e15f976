#include "queries/watch.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "control/definitions.h"
#include "queries/queries.h"

namespace brdma::daemon {
namespace {

using Clock = std::chrono::steady_clock;

std::string line_of(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', /*ensure_ascii=*/true, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

Instant instant_of(Clock::time_point at) {
  return Instant::from_ns(std::chrono::duration_cast<std::chrono::nanoseconds>(at.time_since_epoch()).count());
}

}  // namespace

void Watch::look_soon() {
  if (looking_ && waiting_.empty()) return;
  looking_ = true;
  timer_.expires_after(waiting_.empty() ? kLook : kLookFollowed);
  timer_.async_wait([this](boost::system::error_code error) {
    if (!error) look();
  });
}

void Watch::look() {
  looking_ = false;
  const bool evaluates = Clock::now() - evaluated_ >= kLook;
  if (evaluates) evaluated_ = Clock::now();
  bool any = false;
  Uses uses;  // limits count all programs together
  for (std::uint32_t slot = io::kFirstLeasableSlot; slot < book_.state().slots_end; ++slot) {
    if (book_.state().slots[slot].state != SlotState::kLeased) continue;
    any = true;
    collect(slot);
    if (evaluates) evaluate(slot, uses);
  }
  serve_waiting();
  if (any || !waiting_.empty()) look_soon();
}

void Watch::collect(std::uint32_t slot) {
  std::vector<trace::EventRecord> records;
  const std::uint64_t missing = book_.take_events(slot, records);
  if (records.empty() && missing == 0) return;
  const SlotRecord& lease = book_.state().slots[slot];
  for (const trace::EventRecord& record : records) {
    if (record.type != trace::EventType::kLimitReached) continue;
    const bool pairs = record.values[0] == static_cast<std::uint64_t>(trace::Limit::kQueuePairs);
    const char* const key = pairs ? "qps_max" : "device_state_bytes_max";
    spdlog::warn(
        "{} (pid {}) is refused a queue pair: recovery.{} is {}, and the programs of {} have {}; raise it with 'brdma "
        "recovery set dev {} {} N'",
        io::get_text(lease.program), lease.pid, key, record.values[1], io::get_text(lease.device), record.values[2],
        io::get_text(lease.device), key);
  }
  log_.add(slot, records, missing);
}

void Watch::evaluate(std::uint32_t slot, Uses& uses) {
  const SlotRecord& lease = book_.state().slots[slot];
  if (!lease.statistics_known) return;  // it has other counters
  const io::Gauges gauges = book_.gauges(slot);
  const auto [known, is_new] = uses.try_emplace({book_.table_owner(slot), std::string(io::get_text(lease.device))});
  if (is_new) known->second = book_.device_use(slot);
  const DeviceUse::Sum use = known->second;
  const control::AlarmFacts facts{.statistics = book_.statistics(slot),
                                  .queue_pairs = use.queue_pairs,
                                  .queue_pairs_max = gauges.queue_pairs_max,
                                  .state_bytes = use.state_bytes,
                                  .state_bytes_max = gauges.state_bytes_max};
  for (const control::AlarmChange& change :
       alarms_[lease.lease_id].evaluate(facts, thresholds_, instant_of(Clock::now()))) {
    const std::string name{control::kAlarmNames[static_cast<std::size_t>(change.alarm)]};
    log_.add(slot, {{"type", change.raised ? "alarm_raised" : "alarm_cleared"},
                    {"alarm", name},
                    {"value", change.value},
                    {"threshold", change.threshold}});
    spdlog::log(change.raised ? spdlog::level::warn : spdlog::level::info,
                "alarm {} of {} (pid {}) {}: {}, threshold {}", name, io::get_text(lease.program), lease.pid,
                change.raised ? "raised" : "cleared", change.value, change.threshold);
  }
}

void Watch::lease_ending(std::uint32_t slot) {
  collect(slot);
  alarms_.erase(book_.state().slots[slot].lease_id);
  serve_waiting();
}

void Watch::serve_waiting() {
  const auto now = Clock::now();
  std::vector<Waiting> ready;
  std::erase_if(waiting_, [&](Waiting& waiting) {
    if (log_.newest() == waiting.after && now < waiting.until) return false;
    ready.push_back(std::move(waiting));
    return true;
  });
  for (const Waiting& waiting : ready) waiting.done(line_of(log_.after(waiting.after, waiting.sees_only)));
}

bool Watch::answer(const Json& request, const Asker& asker, Done done) {
  const auto query = request.find("query");
  if (query == request.end()) return false;
  if (*query == "alarms") {
    done(line_of(alarms()));
    return true;
  }
  if (*query == "alarm_set") {
    done(line_of(set_alarms(request, asker.may_change)));
    return true;
  }
  if (*query != "events") return false;
  const auto after = request.find("after");
  const std::uint64_t number = after != request.end() && after->is_number_unsigned() ? after->get<std::uint64_t>() : 0;
  for (std::uint32_t slot = io::kFirstLeasableSlot; slot < book_.state().slots_end; ++slot) {
    if (book_.state().slots[slot].state == SlotState::kLeased) collect(slot);
  }
  const auto wait = request.find("wait");
  if (wait == request.end() || *wait != true || log_.newest() != number) {
    done(line_of(log_.after(number, asker.sees_only)));
    return true;
  }
  waiting_.push_back({number, asker.sees_only, Clock::now() + kWaitMax, std::move(done)});
  look_soon();
  return true;
}

Watch::Json Watch::alarms() const {
  Json list = Json::array();
  for (std::uint32_t slot = io::kFirstLeasableSlot; slot < book_.state().slots_end; ++slot) {
    const SlotRecord& lease = book_.state().slots[slot];
    if (lease.state != SlotState::kLeased) continue;
    const auto found = alarms_.find(lease.lease_id);
    Json entry = lease_json(slot, lease);
    entry["alarms"] = Json::array();
    for (std::size_t i = 0; i < control::kAlarmCount && found != alarms_.end(); ++i) {
      const auto alarm = static_cast<control::Alarm>(i);
      entry["alarms"].push_back({{"alarm", control::kAlarmNames[i]},
                                 {"raised", found->second.raised(alarm)},
                                 {"value", found->second.value(alarm)},
                                 {"threshold", thresholds_.of(alarm)}});
    }
    list.push_back(std::move(entry));
  }
  return {{"answers", std::move(list)}};
}

Watch::Json Watch::set_alarms(const Json& request, bool may_change) {
  if (!may_change) return error_json({EACCES, "only root and the user of brdmad may set alarms"});
  const auto settings = request.find("settings");
  if (settings == request.end() || !settings->is_object()) return error_json({EINVAL, "no setting is named"});
  control::Settings scratch;
  scratch.alarms = thresholds_;
  for (const auto& [key, value] : settings->items()) {
    const control::Definition* const definition = control::find_definition(key);
    const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    if (definition == nullptr || !definition->key.starts_with("alarm.")) {
      return error_json({EINVAL, "there is no setting " + key});
    }
    if (!control::assign(*definition, text, scratch)) {
      return error_json({EINVAL, key + " = '" + text + "' is not allowed; allowed: " + allowed_text(*definition)});
    }
  }
  thresholds_ = scratch.alarms;
  return alarms();
}

}  // namespace brdma::daemon
