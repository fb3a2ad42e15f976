// values/plan.h - what both sides of a run do, as the client asks and the server accepts: kinds, sizes, memory.
//
// A *lane* is one queue pair with its role and its part of each side's memory. Both sides compute the same lanes from
// the plan, so that only the plan travels.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

namespace brdma::perf {

using Json = nlohmann::json;

enum class Operation { kWrite, kRead, kSend, kAtomic };
enum class Mode { kBandwidth, kLatency, kRate, kFct };
constexpr std::array<std::string_view, 4> kOperationNames{"write", "read", "send", "atomic"};
constexpr std::array<std::string_view, 4> kModeNames{"bw", "lat", "rate", "fct"};
[[nodiscard]] std::string_view name_of(Operation operation);
[[nodiscard]] std::string_view name_of(Mode mode);

constexpr std::uint32_t kProtocolVersion = 1;
constexpr std::uint32_t kSizeMax = 1u << 30, kDepthMax = 8192, kQueuePairsMax = 256, kClientsMax = 64;
constexpr std::uint64_t kMemoryMax = std::uint64_t{1} << 31;  // of one client, on each side
constexpr std::uint32_t kCheckedSlots = 4;                    // of checked WRITEs in flight, a queue pair

struct Plan {
  Operation operation = Operation::kWrite;
  Mode mode = Mode::kBandwidth;
  std::uint32_t size = 65'536;  // bytes of a message; fct: the largest message, longer flows are several
  std::uint32_t depth = 128;    // messages in flight on a queue pair
  std::uint32_t queue_pairs = 1;
  std::uint32_t load = 0;        // latency: further queue pairs that WRITE all the time
  std::uint32_t crc_every = 16;  // so many messages have one with a CRC; WRITE: one that the server checks at once
  std::uint32_t clients = 1;     // of this run, all started together
  bool sleeping = false;         // wait for completion events instead of polling
  bool rdma_cm = false;          // queue pairs are connected by RDMA-CM
  std::uint64_t seed = 1;        // of pattern and flows
};

[[nodiscard]] Json to_json(const Plan& plan);
// What a peer sent. Throws RunError with the reason if a member is missing, of another type or out of range.
[[nodiscard]] Plan plan_from_json(const Json& json);
// Throws RunError if the parts do not go together or need too much memory.
void require_valid(const Plan& plan);

enum class Role { kStream, kPingPong, kOneByOne };  // one-by-one: the next when the last is complete

struct Lane {
  Role role;
  Operation operation;
  std::uint32_t size, depth, crc_every;
  std::uint64_t offset, slot_bytes;  // slot i begins at offset + i * slot_bytes, on either side
  std::uint32_t slots;
  // Receives that the server has posted; the client: for credits or replies.
  std::uint32_t server_receives, client_receives;
};
[[nodiscard]] std::vector<Lane> lanes_of(const Plan& plan);
[[nodiscard]] std::uint64_t memory_of(const std::vector<Lane>& lanes);

}  // namespace brdma::perf
