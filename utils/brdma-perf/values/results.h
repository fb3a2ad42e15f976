// values/results.h - a run's results as one JSON object, from which text and picture are made. Keys are only ever
// added.
//
//   program version operation mode server device gid mtu start completion
//   size depth queue_pairs load_queue_pairs clients crc_every sizes every_us seed
//   elapsed_s messages bytes
//   steady           {from_s, to_s, found}         the part that counts; found: "given" or "series"
//   goodput          {mbytes_s, low, high, whole_run}      MB/s are 10^6 bytes a second; low, high: 95 % interval or
//   null rate             {messages_s, low, high} latency          null or {count, min_us, mean_us, max_us,
//   percentiles: [{percent, us, low, high}]}; fct: of all flows flows            null or [{from_bytes, to_bytes, count,
//   percentiles: [...]}]     fct, by size load             null or {mbytes_s} intervals        {seconds, mbytes_s:
//   [...]} stall            {longest_ms, at_s} check            {messages, by_crc, flaws, seconds} cpu {seconds}
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "values/plan.h"
#include "values/recording.h"
#include "values/samples.h"

namespace brdma::perf {

struct Run {
  Plan plan;
  std::string server, device, gid, sizes;
  std::uint32_t mtu = 0;
  std::int64_t every = 0, elapsed = 0;  // ns
  std::optional<std::int64_t> warmup;   // ns, as given
  std::uint64_t messages = 0, bytes = 0;
  double cpu_seconds = 0;
  CheckTotals checks;  // of both sides
  Recording recording;
  std::optional<std::uint64_t> load_bytes;
};

[[nodiscard]] Json results_of(const Run& run);
// For people. Several lines, each with its end.
[[nodiscard]] std::string text_of(const Json& results);

// An incast as its server sees it: {clients: [{client, mbytes_s}], total_mbytes_s, fairness}; and as text.
struct ClientShare {
  std::string name;
  double mbytes_s;
};
[[nodiscard]] Json incast_of(const std::vector<ClientShare>& shares);
[[nodiscard]] std::string incast_text(const Json& incast);

[[nodiscard]] Json to_json(const Estimate& estimate, const char* key);

}  // namespace brdma::perf
