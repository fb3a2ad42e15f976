// qp/state/local_path.h - what a queue pair and its peer on the same host have agreed on: that each fetches from the
// other's memory what else would be sent (docs/local.md). There is one only where the peer's address is the host's own.
#pragma once

#include <deque>
#include <vector>

#include "base/local_memory.h"

namespace brdma::qp {

// Beacons stay where they are as long as the engine does: others may look at one whose queue pair is gone.
class BeaconPool {
 public:
  [[nodiscard]] LocalBeacon* take() {
    if (free_.empty()) return &beacons_.emplace_back();
    LocalBeacon* const beacon = free_.back();
    free_.pop_back();
    return beacon;
  }
  void give_back(LocalBeacon* beacon) { free_.push_back(beacon); }

 private:
  std::deque<LocalBeacon> beacons_;
  std::vector<LocalBeacon*> free_;
};

class LocalPath {
 public:
  LocalPath(BeaconPool& pool, LocalClaim self, std::array<std::uint64_t, 2> nonce)
      : own(self), pool_(pool), beacon_(pool.take()) {
    own.beacon = reinterpret_cast<std::uintptr_t>(beacon_);
    own.nonce = nonce;
    beacon_->nonce = nonce;
    __atomic_store_n(&beacon_->magic, LocalBeacon::kMagic, __ATOMIC_RELEASE);
  }
  ~LocalPath() {
    darken();
    pool_.give_back(beacon_);
  }
  LocalPath(const LocalPath&) = delete;
  LocalPath& operator=(const LocalPath&) = delete;

  // Before the program hears that its memory is its own again: what was described and not fetched is void.
  void darken() {
    __atomic_store_n(&beacon_->magic, 0, __ATOMIC_SEQ_CST);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
  }
  // Both fetch, and both know it: data may be described.
  [[nodiscard]] bool agreed() const { return steps() == 3; }
  [[nodiscard]] unsigned steps() const { return unsigned{fetches} + unsigned{peer_fetches} + unsigned{peer_knows}; }
  // What the key of descriptions is: theirs, and ours.
  [[nodiscard]] std::uint64_t peer_key() const { return peer.nonce[0]; }
  [[nodiscard]] std::uint64_t own_key() const { return own.nonce[0]; }

  LocalClaim own, peer;
  bool fetches = false;       // `peer` was examined: its memory can be read
  bool peer_fetches = false;  // so it says of ours
  bool peer_knows = false;    // that we fetch: so it says
  unsigned examined = 0;      // claims, so far

 private:
  BeaconPool& pool_;
  LocalBeacon* beacon_;
};

}  // namespace brdma::qp
