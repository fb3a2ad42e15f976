// results/summary.h - a run's result as JSON with stable keys, as rows of text, as a picture; the mean over seeds.
// Pure.
//
// JSON: {"scenario", "name", "input_digest", "digest", "seed", "protocols", "hosts", "switches", "workloads":
// [{"label", "flows", "load", "load_of", "load_counts", "mean_bytes"}], "flows": {"all", "measured", "unfinished",
// "broken", "waited"}, "fct_us": {"mean", "p50", "p95", "p99", "p999"}, "slowdown": the same, "by_size": [...],
// "by_workload":
// [...], "links", "drops", "data_packets", "retransmitted", "retransmitted_packets", "timeouts", "notices",
// "rewritten_acks", "packet_events", "length_us"}. An estimate is {"value", "low", "high"}: 95 % by order statistics
// (the mean: by batches); null where so few flows give none.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "run/simulation.h"

namespace brdma::simulator {

using Json = nlohmann::ordered_json;

[[nodiscard]] Json summary_of(const Scenario& scenario, const RunResult& result);
// A row for each flow, with a line of names above.
[[nodiscard]] std::string rows_of(const Scenario& scenario, const RunResult& result);
// What a person reads at the end of a run.
[[nodiscard]] std::string text_of(const Json& summary);
// The part of flows that took so long or longer; their slowdown.
[[nodiscard]] std::string picture_of(const Scenario& scenario, const Json& summary, const RunResult& result);

// Of the rows: FNV-1a.
[[nodiscard]] std::string digest_of(const std::string& rows);

// Flows that count: not of the warm-up, and done.
[[nodiscard]] std::vector<const FlowResult*> measured(const Scenario& scenario, const RunResult& result);
[[nodiscard]] double slowdown(const FlowResult& flow);  // at least 1

// Size bins with an equal number of flows each, 20 at most, of at least 20 flows; flows of one size share a bin.
struct SizeBin {
  std::uint64_t least = 0, most = 0;  // bytes
  std::vector<double> slowdowns;      // rising
};
[[nodiscard]] std::vector<SizeBin> size_bins(const std::vector<const FlowResult*>& flows);

// The mean over seeds with Student's 95 % interval: mean +- t(n-1) s / sqrt(n). One value: no interval.
[[nodiscard]] Json mean_over_seeds(const std::vector<double>& values);

}  // namespace brdma::simulator
