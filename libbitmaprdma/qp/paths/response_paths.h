// qp/paths/response_paths.h - READ responses and results of atomics over several paths (design BR-29): the path of
// a batch, the header field about its own path, and which paths lose all packets.
//
// Responses are not acknowledged: only a READ re-request shows a loss. So the PSNs of each path are kept for a while,
// in runs: the part of a batch on one path. A path is set aside when kSilentRuns of its runs in a row were re-requested
// as a whole, and another path has lost none like that. Then one response packet probes it periodically: if it has not
// been re-requested when the next one is due, the path is taken back.
//
// Made for the first responses to a peer that distinguishes several paths.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/config.h"
#include "base/psn.h"
#include "base/units.h"
#include "base/vector_bytes.h"
#include "qp/paths/path_trail.h"
#include "recovery/path_spray.h"

namespace brdma::qp {

class ResponsePaths {
 public:
  static constexpr std::uint32_t kSilentRuns = 3, kSilentPackets = 3;

  // 2 <= count <= kPathsMax.
  ResponsePaths(std::uint32_t count, Spraying spraying);

  // The path of the next batch. `sending`: facts known of the paths from requests; empty: none. `again`: the first
  // response in it was sent before; then not the path that lost it.
  [[nodiscard]] std::uint8_t choose(std::span<const recovery::PathFacts> sending, std::optional<Psn> again,
                                    Instant now);
  // Packets of READ responses a batch. On a path that is set aside one, as a probe. While responses are lost only a
  // few, so that each path soon has a packet behind the lost one as evidence.
  [[nodiscard]] std::size_t batch_max(std::uint8_t path) const;
  // A response leaves: returns the header field about those before it. `again`: it was sent before.
  wire::BeforeOnPath sent(std::uint8_t path, Psn psn, bool again);
  void batch_left(std::uint8_t path, Instant now);

  // The requester re-requests [first, first + count). Returns a path that is set aside from here on.
  std::optional<std::uint8_t> on_rerequest(Psn first, std::uint32_t count, Instant now);
  // Returns a probed path without loss: it is in use again.
  std::optional<std::uint8_t> take_back(Instant now);

  [[nodiscard]] std::size_t allocated_bytes() const {
    return sizeof *this + vector_bytes(paths_) + vector_bytes(facts_) + vector_bytes(runs_);
  }

 private:
  struct Run {
    Psn first;
    std::uint32_t number = 0;  // of the path's runs
    std::uint16_t packets = 0, lost = 0;
    std::uint8_t path = 0;
  };
  struct Path {
    bool in_use = true;
    bool tried = false;  // probed since it was set aside, with no known loss
    std::uint32_t runs = 0;
    std::uint32_t silent_runs = 0, silent_packets = 0;  // lost as a whole, in a row
    std::uint32_t last_silent = 0;                      // number of the last of them
    Instant probe_at;
    Duration probe_interval;
    PathTrail trail;
  };
  [[nodiscard]] Run* find(Psn psn);
  void begin_run(std::uint8_t path, Psn psn);
  [[nodiscard]] bool falls_silent(const Run& run, Instant now);

  std::vector<Path> paths_;
  std::vector<recovery::PathFacts> facts_;
  std::vector<Run> runs_;   // a ring once it is full
  std::size_t newest_ = 0;  // place of the newest run
  bool run_open_ = false;   // the batch in construction has one, the newest
  recovery::Spray spray_;
};

}  // namespace brdma::qp
