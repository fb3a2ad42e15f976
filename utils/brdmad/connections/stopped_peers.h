// brdmad/connections/stopped_peers.h - queries whether a process is stopped (wire/stopped_peer.h). Requesters anywhere
// send them to QP 1 when their peer's queue pair is silent. Only "it is" is answered. No reply comes for a process that
// runs, is gone or cannot be seen: the requester's retry count is then unchanged. Anybody may ask; a reply reveals only
// that the process of a slot is stopped.
//
// A process is inspected once in kLookFor, however often it is queried; replies are limited to kRepliesMax in that
// time.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>

#include "base/units.h"
#include "io/daemon/lease_protocol.h"
#include "wire/stopped_peer.h"

namespace brdma::daemon {

// All queries, those with a reply, and those without one only because of the limit.
struct StoppedCounters {
  std::uint64_t queries = 0, replies = 0, limited = 0;
};

class StoppedPeers {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kLookFor{50};
  static constexpr unsigned kRepliesMax = 1024;

  // Of a slot: is its process stopped, and how old is the lease? Not stopped if there is no lease.
  struct Lease {
    bool stopped = false;
    Duration age;
  };
  using Look = std::function<Lease(std::uint32_t slot)>;
  explicit StoppedPeers(Look look) : look_(std::move(look)) {}

  [[nodiscard]] std::optional<wire::StoppedReply> reply(const wire::StoppedQuery& query, Clock::time_point now);
  [[nodiscard]] const StoppedCounters& counters() const { return counters_; }

 private:
  struct Looked {
    Clock::time_point until{};
    Lease lease;
  };
  [[nodiscard]] const Lease& look(std::uint32_t slot, Clock::time_point now);

  Look look_;
  std::array<Looked, io::kSlotCount> looked_{};
  Clock::time_point limited_until_{};
  unsigned replies_ = 0;  // in the current kLookFor
  StoppedCounters counters_;
};

}  // namespace brdma::daemon
