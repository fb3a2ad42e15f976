// run/greeting.h - the messages with which both sides agree, as JSON and back. Numbers of a peer are checked for their
// range here; errors are RunError.
//
//   client  {plan}
//   server  {place, memory, queue_pairs}                      or, for RDMA-CM, {memory, cm_port, token}
//   client  {place, memory, queue_pairs}                      or {memory}
//   server  {go: true}                                        when all clients are there
//   client  {done: true, lanes: [{plain, checked}], kbytes_s}
//   server  {messages, by_crc, flaws, ns, flaw}
// Either side: {error}, then it closes.
#pragma once

#include <cstdint>
#include <vector>

#include "values/plan.h"
#include "values/recording.h"
#include "verbs/endpoint.h"

namespace brdma::perf {

[[nodiscard]] Json to_json(const Place& place);
[[nodiscard]] Place place_from(const Json& message);
[[nodiscard]] Json to_json(const RemoteMemory& memory);
[[nodiscard]] RemoteMemory memory_from(const Json& message);
[[nodiscard]] Json to_json(const std::vector<RemoteQueuePair>& queue_pairs);
// Exactly `count`.
[[nodiscard]] std::vector<RemoteQueuePair> queue_pairs_from(const Json& message, std::size_t count);

// Messages of a lane that the client has sent: WRITEs without and with immediate; else all are plain.
struct LaneCount {
  std::uint64_t plain = 0, checked = 0;
};
[[nodiscard]] Json to_json(const std::vector<LaneCount>& counts);
[[nodiscard]] std::vector<LaneCount> counts_from(const Json& message, std::size_t count);

[[nodiscard]] CheckTotals checks_from(const Json& message);
[[nodiscard]] std::uint64_t number_from(const Json& message, const char* key, std::uint64_t most);

}  // namespace brdma::perf
