// recovery/stopped_peer.h - a peer is silent: before the retry limit ends the connection, the peer's host is queried
// whether the process is only stopped (a breakpoint, SIGSTOP, a frozen container). While the host confirms that, the
// retry limit's time does not run; hardware would acknowledge for such a process. Pure: sends nothing, `now` is an
// argument; the requester acts.
//
//   silence begins   a quarter of the retry count's time    each eighth of it, 1 ms to 1 s      stopped_max
//        |---------------------|-------|-------|-------|-------|--- ... -------------------------|
//                            query   query   query   ...  a reply: the retry count's time begins again there
//
// So six queries leave before a peer without a reply is given up, no later than without them; five of them may be lost.
// An attacker who can forge a packet of the peer can forge a reply, except for the nonce: one for each query, each
// takes one reply.
#pragma once

#include <cstdint>
#include <optional>

#include "base/units.h"

namespace brdma::recovery {

struct StoppedPeerLimits {
  Duration retries;      // the retry limit lets a peer be silent for so long
  Duration stopped_max;  // replies count for so long from the beginning of a silence; 0: no queries
};

class StoppedPeer {
 public:
  // When the next query is to leave; nothing: none is, or one waits to leave. `since`: begin of the silence; a new one
  // voids all state here.
  [[nodiscard]] std::optional<Instant> query_at(Instant since, const StoppedPeerLimits& limits) const;
  void query_falls_due(Instant since);
  [[nodiscard]] bool has_due() const { return due_; }  // of any silence
  [[nodiscard]] bool is_due(Instant since) const { return due_ && since_ == since; }
  void forget_due() { due_ = false; }
  [[nodiscard]] std::uint64_t queries() const { return asked_; }  // sent in this silence
  // The query has left; returns its nonce. `first_nonce`: used for the first of its silence; not to be guessed.
  std::uint64_t asked(std::uint64_t first_nonce, Instant now);

  enum class Verdict : std::uint8_t { kTaken, kFirstTaken, kUnasked, kTooLate };
  Verdict replied(std::uint64_t nonce, Instant since, const StoppedPeerLimits& limits, Instant now);
  // Start of the retry limit's time.
  [[nodiscard]] Instant silent_from(Instant since) const { return is_stopped(since) ? replied_at_ : since; }
  [[nodiscard]] bool is_stopped(Instant since) const { return since_ == since && replied_ > 0; }

 private:
  Instant since_, asked_at_, replied_at_;
  std::uint64_t first_nonce_ = 0;
  std::uint64_t asked_ = 0;    // queries sent in this silence; the nonce of one is the first's plus its number
  std::uint64_t replied_ = 0;  // queries before this one take no reply any more
  bool due_ = false;
};

}  // namespace brdma::recovery
