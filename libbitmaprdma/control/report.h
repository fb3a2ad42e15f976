// control/report.h - state of an engine's objects and settings, as JSON with stable keys (docs/reference/cli.md lists
// them). Names are those of rdma(8) where it has one.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/config.h"
#include "base/ip_address.h"
#include "device/report.h"
#include "memory/memory_table.h"
#include "qp/state/duplicate_log.h"
#include "qp/state/open_gap.h"

namespace brdma::control {

using Json = nlohmann::ordered_json;

// {"recovery.mode":"bitmap","recovery.window":4096,...}: numbers as numbers, switches as true and false.
[[nodiscard]] Json recovery_json(const RecoveryConfig& config);
[[nodiscard]] Json transfer_json(const TransferConfig& config);  // likewise

[[nodiscard]] Json queue_pair_json(const QueuePairReport& report);             // lqpn, rqpn, type, state, ...
[[nodiscard]] Json queue_pair_statistics_json(const QueuePairReport& report);  // lqpn and its counters
// Records of a gap and of a duplicate (docs/reference/cli.md). `now` is the engine's clock, `unix_ns` the time of day
// then.
[[nodiscard]] Json gap_json(std::uint32_t qpn, const qp::OpenGap& gap, Instant now, std::int64_t unix_ns);
[[nodiscard]] Json duplicate_json(const qp::Duplicate& duplicate, Instant now, std::int64_t unix_ns);
[[nodiscard]] Json completion_queue_json(const CompletionQueueReport& report);
[[nodiscard]] Json memory_region_json(const MemoryRegion& region);

// Checks a request {"recovery.depth_max":"100",...}: returns its fault, or nothing. `of_one`: for one queue pair;
// transfers have settings of the device only.
[[nodiscard]] std::string check_changes(const Json& changes, bool of_one = false);
// Writes checked changes into `config`; `made`: only those that apply to existing queue pairs.
void apply_changes(const Json& changes, RecoveryConfig& config, bool made);
void apply_changes(const Json& changes, TransferConfig& config);
// {"recovery.depth_max":"now",...}: the reach of each change.
[[nodiscard]] Json reach_json(const Json& changes);

// "10.0.0.1" or "fd00::1".
[[nodiscard]] std::string address_text(const IpAddress& address);

}  // namespace brdma::control
