// qp/paths/paths_send.h - the paths that a requester sends on (design BR-29): the next path, the packets before
// one on its path, and the outcome by path: RTT samples, losses, silence.
//
// The congestion window stays one a queue pair: paths of a fabric share their first and last link, and the receiver
// bounds arrivals; K windows would take K shares of both. The spraying policy accounts for a worse path. Each RTT
// sample for the window is the excess over the shortest of its own forward and return path (qp/paths/path_floors.h), on
// top of the mean of those: a longer path is not a fuller one.
//
// Silent: since the last arrival on a path kSilentLosses packets or more of it were lost, none is acknowledged for a
// probe timeout, and a packet sent later on another path is. Then it is set aside, and a copy of a packet probes it
// periodically; an echo of any packet of it takes it back. At least one path stays in use.
//
// In doubt: READ requests keep to one path, and each timeout forgets the losses before it, so no later evidence would
// come. A path that lost a request whose retransmission was answered on another is in doubt: perhaps the first copy was
// answered, late (Karn). Only a copy goes there, at once. If that is acknowledged, the path is as before; if not, by
// the rule above, it is silent.
//
// Made when the peer has announced that it distinguishes several paths.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/config.h"
#include "base/psn.h"
#include "base/units.h"
#include "base/vector_bytes.h"
#include "bitmap/send_window.h"
#include "qp/paths/path_floors.h"
#include "qp/paths/path_status.h"
#include "qp/paths/path_trail.h"
#include "recovery/path_spray.h"
#include "recovery/rtt_estimator.h"
#include "wire/crc/icrc.h"
#include "wire/headers.h"
#include "wire/packet.h"

namespace brdma::qp {

class SendPaths {
 public:
  // 2 <= count <= kPathsMax.
  SendPaths(std::uint32_t count, Spraying spraying);

  // The path of the next batch: one that is to be probed (see is_probe) where allowed, else the policy's. READ requests
  // always take the same: they are executed in order, so spraying would only make them wait for each other, and their
  // responses take one path anyway.
  struct Batch {
    std::optional<std::uint8_t> avoid{};
    bool ordered = false;
    bool may_probe = false;
  };
  [[nodiscard]] std::uint8_t choose(const Batch& batch, Instant now) const;
  [[nodiscard]] bool is_probe(std::uint8_t path) const { return !paths_[path].usable(); }
  [[nodiscard]] bool probe_due(Instant now) const;
  // For responses and control packets, whose order counts: the same path while `path_changes` stays the same.
  [[nodiscard]] std::uint8_t control_path(std::uint32_t path_changes) const;
  [[nodiscard]] wire::AddressedIcrcFlow& flow(std::uint8_t path) { return paths_[path].flow; }

  // A packet of `psns` PSNs leaves for the first time: returns the header field about those before it.
  wire::BeforeOnPath before(std::uint8_t path, Psn psn, std::uint32_t psns) {
    return paths_[path].trail.extend(psn, psns);
  }
  // The packet, of `psns` PSNs, is about to be added to a batch on that path: sets its path, and the header field about
  // earlier packets there.
  void put_fields(wire::Packet& packet, std::uint8_t path, std::uint32_t psns, bool again, Instant now);
  struct RoundTripSample : RoundTripSamples::RoundTripSample {  // sample for the congestion window
    bool returned = false;                                      // the path was set aside and is in use again
  };
  // A packet of data leaves, first time or not.
  void sent(std::uint8_t path, Instant now);
  // A READ request leaves, is answered (one that was sent once; one whose last copy took this path), is judged lost.
  void request_sent(std::uint8_t path, Instant now);
  // `waited`: of the response, in this host.
  RoundTripSample request_answered(std::uint8_t path, std::uint16_t back, Instant sent, Instant now,
                                   Duration waited = {});
  void repetition_answered(std::uint8_t path, Instant now);
  void request_lost(std::uint8_t path);
  void probed(std::uint8_t path, Instant now);
  void batch_left(std::uint8_t path);

  // The entry, as last sent, is acknowledged / is judged lost / counts as in flight again.
  void acknowledged(const bitmap::SendEntry& entry, bool was_pending, Instant now);
  void lost(const bitmap::SendEntry& entry);
  // The entry, as last sent, took that path.
  [[nodiscard]] bool is_of(const bitmap::SendEntry& entry, std::uint8_t path) const {
    return place_of(entry.path) == path;
  }
  void reopened(const bitmap::SendEntry& entry) { ++paths_[place_of(entry.path)].status.in_flight; }
  // An acknowledgement echoed a packet.
  struct Echo {
    std::uint8_t path = 0;
    std::uint16_t back = 0;  // the UDP source port of the acknowledgement
    Instant sent;
    Duration round_trip;
    Duration one_way;                   // by both clocks: qp/paths/path_floors.h
    Duration waited{}, waited_there{};  // the same
  };
  RoundTripSample echoed(const Echo& echo, Instant now);
  // A silence of all paths: no path is worse than another.
  void forget_silence();
  // After an echo: returns a path that is silent now, and sets it aside.
  std::optional<std::uint8_t> set_aside_silent(Duration silence, Instant now);
  void forget_flight();

  [[nodiscard]] Duration skew() const { return echoes_.floors().skew(); }
  [[nodiscard]] std::size_t count() const { return paths_.size(); }
  [[nodiscard]] const std::vector<recovery::PathFacts>& facts() const { return facts_; }
  [[nodiscard]] PathStatus status(std::size_t path) const;
  [[nodiscard]] std::size_t allocated_bytes() const {
    return sizeof *this + vector_bytes(paths_) + vector_bytes(facts_);
  }

 private:
  // Before the agreement, packets may have left on paths that the peer does not distinguish: they count as the first's.
  [[nodiscard]] std::uint8_t place_of(std::uint8_t path) const { return path < paths_.size() ? path : std::uint8_t{0}; }
  struct Path {
    bool in_use = true;
    bool in_doubt = false;
    bool lost_request = false;  // since its last arrival
    PathTrail trail;
    std::uint32_t losses = 0;             // since its last arrival, or all were silent
    std::optional<Instant> silent_since;  // send time since which nothing has been acknowledged
    Instant probe_at;
    Duration probe_interval;
    recovery::RttEstimator rtt;
    PathStatus status;
    wire::AddressedIcrcFlow flow;
    [[nodiscard]] bool usable() const { return in_use && !in_doubt; }
  };
  [[nodiscard]] std::uint32_t usable_count() const;
  void on_arrival(std::uint8_t path, Instant now);
  bool arrived(std::uint8_t path, Instant sent, Duration round_trip, Instant now);
  void resolved(std::size_t path, bool lost);

  std::vector<Path> paths_;
  std::vector<recovery::PathFacts> facts_;  // by path, for the policy
  recovery::Spray spray_;
  RoundTripSamples echoes_, responses_;  // separate: they wait in queues of different directions
  std::optional<Instant> newest_echo_;   // latest send time of an echoed packet
  std::uint8_t newest_echo_path_ = 0;
};

}  // namespace brdma::qp
