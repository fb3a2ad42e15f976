// `brdma dev`, `link`, `resource`: the RDMA devices of this network namespace and their users. Devices are
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
#include "grammar/help.h"
#include "io/daemon/daemon_client.h"
#include "io/netdev/netdev.h"
#include "management.h"
#include "objects.h"
#include "process_rows.h"
#include "view/show_request.h"

namespace brdma {
namespace {

std::string guid_text(std::uint64_t guid) {
  std::array<char, 24> text{};
  std::snprintf(text.data(), text.size(), "%04x:%04x:%04x:%04x", static_cast<unsigned>(guid >> 48 & 0xFFFF),
                static_cast<unsigned>(guid >> 32 & 0xFFFF), static_cast<unsigned>(guid >> 16 & 0xFFFF),
                static_cast<unsigned>(guid & 0xFFFF));
  return text.data();
}

std::vector<DeviceInfo> devices_or_reason(const ShowFilter& filter) {
  std::vector<DeviceInfo> devices = list_devices();
  if (devices.empty()) print_error(io::no_device_reason());
  if (!filter.device.empty()) require_device(filter.device);
  return devices;
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
  invocation.style.lists = true;
  const ShowFilter filter = parse_show(invocation, "dev");
  std::vector<Record> records;
  int index = 0, failed = 0;
  for (const DeviceInfo& device : devices_or_reason(filter)) {
    const int number = index++;
    if (!filter.matches(device.name)) continue;
    Record record{std::to_string(number) + ": " + device.name + ":", {}};
    if (invocation.style.complete()) record.fields = {{"ifindex", number}, {"ifname", device.name}};
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
  print_records(records, invocation.style, "ifindex ifname node_type? fw? node_guid sys_image_guid?");
  return failed == 0 ? 0 : 1;
}

int link_object(Invocation& invocation) {
  invocation.style.lists = true;
  const ShowFilter filter = parse_show(invocation, "link");
  std::vector<Record> records;
  int index = 0;
  for (const DeviceInfo& device : devices_or_reason(filter)) {
    const int number = index++;
    if (!filter.matches(device.name)) continue;
    Record record{"link " + device.name + "/" + std::to_string(kPort), {}};
    if (invocation.style.complete()) record.fields = {{"ifindex", number}, {"port", kPort}, {"ifname", device.name}};
    record.fields.update({{"state", device.active ? "ACTIVE" : "DOWN"},
                          {"physical_state", device.active ? "LINK_UP" : "DISABLED"},
                          {"netdev", device.netdev}});
    if (invocation.style.complete() || invocation.style.details > 0) {
      record.fields.update({{"netdev_index", device.ifindex},
                            {"netdev_mtu", device.netdev_mtu},
                            {"active_mtu", mtu_bytes(device.active_mtu)},
                            {"speed_mbps", device.speed_mbps}});
    }
    records.push_back(std::move(record));
  }
  print_records(records, invocation.style, "ifname port? state physical_state? netdev active_mtu speed_mbps");
  return 0;
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
    if (style.complete()) record.fields = {{"ifindex", i}, {"ifname", devices[i].name}};
    const auto sum = sums.find(devices[i].name);
    for (const char* key : {"cq", "qp", "mr", "ctx", "state_bytes"}) {
      record.fields[key] = sum == sums.end() ? Json(0) : sum->second.at(key);
    }
    records.push_back(std::move(record));
  }
  print_records(records, style, "ifindex? ifname cq qp mr ctx state_bytes");
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
      if (style.complete()) record.fields = {{"ifindex", i}, {"ifname", devices[i].name}};
      record.fields.update({{"ctxn", lease.at("slot")}, {"pid", lease.at("pid")}, {"comm", lease.at("comm")}});
      records.push_back(std::move(record));
    }
  }
  print_records(records, style, "ifname ctxn pid comm");
  return 0;
}

int show_cm_ids(const OutputStyle& style) {
  const auto answer = ask_daemon("cm_ids");
  std::vector<Record> records;
  int number = 0;
  for (const Json& id : answer ? answer->at("cm_ids") : Json::array()) {
    records.push_back({"cm_id " + std::to_string(number++), id});
  }
  print_records(records, style, "ps state src-addr src-port pid comm");
  return 0;
}

// What `resource show` lists of programs: the heading of its lines, as in rdma(8), and the columns on a terminal.
struct ResourceList {
  std::string_view what;
  const char* heading;
  std::string_view columns;
};
constexpr std::array kResourceLists{
    ResourceList{"qp", "link",
                 "ifname lqpn rqpn? type? state mode peer path_mtu? flight_bytes? srtt_us rate_mbps? pid? comm"},
    ResourceList{"cq", "dev", "ifname cqn cqe waiting users pid comm"},
    ResourceList{"mr", "dev", "ifname mrn lkey? rkey? mrlen access pid comm"},
    ResourceList{"gap", "link", "ifname lqpn direction psn packets state cause age_us depth? named? path? pid? comm"},
    ResourceList{"duplicate", "link", "ifname lqpn direction psn state age_us path? pid? comm"},
};

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
    if (word.starts_with("brdma_")) {
      request.target.device = word.substr(0, word.find('/'));
    } else if (request.has_filters()) {
      request.filters[word] = words.take_value(word);
    } else {
      throw grammar::unexpected(word, "resource");
    }
  }
  return request;
}

}  // namespace

// `resource show`: number of objects of each device. `resource show qp|cq|mr`: each of them. `gap|duplicate`: records
// of missing packets, and of packets that came twice. `ctx`: owners of contexts. `cm_id`: RDMA-CM's identifiers that
// have a port.
int resource_object(Invocation& invocation) {
  invocation.style.lists = true;
  const auto [what, target, filters] = take_resource_request(invocation);
  if (what.empty()) return show_objects(target, invocation.style);
  if (what == "ctx") return show_contexts(target, invocation.style);
  if (what == "cm_id") return show_cm_ids(invocation.style);
  const auto list = std::find_if(kResourceLists.begin(), kResourceLists.end(),
                                 [&what = what](const ResourceList& each) { return each.what == what; });
  return show_rows({{"query", "resource"}, {"what", what}}, target, filters, list->heading, list->columns,
                   invocation.style);
}

}  // namespace brdma
