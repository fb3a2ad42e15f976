// Records of gaps and duplicates (spec 1: management).
#include <chrono>
#include <mutex>
#include <string>
#include <utility>

#include "control/report.h"
#include "io/clock.h"
#include "io/management.h"
#include "io/management_answers.h"

namespace brdma::io {
namespace {

using Json = nlohmann::ordered_json;

std::int64_t unix_now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

Json Management::gaps(const Json& request) {
  const bool keys = shows_keys(request);
  const std::vector<std::uint32_t> numbers = numbers_of(request);
  Rows rows;
  bool room = true;
  for (std::size_t at = 0; at < numbers.size() && room; ++at) {
    std::vector<qp::OpenGap> open;
    const Instant now = monotonic_now();
    {
      const std::lock_guard held{shard_.lock()};
      open = shard_.engine().open_gaps(numbers[at], now);
    }
    const std::int64_t unix_ns = unix_now_ns();
    for (std::size_t i = 0; i < open.size() && room; ++i) {
      Json row = control::gap_json(numbers[at], open[i], now, unix_ns);
      if (!keys) hide_keys(row);
      room = rows.add(std::move(row));
    }
  }
  return std::move(rows).answer();
}

Json Management::duplicates(const Json& request) {
  const bool keys = shows_keys(request);
  const auto only = queue_pair_of(request);
  std::vector<qp::Duplicate> last;
  const Instant now = monotonic_now();
  {
    const std::lock_guard held{shard_.lock()};
    last = shard_.engine().duplicates();
    if (only) std::erase_if(last, [&only](const qp::Duplicate& each) { return each.qpn != *only; });
  }
  Json rows = Json::array();
  const std::int64_t unix_ns = unix_now_ns();
  for (const qp::Duplicate& each : last) {
    rows.push_back(control::duplicate_json(each, now, unix_ns));
    if (!keys) hide_keys(rows.back());
  }
  return {{"rows", std::move(rows)}, {"cut", false}};
}

}  // namespace brdma::io
