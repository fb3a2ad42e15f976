#include "values/plan.h"

#include <algorithm>
#include <string>

#include "values/message.h"
#include "values/samples.h"

namespace brdma::perf {
namespace {

constexpr std::uint32_t kLoadSize = 65'536, kLoadDepth = 16;
constexpr std::uint64_t kCounterBytes = 64;

std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) { return (value + unit - 1) / unit * unit; }

std::uint32_t member(const Json& json, const char* key, std::uint32_t low, std::uint32_t high) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_number_unsigned() || found->get<std::uint64_t>() < low ||
      found->get<std::uint64_t>() > high) {
    throw RunError(std::string{"the plan's "} + key + " is not a number from " + std::to_string(low) + " to " +
                   std::to_string(high));
  }
  return found->get<std::uint32_t>();
}

bool flag(const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_boolean()) {
    throw RunError(std::string{"the plan's "} + key + " is neither true nor false");
  }
  return found->get<bool>();
}

template <std::size_t kCount>
std::size_t word(const Json& json, const char* key, const std::array<std::string_view, kCount>& names) {
  const auto found = json.find(key);
  if (found != json.end() && found->is_string()) {
    const auto at = std::find(names.begin(), names.end(), found->get_ref<const std::string&>());
    if (at != names.end()) return static_cast<std::size_t>(at - names.begin());
  }
  throw RunError(std::string{"the plan's "} + key + " is unknown");
}

Lane stream_lane(Operation operation, std::uint32_t size, std::uint32_t depth, std::uint32_t crc_every) {
  Lane lane{Role::kStream, operation, size, depth, crc_every, 0, 0, depth, 0, 0};
  switch (operation) {
    case Operation::kWrite:
      lane.slots = depth + kCheckedSlots;
      lane.server_receives = lane.client_receives = kCheckedSlots;
      break;
    case Operation::kSend:
      lane.slots = lane.server_receives = 2 * depth;
      break;
    case Operation::kRead:
    case Operation::kAtomic:
      break;
  }
  return lane;
}

Lane latency_lane(const Plan& plan) {
  if (plan.operation == Operation::kRead || plan.operation == Operation::kAtomic) {
    Lane lane = stream_lane(plan.operation, plan.size, 1, plan.crc_every);
    lane.role = Role::kOneByOne;
    return lane;
  }
  // Two slots go out in turn, two take what comes.
  return {Role::kPingPong, plan.operation, plan.size, 1, plan.crc_every, 0, 0, 4, 2, 2};
}

}  // namespace

std::string_view name_of(Operation operation) { return kOperationNames.at(static_cast<std::size_t>(operation)); }
std::string_view name_of(Mode mode) { return kModeNames.at(static_cast<std::size_t>(mode)); }

Json to_json(const Plan& plan) {
  return {{"version", kProtocolVersion}, {"operation", name_of(plan.operation)},
          {"mode", name_of(plan.mode)},  {"size", plan.size},
          {"depth", plan.depth},         {"queue_pairs", plan.queue_pairs},
          {"load", plan.load},           {"crc_every", plan.crc_every},
          {"clients", plan.clients},     {"sleeping", plan.sleeping},
          {"rdma_cm", plan.rdma_cm},     {"seed", plan.seed}};
}

Plan plan_from_json(const Json& json) {
  if (!json.is_object()) throw RunError("the plan is no JSON object");
  if (const auto version = json.find("version"); version == json.end() || *version != kProtocolVersion) {
    throw RunError("the two sides have different versions of brdma-perf: install the same on both");
  }
  Plan plan;
  plan.operation = static_cast<Operation>(word(json, "operation", kOperationNames));
  plan.mode = static_cast<Mode>(word(json, "mode", kModeNames));
  plan.size = member(json, "size", 1, kSizeMax);
  plan.depth = member(json, "depth", 1, kDepthMax);
  plan.queue_pairs = member(json, "queue_pairs", 1, kQueuePairsMax);
  plan.load = member(json, "load", 0, kQueuePairsMax);
  plan.crc_every = member(json, "crc_every", 1, 1u << 30);
  plan.clients = member(json, "clients", 1, kClientsMax);
  plan.sleeping = flag(json, "sleeping");
  plan.rdma_cm = flag(json, "rdma_cm");
  const auto seed = json.find("seed");
  if (seed == json.end() || !seed->is_number_unsigned()) throw RunError("the plan's seed is no number");
  plan.seed = seed->get<std::uint64_t>();
  require_valid(plan);
  return plan;
}

void require_valid(const Plan& plan) {
  if (plan.operation == Operation::kAtomic && plan.mode == Mode::kFct) {
    throw RunError("atomic fct: an atomic has 8 bytes; flows are for write, read and send");
  }
  if (plan.operation == Operation::kAtomic && plan.size != 8) throw RunError("atomic: the size is always 8");
  if (plan.load != 0 && plan.mode != Mode::kLatency) throw RunError("--load goes with lat");
  if (memory_of(lanes_of(plan)) > kMemoryMax) {
    throw RunError("size times depth times queue pairs needs more than 2 GiB: lower --depth, --size or --qps");
  }
}

std::vector<Lane> lanes_of(const Plan& plan) {
  std::vector<Lane> lanes;
  if (plan.mode == Mode::kLatency) {
    lanes.push_back(latency_lane(plan));
    for (std::uint32_t i = 0; i < plan.load; ++i) {
      lanes.push_back(stream_lane(Operation::kWrite, kLoadSize, kLoadDepth, 16));
    }
  } else {
    for (std::uint32_t i = 0; i < plan.queue_pairs; ++i) {
      lanes.push_back(stream_lane(plan.operation, plan.size, plan.depth, plan.crc_every));
    }
  }
  std::uint64_t offset = 0;
  for (Lane& lane : lanes) {
    lane.slot_bytes = round_up(lane.operation == Operation::kAtomic ? 8 : lane.size, kCounterBytes);
    lane.offset = offset;
    offset += round_up(lane.slot_bytes * lane.slots, kPageBytes);
  }
  return lanes;
}

std::uint64_t memory_of(const std::vector<Lane>& lanes) {
  if (lanes.empty()) return 0;
  return lanes.back().offset + round_up(lanes.back().slot_bytes * lanes.back().slots, kPageBytes);
}

}  // namespace brdma::perf
