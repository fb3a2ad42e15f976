// recovery/stopped_peer.h - a peer is silent: before the retry count gives it up its host is asked whether the process
// is only stopped (a breakpoint, SIGSTOP, a frozen container). While the host says so, the retry count's time does not
// run; hardware would acknowledge for such a process. Pure: sends nothing, told `now`; the requester acts.
//
//   silence begins   a quarter of the retry count's time    each eighth of it, 1 ms to 1 s      stopped_max
//        |---------------------|-------|-------|-------|-------|--- ... -------------------------|
//                            query   query   query   ...  a reply: the retry count's time begins again there
//
// So six queries leave before a peer without a reply is given up, as soon as ever; five of them may be lost.
// Who can forge a packet of the peer can forge a reply, but for the nonce: one for each query, each takes one reply.
#pragma once

#include <cstdint>
#include <optional>

#include "base/units.h"

namespace brdma::recovery {

struct StoppedPeerLimits {
  Duration retries;      // for so long the retry count lets a peer be silent
  Duration stopped_max;  // replies count for so long from the beginning of a silence; 0: nobody is asked
};

class StoppedPeer {
 public:
  // When the next query is to leave; nothing: none is, or one waits to leave. `since`: begin of the silence; that of
  // another than before makes everything here void.
  [[nodiscard]] std::optional<Instant> query_at(Instant since, const StoppedPeerLimits& limits) const;
  void query_falls_due(Instant since);
  [[nodiscard]] bool has_due() const { return due_; }  // of whatever silence
  [[nodiscard]] bool is_due(Instant since) const { return due_ && since_ == since; }
  void forget_due() { due_ = false; }
  [[nodiscard]] std::uint64_t queries() const { return asked_; }  // that left in this silence
  // It has left; answers its nonce. `first_nonce`: used where it is the first of its silence; not to be guessed.
  std::uint64_t asked(std::uint64_t first_nonce, Instant now);

  enum class Verdict : std::uint8_t { kTaken, kFirstTaken, kUnasked, kTooLate };
  Verdict replied(std::uint64_t nonce, Instant since, const StoppedPeerLimits& limits, Instant now);
  // From here on the retry count's time runs.
  [[nodiscard]] Instant silent_from(Instant since) const { return is_stopped(since) ? replied_at_ : since; }
  [[nodiscard]] bool is_stopped(Instant since) const { return since_ == since && replied_ > 0; }

 private:
  Instant since_, asked_at_, replied_at_;
  std::uint64_t first_nonce_ = 0;
  std::uint64_t asked_ = 0;    // queries that left in this silence; the nonce of one is the first's plus its number
  std::uint64_t replied_ = 0;  // those before this one take no reply any more
  bool due_ = false;
};

}  // namespace brdma::recovery
