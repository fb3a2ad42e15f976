// brdmad/stopped_peers.h - queries whether a process is only stopped (wire/stopped_peer.h), which requesters anywhere
// send to QP 1 when its queue pair is silent. Only "it is" is answered; who runs, is gone or cannot be seen is not, and
// so is the requester's retry count what it always was. Anybody may ask: all that he learns is whether the process of a
// slot is stopped.
//
// A process is looked at once in kLookFor, whoever asks how often; replies are limited to kRepliesMax in that time.
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

// All that were asked, those of them that got a reply, and those that would have but for the limit.
struct StoppedCounters {
  std::uint64_t queries = 0, replies = 0, limited = 0;
};

class StoppedPeers {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kLookFor{50};
  static constexpr unsigned kRepliesMax = 1024;

  // Of a slot: is the process that has it stopped, and for how long has it had it? Not stopped where nobody has.
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
  unsigned replies_ = 0;  // since then less kLookFor
  StoppedCounters counters_;
};

}  // namespace brdma::daemon
