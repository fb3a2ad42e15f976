#include "rdma_netlink/daemon_source.h"

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>

#include "control/address_text.h"
#include "device_files/counter_files.h"
#include "io/daemon/daemon_client.h"
#include "rdma_netlink/entries.h"

namespace brdma::provider::nldev {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::ptrdiff_t kV4Begin = 12;  // of a mapped address

// brdmad's name of what programs list themselves. Null: it knows them itself.
const char* question_of(Resource kind) {
  switch (kind) {
    case Resource::kQueuePair:
      return "qp";
    case Resource::kCompletionQueue:
      return "cq";
    case Resource::kMemoryRegion:
      return "mr";
    case Resource::kProtectionDomain:
      return "pd";
    case Resource::kSharedReceiveQueue:
      return "srq";
    case Resource::kCmId:
    case Resource::kContext:
      break;
  }
  return nullptr;
}

// No answer: no brdmad runs, so no program uses a device.
Result<std::optional<Json>, int> ask(const nlohmann::json& question) {
  auto reply = io::query_daemon(question);
  if (reply.ok()) return std::optional<Json>{std::move(reply).value()};
  if (reply.reason().error == ENOENT) return std::optional<Json>{};
  return reply.reason().error;
}

// Calls `take` for each element of the list. One of another form than expected is left out.
template <class Take>
void for_each_of(const std::optional<Json>& reply, const char* list, Take take) {
  if (!reply || !reply->is_object() || !reply->contains(list)) return;
  for (const Json& each : reply->at(list)) {
    try {
      take(each);
    } catch (const Json::exception&) {
      continue;
    }
  }
}

// 0.0.0.0 or ::.
bool is_any(const IpAddress& address) {
  const auto first = address.bytes.begin() + (address.is_v4() ? kV4Begin : 0);
  return std::all_of(first, address.bytes.end(), [](auto byte) { return byte == 0; });
}

// The address is one of the device's, or any.
bool is_on(const Json& id, const DeviceInfo& device) {
  const auto address = parse_address(id.at("src-addr").get_ref<const std::string&>());
  if (!address) return false;
  const auto is_it = [&address](const DeviceInfo::Gid& gid) { return gid.address == *address; };
  return is_any(*address) || std::any_of(device.gids.begin(), device.gids.end(), is_it);
}

}  // namespace

std::vector<DeviceInfo> DaemonSource::devices() { return list_devices(); }

Result<std::vector<Entry>, int> DaemonSource::entries(Resource kind, const DeviceInfo& device, bool keys) {
  if (kind == Resource::kCmId) return cm_ids(device);
  if (kind == Resource::kContext) return contexts(device);
  const auto reply = ask({{"query", "resource"}, {"what", question_of(kind)}, {"device", device.name}});
  if (!reply) return reply.reason();
  std::vector<Entry> entries;
  for_each_of(reply.value(), "answers", [&](const Json& answer) {
    std::vector<Entry> of_one;  // kept whole, or not at all
    for (const Json& row : answer.at("rows")) {
      const auto place = static_cast<std::uint32_t>(entries.size() + of_one.size());
      of_one.push_back(entry_of(kind, row, answer, place, keys));
    }
    std::move(of_one.begin(), of_one.end(), std::back_inserter(entries));
  });
  return entries;
}

Result<std::vector<Entry>, int> DaemonSource::cm_ids(const DeviceInfo& device) {
  const auto reply = ask({{"query", "cm_ids"}});
  if (!reply) return reply.reason();
  std::vector<Entry> entries;
  std::uint32_t place = 0;
  for_each_of(reply.value(), "cm_ids", [&](const Json& id) {
    const std::uint32_t number = place++;
    if (is_on(id, device)) entries.push_back(entry_of(Resource::kCmId, id, id, number, false));
  });
  return entries;
}

Result<std::vector<Entry>, int> DaemonSource::contexts(const DeviceInfo& device) {
  const auto reply = ask({{"query", "leases"}});
  if (!reply) return reply.reason();
  std::vector<Entry> entries;
  for_each_of(reply.value(), "leases", [&](const Json& lease) {
    if (lease.at("device") == device.name) entries.push_back(entry_of(Resource::kContext, lease, lease, 0, false));
  });
  return entries;
}

Result<std::array<std::uint64_t, kResources>, int> DaemonSource::summary(const DeviceInfo& device) {
  std::array<std::uint64_t, kResources> counts{};
  const auto count = [&counts](Resource kind) -> std::uint64_t& { return counts[static_cast<std::size_t>(kind)]; };
  const auto reply = ask({{"query", "resource"}, {"what", "objects"}, {"device", device.name}});
  if (!reply) return reply.reason();
  for_each_of(reply.value(), "answers", [&](const Json& answer) {
    std::array<std::uint64_t, kResources> of_one{};
    for (const Resource kind : {Resource::kProtectionDomain, Resource::kCompletionQueue, Resource::kQueuePair,
                                Resource::kMemoryRegion, Resource::kSharedReceiveQueue}) {
      of_one[static_cast<std::size_t>(kind)] = answer.at(question_of(kind)).get<std::uint64_t>();
    }
    for (std::size_t i = 0; i < kResources; ++i) counts[i] += of_one[i];
  });
  for (const Resource kind : {Resource::kCmId, Resource::kContext}) {
    const auto all = entries(kind, device, false);
    if (!all) return all.reason();
    count(kind) = all.value().size();
  }
  return counts;
}

Result<Counters, int> DaemonSource::counters(const DeviceInfo& device) { return preload::hardware_counters(device); }

}  // namespace brdma::provider::nldev
