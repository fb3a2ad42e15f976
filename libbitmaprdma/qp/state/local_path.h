// qp/state/local_path.h - agreement of a queue pair and its peer on the same host on local transfer by reference: each
// fetches data from the other's memory (docs/explanation/local.md). Exists only if the peer's address is the host's
// own.
#pragma once

#include <deque>
#include <vector>

#include "base/local_memory.h"

namespace brdma::qp {

// Beacons stay in place as long as the engine lives: others may read one whose queue pair is destroyed.
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

  // Before the program gets its memory back: references not fetched yet become void.
  void darken() {
    __atomic_store_n(&beacon_->magic, 0, __ATOMIC_SEQ_CST);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
  }
  // Both fetch, and both know it: references may be used.
  [[nodiscard]] bool agreed() const { return steps() == 3; }
  [[nodiscard]] unsigned steps() const { return unsigned{fetches} + unsigned{peer_fetches} + unsigned{peer_knows}; }
  // The keys of references: theirs, and ours.
  [[nodiscard]] std::uint64_t peer_key() const { return peer.nonce[0]; }
  [[nodiscard]] std::uint64_t own_key() const { return own.nonce[0]; }

  LocalClaim own, peer;
  bool fetches = false;       // `peer` was examined: its memory can be read
  bool peer_fetches = false;  // as the peer reports of ours
  bool peer_knows = false;    // that we fetch, as the peer reports
  unsigned examined = 0;      // claims so far

 private:
  BeaconPool& pool_;
  LocalBeacon* beacon_;
};

}  // namespace brdma::qp
