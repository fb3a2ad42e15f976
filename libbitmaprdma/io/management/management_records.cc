// Records of gaps and duplicates, and retransmissions by hand (design BR-41).
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "control/report.h"
#include "io/management/management.h"
#include "io/management/management_answers.h"
#include "io/shard/clock.h"

namespace brdma::io {
namespace {

using Json = nlohmann::ordered_json;

std::int64_t unix_now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// Nothing: a psn or a count that cannot be.
std::optional<Engine::Retransmission> retransmission_of(const Json& request) {
  const auto gaps = request.find("gaps");
  const auto psn = number_of(request, "psn"), count = number_of(request, "count");
  if (request.contains("psn") && (!psn || *psn > Psn::kMask)) return std::nullopt;
  if (request.contains("count") && (!count || *count == 0)) return std::nullopt;
  Engine::Retransmission which;
  which.gaps = gaps != request.end() && *gaps == true;
  if (psn) which.psn = Psn{*psn};
  which.count = count.value_or(1);
  return which;
}

// `reason`: Engine::retransmit()'s.
Json no_retransmission(int reason, std::uint32_t qpn, bool gaps) {
  switch (reason) {
    case ENOENT:
      return no_such_queue_pair(qpn);
    case EINVAL:
      return error_json(EINVAL, "queue pair " + std::to_string(qpn) + " is not RC, or not connected");
    default:
      return error_json(ERANGE, gaps ? "nothing is missing there" : "nothing is outstanding there");
  }
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
  const std::lock_guard held{shard_.lock()};
  shard_.engine().note_query(/*duplicates=*/false, queue_pair_of(request).value_or(0), rows.size(), monotonic_now());
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
    shard_.engine().note_query(/*duplicates=*/true, only.value_or(0), last.size(), now);
  }
  Json rows = Json::array();
  const std::int64_t unix_ns = unix_now_ns();
  for (const qp::Duplicate& each : last) {
    rows.push_back(control::duplicate_json(each, now, unix_ns));
    if (!keys) hide_keys(rows.back());
  }
  return {{"rows", std::move(rows)}, {"cut", false}};
}

Json Management::retransmit(const Json& request) {
  const auto qpn = queue_pair_of(request);
  if (!qpn) return error_json(EINVAL, "a queue pair was expected");
  const auto which = retransmission_of(request);
  if (!which) return error_json(EINVAL, "psn: 0..16777215, count: from 1 on, were expected");
  const auto asked = [&] {
    const std::lock_guard held{shard_.lock()};
    const Instant now = monotonic_now();
    const auto result = shard_.engine().retransmit(*qpn, *which, now);
    shard_.settle(now);  // it has output now
    return std::pair{result, shard_.progress_owner().take_wake_request()};
  }();
  if (asked.second) shard_.progress_owner().wake();
  if (!asked.first.ok()) return no_retransmission(asked.first.reason(), *qpn, which->gaps);
  const qp::RetransmitRequested& done = asked.first.value();
  Json answer = {{"lqpn", *qpn}, {"psn", done.first.value()}, {"packets", done.packets}, {"gaps", done.gaps}};
  if (!shows_keys(request)) hide_keys(answer);
  return answer;
}

}  // namespace brdma::io
