#include "families.h"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "control/alarms.h"
#include "node_names.h"
#include "trace/counters.h"
#include "trace/qp_counters.h"

namespace brdma::metrics {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<ClientMetric::Label>;
using Families = std::vector<MetricFamily>;

constexpr const char* kPort = "1";  // every device has one

MetricFamily& add_family(Families& all, std::string name, std::string_view help, MetricType type) {
  MetricFamily family;
  family.name = std::move(name);
  family.help = help;
  family.type = type;
  all.push_back(std::move(family));
  return all.back();
}

void add_value(MetricFamily& family, Labels labels, double value) {
  ClientMetric metric;
  metric.label = std::move(labels);
  (family.type == MetricType::Counter ? metric.counter.value : metric.gauge.value) = value;
  family.metric.push_back(std::move(metric));
}

// A member of that type; null: there is none.
const Json* member(const Json& object, std::string_view key, bool (Json::*is)() const noexcept) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(std::string(key));
  return found != object.end() && ((*found).*is)() ? &*found : nullptr;
}

std::span<const Json> list_of(const Json& object, std::string_view key) {
  const Json* const list = member(object, key, &Json::is_array);
  if (list == nullptr) return {};
  return list->get_ref<const Json::array_t&>();
}

std::string text_of(const Json& object, std::string_view key) {
  const Json* const text = member(object, key, &Json::is_string);
  return text == nullptr ? std::string{} : text->get<std::string>();
}

std::optional<double> number_of(const Json& object, std::string_view key) {
  const Json* const number = member(object, key, &Json::is_number_unsigned);
  return number == nullptr ? std::nullopt : std::optional{number->get<double>()};
}

// Device and its counters.
using Counters = std::vector<std::pair<std::string, const Json*>>;

Counters counters_of(const Json& statistics) {
  Counters all;
  for (const Json& device : list_of(statistics, "devices")) {
    const Json* const counters = member(device, "counters", &Json::is_object);
    if (counters == nullptr) continue;
    if (all.size() == kDevicesMax) break;
    all.emplace_back(text_of(device, "device"), counters);
  }
  return all;
}

// One counter of all devices. Nothing if none has it: brdmad is of another version.
void add_counter(Families& all, const std::string& name, std::string_view help, std::string_view key,
                 const Counters& counters, bool with_port) {
  MetricFamily& family = add_family(all, name, help, MetricType::Counter);
  for (const auto& [device, values] : counters) {
    const auto value = number_of(*values, key);
    if (!value) continue;
    Labels labels{{"device", device}};
    if (with_port) labels.push_back({"port", kPort});
    add_value(family, std::move(labels), *value);
  }
  if (family.metric.empty()) all.pop_back();
}

void add_own_counters(Families& all, const Counters& counters, std::span<const std::string_view> names,
                      std::span<const std::string_view> help) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    add_counter(all, "brdma_" + std::string(names[i]) + "_total", help[i], names[i], counters, /*with_port=*/false);
  }
}

void add_node_counters(Families& all, const Counters& counters) {
  for (const NodeName& each : kNodeNames) {
    const std::string counter{each.counter};
    add_counter(all, "node_infiniband_" + std::string(each.name) + "_total",
                "Same as brdma_" + counter + "_total, under the name that node_exporter has for hardware", counter,
                counters, /*with_port=*/true);
  }
}

// State of the ports, in the numbers of IBTA: 4 active, 1 down; 5 link up, 3 disabled.
void add_ports(Families& all, std::span<const DeviceInfo> devices) {
  if (devices.empty()) return;
  MetricFamily info, state, physical, rate;
  const auto begin = [](MetricFamily& family, const char* name, const char* help) {
    family.name = std::string("node_infiniband_") + name;
    family.help = help;
    family.type = MetricType::Gauge;
  };
  begin(info, "info", "A constant 1, with the version of the device in its labels");
  begin(state, "state_id", "State of the port: 1 down, 4 active");
  begin(physical, "physical_state_id", "Physical state of the port: 3 disabled, 5 link up");
  begin(rate, "rate_bytes_per_second", "Rate of the network interface");
  for (const DeviceInfo& device : devices.first(std::min(devices.size(), kDevicesMax))) {
    const Labels port{{"device", device.name}, {"port", kPort}};
    add_value(info,
              {{"board_id", "bitmaprdma"},
               {"device", device.name},
               {"firmware_version", BRDMA_VERSION},
               {"hca_type", "bitmaprdma"}},
              1);
    add_value(state, port, device.active ? 4 : 1);
    add_value(physical, port, device.active ? 5 : 3);
    add_value(rate, port, static_cast<double>(device.speed_mbps) * 1e6 / 8);
  }
  for (MetricFamily* const family : {&info, &state, &physical, &rate}) all.push_back(std::move(*family));
}

// brdmad's own counters: the names of its answer, if they can be part of a metric's name.
bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= 64 && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
}

void add_daemon_value(Families& all, const std::string& name, std::string_view help, const Json& value) {
  if (value.is_boolean()) {
    add_value(add_family(all, name, help, MetricType::Gauge), {}, value.get<bool>() ? 1 : 0);
  } else if (value.is_number_unsigned()) {
    add_value(add_family(all, name + "_total", help, MetricType::Counter), {}, value.get<double>());
  }
}

void add_group(Families& all, const Json& group, const std::string& prefix, const std::string& what) {
  if (!group.is_object()) return;
  std::size_t left = kDaemonKeysMax;
  for (const auto& [key, value] : group.items()) {
    if (!is_name(key) || key == "id") continue;
    if (left-- == 0) return;
    add_daemon_value(all, prefix + key, "brdmad, " + what + ": " + key + " (docs/explanation/daemon.md, Questions)",
                     value);
  }
}

void add_daemon(Families& all, const Json& statistics) {
  const auto part = [](const Json& object, const char* key) {
    const Json* const found = member(object, key, &Json::is_object);
    return found == nullptr ? Json{} : *found;
  };
  for (const char* const key : {"connections_refused", "management_datagrams"}) {
    if (const Json* const value = member(statistics, key, &Json::is_number)) {
      add_daemon_value(all, std::string("brdma_daemon_") + key,
                       std::string("brdmad: ") + key + " (docs/explanation/daemon.md, Questions)", *value);
    }
  }
  add_group(all, part(statistics, "management"), "brdma_daemon_", "connection managers' messages");
  add_group(all, part(statistics, "icmp"), "brdma_daemon_icmp_", "ICMP about drops");
  add_group(all, part(statistics, "controller"), "brdma_daemon_controller_", "session with the controller");
  add_group(all, part(part(statistics, "connections"), "counters"), "brdma_", "RDMA-CM of all programs");
}

void add_programs(Families& all, const Json& statistics, const Counters& counters) {
  std::map<std::string, double> programs;
  for (const auto& [device, values] : counters) programs[device] = 0;
  for (const Json& process : list_of(statistics, "processes")) {
    const auto found = programs.find(text_of(process, "device"));
    if (found != programs.end()) ++found->second;
  }
  if (programs.empty()) return;
  MetricFamily& family = add_family(all, "brdma_programs",
                                    "Leases of the device: one for each program, or shard of one", MetricType::Gauge);
  for (const auto& [device, count] : programs) add_value(family, {{"device", device}}, count);
}

// Programs of each device for which an alarm is raised.
void add_alarms(Families& all, const Json& alarms, const Counters& counters) {
  std::map<std::pair<std::string, std::string>, double> raised;
  for (const auto& [device, values] : counters) {
    for (const std::string_view alarm : control::kAlarmNames) raised[{device, std::string(alarm)}] = 0;
  }
  for (const Json& program : list_of(alarms, "answers")) {
    for (const Json& alarm : list_of(program, "alarms")) {
      const auto found = raised.find({text_of(program, "device"), text_of(alarm, "alarm")});
      const Json* const is_raised = member(alarm, "raised", &Json::is_boolean);
      if (found != raised.end() && is_raised != nullptr && is_raised->get<bool>()) ++found->second;
    }
  }
  if (raised.empty()) return;
  MetricFamily& family =
      add_family(all, "brdma_alarm_raised", "Programs of the device for which the alarm is raised", MetricType::Gauge);
  for (const auto& [key, count] : raised) {
    add_value(family, {{"alarm", key.second}, {"device", key.first}}, count);
  }
}

// A queue pair's counters, and its labels.
struct QueuePair {
  Labels labels;
  const Json* counters;
};

void add_rows_of(const Json& program, std::vector<QueuePair>& rows, std::size_t& left_out) {
  for (const Json& row : list_of(program, "rows")) {
    const auto number = number_of(row, "lqpn");
    if (!number) continue;
    if (rows.size() == kQueuePairsMax) {
      ++left_out;
      continue;
    }
    rows.push_back({{{"comm", text_of(program, "comm")},
                     {"device", text_of(program, "device")},
                     {"qp", std::to_string(static_cast<std::uint64_t>(*number))}},
                    &row});
  }
}

void add_queue_pairs(Families& all, const Json& answers) {
  if (answers.is_null()) return;
  std::vector<QueuePair> rows;
  std::size_t left_out = 0;
  for (const Json& program : list_of(answers, "answers")) add_rows_of(program, rows, left_out);
  for (std::size_t i = 0; i < kQpCounterCount; ++i) {
    MetricFamily family;
    family.name = "brdma_qp_" + std::string(kQpCounterNames[i]) + "_total";
    family.help = "Of a queue pair: " + std::string(kQpCounterHelp[i]);
    family.type = MetricType::Counter;
    for (const QueuePair& row : rows) {
      if (const auto value = number_of(*row.counters, kQpCounterNames[i])) add_value(family, row.labels, *value);
    }
    if (!family.metric.empty()) all.push_back(std::move(family));
  }
  add_value(add_family(all, "brdma_qp_left_out", "Queue pairs that are not shown because there are too many",
                       MetricType::Gauge),
            {}, static_cast<double>(left_out));
}

}  // namespace

std::string metrics_text(const Facts& facts) {
  Families all;
  add_value(add_family(all, "brdma_up", "1: brdmad answered; 0: none runs here, it did not answer, or it refused",
                       MetricType::Gauge),
            {}, facts.statistics.is_object() ? 1 : 0);
  add_value(add_family(all, "brdma_build_info", "A constant 1, with the version in its label", MetricType::Gauge),
            {{"version", BRDMA_VERSION}}, 1);
  add_ports(all, facts.devices);
  const Counters counters = counters_of(facts.statistics);
  add_programs(all, facts.statistics, counters);
  add_alarms(all, facts.alarms, counters);
  add_node_counters(all, counters);
  add_own_counters(all, counters, kCounterNames, kCounterHelp);
  add_own_counters(all, counters, kDropReasonNames, kDropReasonHelp);
  add_daemon(all, facts.statistics);
  add_queue_pairs(all, facts.queue_pairs);
  return prometheus::TextSerializer{}.Serialize(all);
}

}  // namespace brdma::metrics
