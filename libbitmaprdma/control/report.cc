#include "control/report.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string_view>

#include "control/definitions.h"

namespace brdma::control {
namespace {

constexpr std::string_view kRecoveryTable = "recovery.", kTransferTable = "transfer.", kCongestionTable = "congestion.",
                           kWanTable = "wan.";

std::string_view state_name(QpState state) {
  constexpr std::array<std::string_view, 7> kNames{"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
  return kNames[static_cast<std::size_t>(state)];
}

std::string_view type_name(const QueuePairReport& report) {
  if (report.xrc != XrcRole::kNone) return report.xrc == XrcRole::kInitiator ? "XRC_INI" : "XRC_TGT";
  switch (report.type) {
    case QpType::kRc:
      return "RC";
    case QpType::kUc:
      return "UC";
    case QpType::kUd:
      return "UD";
  }
  return "?";
}

// The mode in use: bitmap mode may be wanted and not agreed.
std::string_view mode_in_use(const QueuePairReport& report) {
  if (report.recovery.mode == RecoveryMode::kGoBackN) return "gobackn";
  return report.bitmap_agreed ? "bitmap" : "standard";
}

// The way data of large messages moves: fetched from memory, or sent, and why.
std::string data_way(const QueuePairReport& report) {
  if (report.local_agreed) return "fetched";
  if (report.local_memory == LocalState::kFetches) return "sent: the peer does not fetch";
  return "sent: " + std::string(name(report.local_memory));
}

std::string_view control_name(CongestionControl control) {
  constexpr std::array<std::string_view, 6> kNames{"window", "timely", "dcqcn", "none", "paced", "both"};
  return kNames[static_cast<std::size_t>(control)];
}

Json rate_json(const std::optional<Bandwidth>& rate) {
  return rate ? Json(static_cast<double>(rate->bps()) / 1e6) : Json(nullptr);
}

double microseconds(Duration duration) { return static_cast<double>(duration.ns()) / 1000; }

Json value_json(const Definition& definition, const Settings& settings) {
  if (const auto* number = std::get_if<NumberSetting>(&definition.kind)) return number->get(settings);
  const std::string text = value_text(definition, settings);
  if (text == "true" || text == "false") return text == "true";
  return text;
}

Json bitmap_json(const BitmapReport& bitmap) {
  return {{"mode", bitmap.segmented ? "segmented" : "base"},
          {"base", bitmap.base},
          {"extension", bitmap.extension},
          {"segment", bitmap.segment},
          {"window", bitmap.window},
          {"length", bitmap.length},
          {"segments", bitmap.segments},
          {"bytes", bitmap.bytes}};
}

// As in files and variables.
std::string spelled(const Json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

Json memory_json(const qp::MemoryUse& use) {
  return {{"windows", use.windows},
          {"recovery", use.recovery},
          {"transport", use.transport},
          {"queues", use.queues},
          {"total", use.total()}};
}

Json paths_json(const std::vector<qp::PathStatus>& paths) {
  Json list = Json::array();
  for (const qp::PathStatus& path : paths) {
    list.push_back({{"port", path.source_port},
                    {"in_use", path.in_use},
                    {"sent", path.sent},
                    {"acknowledged", path.acknowledged},
                    {"lost", path.lost},
                    {"probes", path.probes},
                    {"in_flight", path.in_flight},
                    {"loss_ppm", path.loss_ppm},
                    {"rtt_us", microseconds(path.round_trip)},
                    {"rtt_min_us", microseconds(path.round_trip_min)}});
  }
  return list;
}

// Path bitmaps of a receiver.
Json received_json(const std::vector<qp::PathReceived>& paths) {
  Json list = Json::array();
  for (const qp::PathReceived& path : paths) {
    list.push_back({{"path", path.path},
                    {"in_use", path.in_use},
                    {"rcvd_pkts", path.packets},
                    {"marked", path.marked},
                    {"highest", path.marked != 0 ? Json(path.newest) : Json(nullptr)},
                    {"depth_limit", path.depth_max},
                    {"bytes", path.bytes}});
  }
  return list;
}

// Limits in force for requests and READ responses, adapted ones included.
Json limits_json(const QueuePairReport& report) {
  return {{"depth_limit", report.limits.depth_max},
          {"age_limit_us", microseconds(report.limits.age_max)},
          {"stall_limit_us", microseconds(report.limits.stall_max)},
          {"response_depth_limit", report.response_limits.depth_max},
          {"response_age_limit_us", microseconds(report.response_limits.age_max)},
          {"response_stall_limit_us", microseconds(report.response_limits.stall_max)}};
}

const char* direction_name(bool response) { return response ? "response" : "request"; }

Json table_json(std::string_view table, const Settings& settings) {
  Json object = Json::object();
  for (const Definition& definition : definitions()) {
    if (definition.key.starts_with(table)) object[std::string(definition.key)] = value_json(definition, settings);
  }
  return object;
}

bool of_transfers(const Definition& definition) { return definition.key.starts_with(kTransferTable); }

bool of_queue_pairs(const Definition& definition) {
  return std::ranges::any_of(std::array{kRecoveryTable, kCongestionTable, kWanTable},
                             [&](std::string_view table) { return definition.key.starts_with(table); });
}

// As check_changes(), for one of them; `scratch` takes it.
std::string check_change(const std::string& key, const Json& value, bool of_one, Settings& scratch) {
  if (const std::string_view why = given_by_verbs(key); !why.empty()) return std::string(why);
  const Definition* const definition = find_definition(key);
  if (definition == nullptr) return "there is no setting " + key;
  const bool transfers = of_transfers(*definition);
  if (definition->applies == Applies::kNewPrograms || (!transfers && !of_queue_pairs(*definition))) {
    return std::string(definition->key) + " cannot be changed at run time: set it in a file or variable";
  }
  if (transfers && of_one) return std::string(definition->key) + " is a setting of devices: name no queue pair";
  if (!assign(*definition, spelled(value), scratch)) {
    return std::string(definition->key) + " = '" + spelled(value) +
           "' is not allowed; allowed: " + allowed_text(*definition);
  }
  return {};
}

}  // namespace

Json recovery_json(const RecoveryConfig& config) {
  Settings settings;
  settings.recovery = config;
  Json object = table_json(kRecoveryTable, settings);
  object.update(table_json(kCongestionTable, settings));
  object.update(table_json(kWanTable, settings));
  return object;
}

Json transfer_json(const TransferConfig& config) {
  Settings settings;
  settings.transfer = config;
  return table_json(kTransferTable, settings);
}

Json queue_pair_json(const QueuePairReport& report) {
  Json object = {{"lqpn", report.qpn},
                 {"rqpn", report.peer_qpn},
                 {"type", type_name(report)},
                 {"state", state_name(report.state)},
                 {"rq-psn", report.receive_next.value()},
                 {"sq-psn", report.send_next.value()},
                 {"receive_start_psn", report.receive_start.value()},
                 {"send_start_psn", report.send_start.value()},
                 {"pdn", report.pd},
                 {"mode", mode_in_use(report)},
                 {"local", address_text(report.local)},
                 {"peer", address_text(report.peer)},
                 {"path_mtu", report.path_mtu},
                 {"peer_window", report.peer_window},
                 {"data", data_way(report)},
                 {"send_bitmap", bitmap_json(report.send_bitmap)},
                 {"receive_bitmap", bitmap_json(report.receive_bitmap)},
                 {"send_base", report.send_base.value()},
                 {"unacked", report.unacked},
                 {"retransmit_pending", report.pending},
                 {"flight_pkts", report.flight_packets},
                 {"flight_bytes", report.flight_bytes},
                 {"congestion", control_name(report.recovery.congestion.control)},
                 {"congestion_bytes", report.congestion_bytes},
                 {"rate_mbps", rate_json(report.rate)},
                 {"answer_rate_mbps", rate_json(report.response_rate)},
                 {"work_requests", report.work_requests},
                 {"srtt_us", microseconds(report.srtt)},
                 {"base_rtt_us", microseconds(report.base_rtt)},
                 {"rnr_wait", report.waits_for_receiver},
                 {"receive_highest", report.receive_highest.value()},
                 {"gaps", report.gaps},
                 {"response_gaps", report.response_gaps},
                 {"early_pkts", report.early_packets},
                 {"held_bytes", report.held_bytes},
                 {"receives", report.receives},
                 {"state_bytes", report.state_bytes},
                 {"memory", memory_json(report.memory)},
                 {"own_settings", report.own_recovery}};
  object.update(limits_json(report));
  return object;
}

Json queue_pair_statistics_json(const QueuePairReport& report) {
  Json object = {{"lqpn", report.qpn}};
  for (std::size_t i = 0; i < kQpCounterCount; ++i) {
    object[std::string(kQpCounterNames[i])] = report.statistics.counters[i];
  }
  object.update(limits_json(report));
  if (!report.paths.empty()) object["paths"] = paths_json(report.paths);
  if (!report.receive_paths.empty()) object["receive_paths"] = received_json(report.receive_paths);
  if (!report.response_paths.empty()) object["response_paths"] = received_json(report.response_paths);
  return object;
}

Json gap_json(std::uint32_t qpn, const qp::OpenGap& gap, Instant now, std::int64_t unix_ns) {
  return {{"lqpn", qpn},
          {"direction", direction_name(gap.response)},
          {"psn", gap.start.value()},
          {"packets", gap.length},
          {"state", gap.promoted ? "promoted" : "waiting"},
          {"cause", gap.promoted ? Json(recovery::name(gap.cause)) : Json(nullptr)},
          {"first_seen_unix_ns", unix_ns - (now - gap.first_seen).ns()},
          {"age_us", microseconds(now - gap.first_seen)},
          {"depth", gap.depth},
          {"stall_us", gap.stalls ? Json(microseconds(gap.stalled)) : Json(nullptr)},
          {"named", gap.feedbacks},
          {"path", gap.path_known ? Json(gap.path) : Json(nullptr)}};
}

Json duplicate_json(const qp::Duplicate& duplicate, Instant now, std::int64_t unix_ns) {
  return {{"lqpn", duplicate.qpn},
          {"direction", direction_name(duplicate.response)},
          {"psn", duplicate.psn.value()},
          {"state", duplicate.before_base ? "done" : "waiting"},
          {"arrived_unix_ns", unix_ns - (now - duplicate.arrived).ns()},
          {"age_us", microseconds(now - duplicate.arrived)},
          {"path", duplicate.path}};
}

Json completion_queue_json(const CompletionQueueReport& report) {
  return {{"cqn", report.number}, {"cqe", report.entries}, {"waiting", report.waiting}, {"users", report.queue_pairs}};
}

Json memory_region_json(const MemoryRegion& region) {
  return {{"mrn", region.key},      {"lkey", region.key},       {"rkey", region.key},     {"iova", region.iova},
          {"mrlen", region.length}, {"pdn", region.pd->number}, {"access", region.access}};
}

std::string check_changes(const Json& changes, bool of_one) {
  if (!changes.is_object() || changes.empty()) return "no setting is named";
  Settings scratch;
  for (const auto& [key, value] : changes.items()) {
    if (std::string fault = check_change(key, value, of_one, scratch); !fault.empty()) return fault;
  }
  return {};
}

void apply_changes(const Json& changes, RecoveryConfig& config, bool made) {
  Settings settings;
  settings.recovery = config;
  for (const auto& [key, value] : changes.items()) {
    const Definition* const definition = find_definition(key);
    if (definition == nullptr || (made && definition->applies != Applies::kNow)) continue;
    static_cast<void>(assign(*definition, spelled(value), settings));
  }
  config = settings.recovery;
}

void apply_changes(const Json& changes, TransferConfig& config) {
  Settings settings;
  settings.transfer = config;
  for (const auto& [key, value] : changes.items()) {
    if (const Definition* const definition = find_definition(key)) {
      static_cast<void>(assign(*definition, spelled(value), settings));
    }
  }
  config = settings.transfer;
}

Json reach_json(const Json& changes) {
  Json object = Json::object();
  for (const auto& [key, value] : changes.items()) {
    if (const Definition* const definition = find_definition(key)) {
      object[std::string(definition->key)] = name(definition->applies);
    }
  }
  return object;
}

std::string address_text(const IpAddress& address) {
  std::array<char, 48> text{};
  const auto& b = address.bytes;
  if (address.is_v4()) {
    std::snprintf(text.data(), text.size(), "%u.%u.%u.%u", b[12], b[13], b[14], b[15]);
    return text.data();
  }
  // Longest run of zero words as "::" (RFC 5952).
  std::array<unsigned, 8> words{};
  for (std::size_t i = 0; i < 8; ++i) words[i] = static_cast<unsigned>(b[2 * i] << 8 | b[2 * i + 1]);
  std::size_t run_at = 8, run = 1;
  for (std::size_t i = 0; i < 8; ++i) {
    std::size_t length = 0;
    while (i + length < 8 && words[i + length] == 0) ++length;
    if (length > run) {
      run_at = i;
      run = length;
    }
  }
  std::string result;
  for (std::size_t i = 0; i < 8; ++i) {
    if (i == run_at) {
      result += "::";
      i += run - 1;
      continue;
    }
    if (!result.empty() && result.back() != ':') result += ':';
    std::snprintf(text.data(), text.size(), "%x", words[i]);
    result += text.data();
  }
  return result;
}

}  // namespace brdma::control
