#include "run/greeting.h"

#include <limits>
#include <string>

#include "values/samples.h"

namespace brdma::perf {
namespace {

constexpr std::uint64_t kAny = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t kNumberMax = 0xFF'FFFF;  // of queue pairs and PSNs

[[noreturn]] void malformed(const std::string& key) {
  throw RunError("the other side's '" + key + "' is missing or malformed: is it brdma perf of this version?");
}

const Json& member(const Json& message, const char* key) {
  const auto found = message.is_object() ? message.find(key) : message.end();
  if (found == message.end()) malformed(key);
  return *found;
}

const Json& list(const Json& message, const char* key, std::size_t count) {
  const Json& values = member(message, key);
  if (!values.is_array() || values.size() != count) malformed(key);
  return values;
}

}  // namespace

std::uint64_t number_from(const Json& message, const char* key, std::uint64_t most) {
  const Json& value = member(message, key);
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > most) malformed(key);
  return value.get<std::uint64_t>();
}

Json to_json(const Place& place) {
  return {{"gid", gid_text(place.gid)}, {"lid", place.lid}, {"mtu", place.mtu}, {"ethernet", place.ethernet}};
}

Place place_from(const Json& message) {
  const Json& json = member(message, "place");
  Place place;
  const Json &gid = member(json, "gid"), &ethernet = member(json, "ethernet");
  if (!gid.is_string() || !ethernet.is_boolean()) malformed("place");
  place.gid = gid_from_text(gid.get<std::string>());
  place.lid = static_cast<std::uint16_t>(number_from(json, "lid", 0xFFFF));
  place.mtu = static_cast<std::uint32_t>(number_from(json, "mtu", IBV_MTU_4096));
  if (place.mtu < IBV_MTU_256) malformed("mtu");
  place.ethernet = ethernet.get<bool>();
  return place;
}

Json to_json(const RemoteMemory& memory) { return {{"address", memory.address}, {"key", memory.key}}; }

RemoteMemory memory_from(const Json& message) {
  const Json& json = member(message, "memory");
  return {number_from(json, "address", kAny), static_cast<std::uint32_t>(number_from(json, "key", 0xFFFF'FFFF))};
}

Json to_json(const std::vector<RemoteQueuePair>& queue_pairs) {
  Json list = Json::array();
  for (const RemoteQueuePair& each : queue_pairs) list.push_back({{"number", each.number}, {"psn", each.psn}});
  return list;
}

std::vector<RemoteQueuePair> queue_pairs_from(const Json& message, std::size_t count) {
  std::vector<RemoteQueuePair> queue_pairs;
  for (const Json& each : list(message, "queue_pairs", count)) {
    queue_pairs.push_back({static_cast<std::uint32_t>(number_from(each, "number", kNumberMax)),
                           static_cast<std::uint32_t>(number_from(each, "psn", kNumberMax))});
  }
  return queue_pairs;
}

Json to_json(const std::vector<LaneCount>& counts) {
  Json list = Json::array();
  for (const LaneCount& each : counts) list.push_back({{"plain", each.plain}, {"checked", each.checked}});
  return list;
}

std::vector<LaneCount> counts_from(const Json& message, std::size_t count) {
  std::vector<LaneCount> counts;
  for (const Json& each : list(message, "lanes", count)) {
    counts.push_back({number_from(each, "plain", kAny), number_from(each, "checked", kAny)});
  }
  return counts;
}

CheckTotals checks_from(const Json& message) {
  return {number_from(message, "messages", kAny), number_from(message, "by_crc", kAny),
          number_from(message, "flaws", kAny), number_from(message, "ns", kAny)};
}

}  // namespace brdma::perf
