// `brdma dev`, `link`, `resource`, `statistic`: the RDMA devices of this network namespace and their users. Devices are
// read from the system; users and counters come from brdmad if one runs.

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bitmaprdma/context.h"
#include "capabilities.h"
#include "io/daemon/daemon_client.h"
#include "io/netdev/netdev.h"
#include "management.h"
#include "objects.h"
#include "process_rows.h"

namespace brdma {
namespace {

constexpr int kPort = 1;  // every device has one

std::string guid_text(std::uint64_t guid) {
  std::array<char, 24> text{};
  std::snprintf(text.data(), text.size(), "%04x:%04x:%04x:%04x", static_cast<unsigned>(guid >> 48 & 0xFFFF),
                static_cast<unsigned>(guid >> 32 & 0xFFFF), static_cast<unsigned>(guid >> 16 & 0xFFFF),
                static_cast<unsigned>(guid & 0xFFFF));
  return text.data();
}

// The words behind "show": words, and "dev NAME" or "link NAME[/PORT]" or just the name.
struct Filter {
  std::string device;
  [[nodiscard]] bool matches(const std::string& name) const { return device.empty() || device == name; }
};

void check_exists(const Filter& filter, const std::vector<DeviceInfo>& devices) {
  for (const DeviceInfo& device : devices) {
    if (filter.matches(device.name)) return;
  }
  if (!filter.device.empty()) throw std::runtime_error("no device " + filter.device + ": see 'brdma dev show'");
}

void take_filter_word(Words& words, Filter& filter) {
  std::string word = words.take();
  if ((word == "dev" || word == "link") && !words.empty()) word = words.take();
  word.resize(std::min(word.size(), word.find("/1")));
  filter.device = word;
}

// "show [dev NAME]" with options; everything else is misuse.
Filter parse_show(Invocation& invocation, const char* object) {
  Words& words = invocation.words;
  Filter filter;
  bool first = true;
  while (!words.empty()) {
    if (take_style_option(words, invocation.style)) continue;
    constexpr std::array<std::string_view, 2> kShow{"show", "list"};
    if (first && (find_word(words.peek(), kShow) >= 0)) {
      words.take();
      first = false;
      continue;
    }
    if (words.peek() == "help") throw UsageError(std::string{"expected: brdma "} + object + " [show [dev NAME]]");
    first = false;
    take_filter_word(words, filter);
  }
  return filter;
}

std::vector<DeviceInfo> devices_or_reason(const Filter& filter) {
  std::vector<DeviceInfo> devices = list_devices();
  if (devices.empty()) print_error(io::no_device_reason());
  check_exists(filter, devices);
  return devices;
}

// The daemon's answer; nothing if none runs here.
std::optional<Json> ask_daemon(const char* query) {
  const auto answer = io::query_daemon({{"query", query}});
  if (answer.ok()) return std::optional<Json>(std::in_place, answer.value());
  if (answer.reason().error == ENOENT) {
    std::fprintf(stderr, "brdma: no brdmad runs in this network namespace: no program uses a device\n");
    return std::nullopt;
  }
  throw std::runtime_error(answer.reason().message);
}

// By index; a hole is zero.
Json address_list(const DeviceInfo& device) {
  Json list = Json::array();
  std::size_t used = 0;
  for (std::size_t i = 0; i < device.gids.size(); ++i) {
    if (!device.gids[i].address.is_zero()) used = i + 1;
  }
  for (const auto& gid : std::span(device.gids).first(used)) {
    std::string text;
    for (std::size_t i = 0; i < 16; i += 2) {
      std::array<char, 8> word{};
      std::snprintf(word.data(), word.size(), "%s%02x%02x", i == 0 ? "" : ":", gid.address.bytes[i],
                    gid.address.bytes[i + 1]);
      text += word.data();
    }
    list.push_back(text);
  }
  return list;
}

// Takes "show" if it is the next word.
void take_show(Words& words) {
  constexpr std::array<std::string_view, 2> kShow{"show", "list"};
  if (!words.empty() && find_word(words.peek(), kShow) >= 0) words.take();
}

// Takes "[show] WHAT [show]" at the front.
bool takes(Invocation& invocation, std::string_view what) {
  Words& words = invocation.words;
  take_style_options(words, invocation.style);
  take_show(words);
  const bool found = !words.empty() && words.peek() == what;
  if (found) {
    words.take();
    take_show(words);
  }
  return found;
}

}  // namespace

namespace {

// The receive path of each program that uses the device, and the reason, for programs that a brdmad can query.
Json datapaths(const std::string& device, int& failed) {
  Json list = Json::array();
  const auto reply = io::query_daemon({{"query", "resource"}, {"what", "objects"}, {"device", device}});
  if (!reply.ok()) return list;
  for_each_answer(reply.value(), OutputStyle{}, failed, [&list](ProcessAnswer& each) {
    const auto datapath = each.answer.find("datapath");
    if (datapath == each.answer.end()) return;  // its library is older
    add_members(each.record.fields, *datapath);
    list.push_back(std::move(each.record.fields));
  });
  return list;
}

}  // namespace

int dev_object(Invocation& invocation) {
  const Filter filter = parse_show(invocation, "dev");
  std::vector<Record> records;
  int index = 0, failed = 0;
  for (const DeviceInfo& device : devices_or_reason(filter)) {
    const int number = index++;
    if (!filter.matches(device.name)) continue;
    Record record{std::to_string(number) + ": " + device.name + ":", {}};
    if (invocation.style.json) record.fields = {{"ifindex", number}, {"ifname", device.name}};
    record.fields.update({{"node_type", "ca"},
                          {"fw", BRDMA_VERSION},
                          {"node_guid", guid_text(device.guid)},
                          {"sys_image_guid", guid_text(device.guid)}});
    if (invocation.style.details > 0) {
      record.fields["gids"] = address_list(device);
      record.fields["capabilities"] = device_capabilities();
      record.fields["datapaths"] = datapaths(device.name, failed);
    }
    records.push_back(std::move(record));
  }
  print_records(records, invocation.style);
  return failed == 0 ? 0 : 1;
}

int link_object(Invocation& invocation) {
  const Filter filter = parse_show(invocation, "link");
  std::vector<Record> records;
  int index = 0;
  for (const DeviceInfo& device : devices_or_reason(filter)) {
    const int number = index++;
    if (!filter.matches(device.name)) continue;
    Record record{"link " + device.name + "/" + std::to_string(kPort), {}};
    if (invocation.style.json) record.fields = {{"ifindex", number}, {"port", kPort}, {"ifname", device.name}};
    record.fields.update({{"state", device.active ? "ACTIVE" : "DOWN"},
                          {"physical_state", device.active ? "LINK_UP" : "DISABLED"},
                          {"netdev", device.netdev}});
    if (invocation.style.json || invocation.style.details > 0) {
      record.fields.update({{"netdev_index", device.ifindex},
                            {"netdev_mtu", device.netdev_mtu},
                            {"active_mtu", mtu_bytes(device.active_mtu)},
                            {"speed_mbps", device.speed_mbps}});
    }
    records.push_back(std::move(record));
  }
  print_records(records, invocation.style);
  return 0;
}

namespace {

// `statistic show cm`: brdmad's counters of connection managers' messages, and those of the programs' managers; with -d
// each program's too.
int show_connection_counters(Invocation& invocation) {
  while (!invocation.words.empty()) {
    if (!take_style_option(invocation.words, invocation.style)) throw UsageError("expected: brdma statistic [show] cm");
  }
  const auto answer = ask_daemon("statistics");
  std::vector<Record> records;
  if (answer) {
    const Json& connections = answer->at("connections");
    Record& all = records.emplace_back(Record{"cm", answer->at("management")});
    all.fields.update(connections.at("counters"));
    for (const Json& process : invocation.style.details == 0 ? Json::array() : connections.at("processes")) {
      Record& one = records.emplace_back(Record{"cm", {{"pid", process.at("pid")}, {"comm", process.at("comm")}}});
      one.fields.update(process.at("counters"));
    }
  }
  print_records(records, invocation.style);
  return 0;
}

// `statistic show qp`: each queue pair's counters.
int show_queue_pair_counters(Invocation& invocation) {
  Target target;
  Words& words = invocation.words;
  while (!words.empty()) {
    if (take_style_option(words, invocation.style) || take_target(words, target)) continue;
    throw UsageError("expected: brdma statistic [show] qp [dev DEV] [lqpn N]");
  }
  return show_rows({{"query", "queue_pair_statistics"}}, target, Json::object(), "link", invocation.style);
}

Record record_of_link(const std::string& device, const OutputStyle& style) {
  Record record{"link " + device + "/" + std::to_string(kPort), {}};
  if (style.json) record.fields = {{"ifname", device}, {"port", kPort}};
  return record;
}

// Each device's counters; with -d then those of each process.
std::vector<Record> link_counters(const Json& statistics, const Filter& filter, const OutputStyle& style) {
  std::vector<Record> records;
  for (const Json& device : statistics.at("devices")) {
    const std::string name = device.at("device");
    if (!filter.matches(name)) continue;
    Record& record = records.emplace_back(record_of_link(name, style));
    record.fields.update(device.at("counters"));
  }
  for (const Json& process : statistics.at("processes")) {
    const std::string name = process.at("device");
    if (style.details == 0 || !filter.matches(name) || !process.at("counters").is_object()) continue;
    Record& record = records.emplace_back(record_of_link(name, style));
    record.fields.update({{"pid", process.at("pid")}, {"comm", process.at("comm")}});
    record.fields.update(process.at("counters"));
  }
  return records;
}

int show_link_counters(Invocation& invocation) {
  const Filter filter = parse_show(invocation, "statistic");
  const auto answer = ask_daemon("statistics");
  std::vector<Record> records;
  if (answer) records = link_counters(*answer, filter, invocation.style);
  print_records(records, invocation.style);
  return 0;
}

}  // namespace

// `statistic show [link NAME]`: each device's counters; with -d each process's too. `statistic show qp`: each queue
// pair's. `statistic show cm`: RDMA-CM's.
int statistic_object(Invocation& invocation) {
  if (takes(invocation, "cm")) return show_connection_counters(invocation);
  if (takes(invocation, "qp")) return show_queue_pair_counters(invocation);
  return show_link_counters(invocation);
}

namespace {

// Sums of the objects of one device's processes: cq, qp, mr. A process without an answer counts 0 and is reported on
// standard error.
std::map<std::string, Json> objects_by_device(const Target& target, const OutputStyle& style, int& failed) {
  std::map<std::string, Json> sums;
  const auto reply = ask_processes({{"query", "resource"}, {"what", "objects"}}, target);
  if (!reply) return sums;
  for_each_answer(*reply, style, failed, [&sums](const ProcessAnswer& each) {
    const Json& answer = each.answer;
    std::array<std::uint64_t, 4> counts{};
    constexpr std::array<const char*, 4> kKeys{"cq", "qp", "mr", "state_bytes"};
    for (std::size_t i = 0; i < kKeys.size(); ++i) counts[i] = answer.at(kKeys[i]).get<std::uint64_t>();
    Json& sum = sums.try_emplace(answer.at("device"), Json::object()).first->second;
    const auto add = [&sum](const char* key, std::uint64_t n) { sum[key] = sum.value(key, std::uint64_t{0}) + n; };
    for (std::size_t i = 0; i < kKeys.size(); ++i) add(kKeys[i], counts[i]);
    add("ctx", 1);
  });
  return sums;
}

int show_objects(const Target& target, const OutputStyle& style) {
  int failed = 0;
  const std::vector<DeviceInfo> devices = devices_or_reason({target.device});
  const auto sums = objects_by_device(target, style, failed);
  std::vector<Record> records;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    if (!target.device.empty() && target.device != devices[i].name) continue;
    Record record{std::to_string(i) + ": " + devices[i].name + ":", {}};
    if (style.json) record.fields = {{"ifindex", i}, {"ifname", devices[i].name}};
    const auto sum = sums.find(devices[i].name);
    for (const char* key : {"cq", "qp", "mr", "ctx", "state_bytes"}) {
      record.fields[key] = sum == sums.end() ? Json(0) : sum->second.at(key);
    }
    records.push_back(std::move(record));
  }
  print_records(records, style);
  return failed == 0 ? 0 : 1;
}

int show_contexts(const Target& target, const OutputStyle& style) {
  const std::vector<DeviceInfo> devices = devices_or_reason({target.device});
  const auto answer = ask_daemon("leases");
  const Json leases = answer ? Json(answer->at("leases")) : Json::array();
  std::vector<Record> records;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    if (!target.device.empty() && target.device != devices[i].name) continue;
    for (const Json& lease : leases) {
      if (lease.at("device") != devices[i].name) continue;
      Record record{"dev " + devices[i].name, {}};
      if (style.json) record.fields = {{"ifindex", i}, {"ifname", devices[i].name}};
      record.fields.update({{"ctxn", lease.at("slot")}, {"pid", lease.at("pid")}, {"comm", lease.at("comm")}});
      records.push_back(std::move(record));
    }
  }
  print_records(records, style);
  return 0;
}

int show_cm_ids(const OutputStyle& style) {
  const auto answer = ask_daemon("cm_ids");
  std::vector<Record> records;
  int number = 0;
  for (const Json& id : answer ? answer->at("cm_ids") : Json::array()) {
    records.push_back({"cm_id " + std::to_string(number++), id});
  }
  print_records(records, style);
  return 0;
}

constexpr const char* kResourceUsage =
    "expected: brdma resource [show [ctx|qp|cq|mr|gap|duplicate|cm_id] [dev DEV] [lqpn N] [KEY VALUE]...]; KEY is one "
    "of "
    "those shown";

// The words behind `resource`.
struct ResourceRequest {
  std::string what;  // empty: number of objects
  Target target;
  Json filters = Json::object();

  [[nodiscard]] bool has_filters() const { return !what.empty() && what != "ctx" && what != "cm_id"; }
};

ResourceRequest take_resource_request(Invocation& invocation) {
  Words& words = invocation.words;
  constexpr std::array<std::string_view, 7> kWhat{"ctx", "qp", "cq", "mr", "gap", "duplicate", "cm_id"};
  take_style_options(words, invocation.style);
  take_show(words);
  take_style_options(words, invocation.style);
  ResourceRequest request;
  if (!words.empty() && std::find(kWhat.begin(), kWhat.end(), words.peek()) != kWhat.end()) request.what = words.take();
  while (!words.empty()) {
    if (take_style_option(words, invocation.style) || take_target(words, request.target)) continue;
    const std::string word = words.take();
    if (word == "help") throw UsageError(kResourceUsage);
    if (word.starts_with("brdma_")) {
      request.target.device = word.substr(0, word.find('/'));
    } else if (request.has_filters()) {
      request.filters[word] = words.take_value(word);
    } else {
      throw UsageError(kResourceUsage);
    }
  }
  return request;
}

}  // namespace

// `resource show`: number of objects of each device. `resource show qp|cq|mr`: each of them. `gap|duplicate`: records
// of missing packets, and of packets that came twice. `ctx`: owners of contexts. `cm_id`: RDMA-CM's identifiers that
// have a port.
int resource_object(Invocation& invocation) {
  constexpr std::array<std::string_view, 3> kOfLinks{"qp", "gap", "duplicate"};
  const auto [what, target, filters] = take_resource_request(invocation);
  if (what.empty()) return show_objects(target, invocation.style);
  if (what == "ctx") return show_contexts(target, invocation.style);
  if (what == "cm_id") return show_cm_ids(invocation.style);
  const bool of_link = std::find(kOfLinks.begin(), kOfLinks.end(), what) != kOfLinks.end();
  return show_rows({{"query", "resource"}, {"what", what}}, target, filters, of_link ? "link" : "dev",
                   invocation.style);
}

}  // namespace brdma
