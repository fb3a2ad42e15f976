#include "qp/paths/paths_send.h"

#include <algorithm>
#include <utility>

#include "qp/paths/path_probing.h"

namespace brdma::qp {
namespace {

constexpr std::uint32_t kSilentLosses = 3;  // with 5 % loss one path in 8000 times
constexpr Duration kProbesApart = 200_us;   // one acknowledgement covers a burst, and shows one path

}  // namespace

SendPaths::SendPaths(std::uint32_t count, Spraying spraying)
    : paths_(count), facts_(count), spray_(spraying), echoes_(count), responses_(count) {}

std::uint8_t SendPaths::choose(const Batch& batch, Instant now) const {
  if (batch.may_probe) {
    for (std::size_t i = 0; i < paths_.size(); ++i) {
      if (is_probe(static_cast<std::uint8_t>(i)) && now >= paths_[i].probe_at) return static_cast<std::uint8_t>(i);
    }
  }
  return batch.ordered ? control_path(0) : spray_.choose(facts_, batch.avoid);
}

bool SendPaths::probe_due(Instant now) const {
  return std::any_of(paths_.begin(), paths_.end(),
                     [now](const Path& path) { return !path.usable() && now >= path.probe_at; });
}

std::uint32_t SendPaths::usable_count() const {
  return static_cast<std::uint32_t>(
      std::count_if(paths_.begin(), paths_.end(), [](const Path& path) { return path.usable(); }));
}

std::uint8_t SendPaths::control_path(std::uint32_t path_changes) const {
  std::uint32_t wanted = path_changes % usable_count();
  std::uint8_t number = 0;
  while (!paths_[number].usable() || wanted-- > 0) ++number;
  return number;
}

void SendPaths::sent(std::uint8_t number, Instant now) {
  Path& path = paths_[number];
  ++path.status.sent;
  ++path.status.in_flight;
  if (!path.silent_since) path.silent_since = now;
}

void SendPaths::request_sent(std::uint8_t number, Instant now) {
  Path& path = paths_[number];
  ++path.status.sent;
  if (!path.silent_since) path.silent_since = now;
}

void SendPaths::put_fields(wire::Packet& packet, std::uint8_t path, std::uint32_t psns, bool again, Instant now) {
  packet.bxth.path = path;
  if (!again) packet.bxth.before = before(path, packet.bth.psn, psns);
  if (wire::is_answered(packet.op)) {
    request_sent(path, now);
  } else {
    sent(path, now);
  }
}

SendPaths::RoundTripSample SendPaths::request_answered(std::uint8_t number, std::uint16_t back, Instant sent,
                                                       Instant now, Duration waited) {
  const Duration round_trip = now - sent;
  if (number >= paths_.size()) return {{round_trip, {}}};
  ++paths_[number].status.acknowledged;
  resolved(number, false);
  const bool returned = arrived(number, sent, round_trip, now);
  return {
      responses_.take({.path = number, .back = back, .round_trip = round_trip, .one_way = {}, .waited = waited}, now),
      returned};
}

// Whichever copy arrived, this path is no worse than those that lost one, and their packets in flight are known to be
// lost. So one of them is usable at least.
void SendPaths::repetition_answered(std::uint8_t number, Instant now) {
  number = place_of(number);
  if (!paths_[number].usable()) return;
  paths_[number].lost_request = false;
  Instant probe_at = now;
  for (std::size_t i = 0; i < paths_.size(); ++i) {
    Path& path = paths_[i];
    if (i == number || !path.lost_request || !path.usable()) continue;
    path.in_doubt = true;
    facts_[i].usable = false;
    path.silent_since.reset();  // begins with the copy
    path.probe_interval = kProbeFirst;
    path.probe_at = std::exchange(probe_at, probe_at + kProbesApart);
  }
}

void SendPaths::request_lost(std::uint8_t number) {
  number = place_of(number);
  Path& path = paths_[number];
  path.lost_request = true;
  ++path.status.lost;
  ++path.losses;
  resolved(number, true);
}

void SendPaths::probed(std::uint8_t number, Instant now) {
  Path& path = paths_[number];
  ++path.status.probes;
  if (path.in_doubt && !path.silent_since) path.silent_since = now;
  path.probe_at = now + path.probe_interval;
  path.probe_interval = std::min(path.probe_interval * 2, kProbeMax);
}

void SendPaths::batch_left(std::uint8_t path) {
  if (paths_[path].usable()) spray_.took(facts_, path);
}

void SendPaths::resolved(std::size_t path, bool lost) {
  std::uint32_t& loss = facts_[path].loss_ppm;
  loss += (lost ? kPpm : 0) >> kLossGainShift;
  loss -= loss >> kLossGainShift;
}

void SendPaths::acknowledged(const bitmap::SendEntry& entry, bool was_pending, Instant now) {
  if (was_pending) return;  // it was already counted as lost
  const std::uint8_t number = place_of(entry.path);
  Path& path = paths_[number];
  --path.status.in_flight;
  resolved(number, false);
  if (entry.transmissions != 1) return;  // of several transmissions the received one is unknown
  ++path.status.acknowledged;
  on_arrival(number, now);
}

void SendPaths::lost(const bitmap::SendEntry& entry) {
  Path& path = paths_[place_of(entry.path)];
  --path.status.in_flight;
  ++path.status.lost;
  ++path.losses;
  resolved(place_of(entry.path), true);
}

void SendPaths::on_arrival(std::uint8_t number, Instant now) {
  Path& path = paths_[number];
  path.in_doubt = path.lost_request = false;
  facts_[number].usable = path.in_use;
  path.losses = 0;
  path.silent_since.reset();
  if (path.status.in_flight > 0) path.silent_since = now;
}

// True: the path was set aside.
bool SendPaths::arrived(std::uint8_t number, Instant sent, Duration round_trip, Instant now) {
  Path& path = paths_[number];
  const bool was_aside = !path.in_use;
  path.in_use = true;
  on_arrival(number, now);
  if (!newest_echo_ || sent > *newest_echo_) {
    newest_echo_ = sent;
    newest_echo_path_ = number;
  }
  path.rtt.sample(round_trip, now);
  facts_[number].round_trip = std::max(path.rtt.smoothed(), kTick);
  return was_aside;
}

SendPaths::RoundTripSample SendPaths::echoed(const Echo& echo, Instant now) {
  if (echo.path >= paths_.size()) return {{echo.round_trip, {}}};
  const bool returned = arrived(echo.path, echo.sent, echo.round_trip, now);
  return {echoes_.take({echo.path, echo.back, echo.round_trip, echo.one_way, echo.waited, echo.waited_there}, now),
          returned};
}

void SendPaths::forget_silence() {
  for (Path& path : paths_) {
    path.losses = 0;
    path.silent_since.reset();
  }
}

std::optional<std::uint8_t> SendPaths::set_aside_silent(Duration silence, Instant now) {
  const std::uint32_t usable = usable_count();
  for (std::size_t i = 0; i < paths_.size(); ++i) {
    Path& path = paths_[i];
    if (!path.in_use || !path.silent_since) continue;
    if (!path.in_doubt && (path.losses < kSilentLosses || usable < 2)) continue;
    if (now < *path.silent_since + silence) continue;
    if (!newest_echo_ || newest_echo_path_ == i || *newest_echo_ <= *path.silent_since) continue;
    path.in_use = path.in_doubt = facts_[i].usable = false;
    path.probe_interval = kProbeFirst;
    path.probe_at = now + kProbeFirst;
    return static_cast<std::uint8_t>(i);
  }
  return std::nullopt;
}

void SendPaths::forget_flight() {
  for (Path& path : paths_) path.status.in_flight = 0;
  forget_silence();
}

PathStatus SendPaths::status(std::size_t number) const {
  const Path& path = paths_[number];
  PathStatus status = path.status;
  status.in_use = path.in_use;
  status.loss_ppm = facts_[number].loss_ppm;
  status.round_trip = path.rtt.smoothed();
  status.round_trip_min = echoes_.floors().shortest(number).value_or(Duration{});
  return status;
}

}  // namespace brdma::qp
