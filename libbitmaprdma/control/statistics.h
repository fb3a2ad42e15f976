// control/statistics.h - statistics as JSON with stable keys (the names of trace/counters.h and trace/drop_reason.h),
// sums and differences of them.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "trace/counters.h"

namespace brdma::control {

// A copy taken word by word while another process may write: each word is consistent, the whole is not.
[[nodiscard]] Statistics snapshot(const Statistics& live);
void accumulate(Statistics& sum, const Statistics& part);
// Counters only grow; where `after` is less (another process's page), the difference is 0.
[[nodiscard]] Statistics difference(const Statistics& after, const Statistics& before);

// {"sent_pkts":1, ..., "drop_bad_icrc":0}: every counter and every drop reason, in the order of the lists.
[[nodiscard]] nlohmann::ordered_json to_json(const Statistics& statistics);
// Missing keys count 0, unknown ones are skipped (an older or newer brdmad). False: not an object of numbers.
[[nodiscard]] bool from_json(const nlohmann::json& object, Statistics& statistics);

// Changes when a counter is added, removed or moved: two programs may share a Statistics only when theirs are equal.
[[nodiscard]] constexpr std::uint64_t statistics_layout() {
  std::uint64_t hash = 0xCBF29CE484222325u;  // FNV-1a over all names
  const auto mix = [&hash](std::string_view text) {
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
    hash = (hash ^ 0xFF) * 0x100000001B3u;
  };
  for (const std::string_view name : kCounterNames) mix(name);
  for (const std::string_view name : kDropReasonNames) mix(name);
  return hash;
}

}  // namespace brdma::control
