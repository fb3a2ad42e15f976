#include "qp/timers/deadlines.h"

#include <algorithm>

#include "qp/loss/sender_judgement.h"

namespace brdma::qp {
namespace {

void consider(std::optional<Instant>& first, std::optional<Instant> at) {
  if (at && (!first || *at < *first)) first = at;
}

}  // namespace

std::optional<Instant> Deadlines::first() const {
  if (!parts_.id.can_send()) return std::nullopt;
  if (parts_.rnr.waiting()) return parts_.rnr.until();
  std::optional<Instant> first = retransmission();
  consider(first, probe());
  if (may_exceed_retry_limit()) {
    consider(first, retry_limit());
    consider(first, stopped_query());
  }
  if (parts_.loss) consider(first, parts_.loss->response_judge_at);
  consider(first, parts_.admission.probe_at());
  consider(first, bridge());
  consider(first, stall());
  if (parts_.judge != nullptr)
    consider(first, parts_.judge->judged_at(parts_.id.recovery->wan.walk_interval, lengths().probe()));
  consider(first, inquiry());
  consider(first, parts_.loss.paused_until());
  if (parts_.scoreboard.pending() > 0) consider(first, parts_.loss.held_until());
  return first;
}

// Apart from what else a turn asks, so that the compiler keeps it short.
[[gnu::noinline]] Instant Deadlines::plain() const { return lengths().first_due(); }

std::optional<Instant> Deadlines::retransmission() const {
  const Identity& id = parts_.id;
  if (parts_.scoreboard.empty() || parts_.rnr.waiting()) return std::nullopt;
  if (!id.bitmap_agreed && id.attributes.timeout == 0) return std::nullopt;
  const Duration timeout = id.bitmap_agreed ? lengths().retransmission() : lengths().attribute();
  return parts_.timers.armed() + (peer_is_stopped() ? std::max(timeout, lengths().stopped()) : timeout);
}

std::optional<Instant> Deadlines::probe() const {
  const Scoreboard& board = parts_.scoreboard;
  if (board.empty() || board.pending() > 0 || parts_.rnr.waiting() || parts_.timers.probe_sent()) return std::nullopt;
  if (lengths().follows_irn()) return std::nullopt;
  // A standard peer does not acknowledge a duplicate probe; but a READ can be re-requested from any peer.
  if (!parts_.id.bitmap_agreed && (parts_.responses.packets() == 0 || parts_.id.goes_back())) return std::nullopt;
  return parts_.timers.activity() + lengths().probe();
}

std::optional<Instant> Deadlines::retry_limit() const {
  if (parts_.scoreboard.empty() || parts_.rnr.waiting() || parts_.id.attributes.timeout == 0) return std::nullopt;
  const Instant progress = parts_.timers.progress();
  const Instant from = parts_.signals ? parts_.signals->stopped.silent_from(progress) : progress;
  return from + lengths().retries();
}

bool Deadlines::peer_is_stopped() const {
  return parts_.signals && parts_.signals->stopped.is_stopped(parts_.timers.progress());
}

recovery::StoppedPeerLimits Deadlines::stopped_limits() const {
  return {.retries = lengths().retries(), .stopped_max = parts_.id.recovery->stopped_peer_max};
}

std::optional<Instant> Deadlines::stopped_query() const {
  if (parts_.scoreboard.empty() || parts_.rnr.waiting() || parts_.id.attributes.timeout == 0) return std::nullopt;
  const recovery::StoppedPeer peer = parts_.signals ? parts_.signals->stopped : recovery::StoppedPeer{};
  return peer.query_at(parts_.timers.progress(), stopped_limits());
}

std::optional<Instant> Deadlines::stall() const {
  if (!parts_.id.bitmap_agreed || !parts_.scoreboard.has_holes() || parts_.rnr.waiting()) return std::nullopt;
  if (parts_.judge != nullptr || !parts_.timers.acknowledged_since_stall()) return std::nullopt;
  return parts_.scoreboard.cumulative_moved() + lengths().stall();
}

std::optional<Instant> Deadlines::bridge() const {
  if (!parts_.id.bitmap_agreed || parts_.scoreboard.pending() > 0 || parts_.timers.has_undecided()) return std::nullopt;
  return parts_.admission.bridge_at(parts_.congestion);
}

std::optional<Instant> Deadlines::inquiry() const {
  return parts_.signals && parts_.signals->inquiry ? parts_.signals->inquiry->open_until() : std::nullopt;
}

}  // namespace brdma::qp
