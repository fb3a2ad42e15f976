#include "qp/paths/response_paths.h"

#include <algorithm>
#include <cstdint>

#include "qp/paths/path_probing.h"

namespace brdma::qp {
namespace {

// Of the largest batches; several times the data in flight on a long path.
constexpr std::size_t kRunsKept = 256;
// After so many runs a loss on a path is forgotten: more than wait for a response.
constexpr std::uint32_t kRunsRemembered = 32;
constexpr std::uint32_t kLossyPpm = 1000;  // recent: a loss counts for some 180 packets of the path
constexpr std::size_t kBatchWhereLossy = 4;

}  // namespace

ResponsePaths::ResponsePaths(std::uint32_t count, Spraying spraying) : paths_(count), facts_(count), spray_(spraying) {}

std::uint8_t ResponsePaths::choose(std::span<const recovery::PathFacts> sending, std::optional<Psn> again,
                                   Instant now) {
  for (std::size_t i = 0; i < paths_.size(); ++i) {
    if (!paths_[i].in_use && now >= paths_[i].probe_at) return static_cast<std::uint8_t>(i);
  }
  for (std::size_t i = 0; i < paths_.size(); ++i) {
    facts_[i].usable = paths_[i].in_use;
    if (i < sending.size()) facts_[i].round_trip = sending[i].round_trip;
  }
  std::optional<std::uint8_t> avoid;
  if (again) {
    if (const Run* const run = find(*again)) avoid = run->path;
  }
  return spray_.choose(facts_, avoid);
}

std::size_t ResponsePaths::batch_max(std::uint8_t path) const {
  if (!paths_[path].in_use) return 1;
  const bool lossy = std::any_of(facts_.begin(), facts_.end(),
                                 [](const recovery::PathFacts& facts) { return facts.loss_ppm >= kLossyPpm; });
  return lossy ? kBatchWhereLossy : SIZE_MAX;
}

void ResponsePaths::begin_run(std::uint8_t number, Psn psn) {
  Path& path = paths_[number];
  if (path.silent_runs > 0 && path.runs - path.last_silent > kRunsRemembered) path.silent_runs = 0;
  if (runs_.size() < kRunsKept) {
    newest_ = runs_.size();
    runs_.emplace_back();
  } else {
    newest_ = (newest_ + 1) % kRunsKept;
  }
  runs_[newest_] = {.first = psn, .number = path.runs++, .packets = 0, .lost = 0, .path = number};
  run_open_ = true;
}

wire::BeforeOnPath ResponsePaths::sent(std::uint8_t path, Psn psn, bool again) {
  Path& on = paths_[path];
  if (!run_open_ || runs_[newest_].first + runs_[newest_].packets != psn) begin_run(path, psn);
  ++runs_[newest_].packets;
  std::uint32_t& loss = facts_[path].loss_ppm;
  loss -= loss >> kLossGainShift;
  return again ? wire::BeforeOnPath{} : on.trail.extend(psn, 1);
}

void ResponsePaths::batch_left(std::uint8_t path, Instant now) {
  run_open_ = false;
  Path& on = paths_[path];
  if (on.in_use) return spray_.took(facts_, path);
  on.tried = true;
  on.probe_at = now + on.probe_interval;
  on.probe_interval = std::min(on.probe_interval * 2, kProbeMax);
}

// The newest run with `psn`: a retransmission took another path.
ResponsePaths::Run* ResponsePaths::find(Psn psn) {
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    Run& run = runs_[(newest_ + runs_.size() - i) % runs_.size()];
    const std::int32_t place = distance(psn, run.first);
    if (place >= 0 && place < run.packets) return &run;
  }
  return nullptr;
}

std::optional<std::uint8_t> ResponsePaths::on_rerequest(Psn first, std::uint32_t count, Instant now) {
  std::optional<std::uint8_t> aside;
  for (std::uint32_t done = 0; done < count;) {
    Run* const run = find(first + done);
    if (run == nullptr) return aside;  // too old; and so are the rest, or they never left
    const auto rest = run->packets - static_cast<std::uint32_t>(distance(first + done, run->first));
    const std::uint32_t lost = std::min(rest, count - done);
    done += lost;
    facts_[run->path].loss_ppm += std::min(lost << (20 - kLossGainShift), kPpm - facts_[run->path].loss_ppm);
    const bool was_lost = run->lost >= run->packets;
    run->lost = static_cast<std::uint16_t>(std::min<std::uint32_t>(run->lost + lost, run->packets));
    if (!was_lost && run->lost == run->packets && falls_silent(*run, now)) aside = run->path;
  }
  return aside;
}

// `run` was lost as a whole.
bool ResponsePaths::falls_silent(const Run& run, Instant now) {
  Path& path = paths_[run.path];
  path.tried = false;
  if (run.number != path.last_silent + 1) path.silent_runs = 0;
  if (path.silent_runs++ == 0) path.silent_packets = 0;
  path.silent_packets += run.packets;
  path.last_silent = run.number;
  if (!path.in_use || path.silent_runs < kSilentRuns || path.silent_packets < kSilentPackets) return false;
  // If all paths lost their runs, the path was not the cause.
  const bool another_is_alive = std::any_of(paths_.begin(), paths_.end(),
                                            [](const Path& other) { return other.in_use && other.silent_runs == 0; });
  if (!another_is_alive) return false;
  path.in_use = false;
  path.probe_interval = kProbeFirst;
  path.probe_at = now + kProbeFirst;
  return true;
}

std::optional<std::uint8_t> ResponsePaths::take_back(Instant now) {
  for (std::size_t i = 0; i < paths_.size(); ++i) {
    Path& path = paths_[i];
    if (path.in_use || !path.tried || now < path.probe_at) continue;
    path.in_use = true;
    path.tried = false;
    path.silent_runs = 0;
    return static_cast<std::uint8_t>(i);
  }
  return std::nullopt;
}

}  // namespace brdma::qp
