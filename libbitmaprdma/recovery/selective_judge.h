// recovery/selective_judge.h - loss as a TCP sender judges it, from acknowledgements alone: RACK (RFC 8985)
// with a reordering distance of 3 packets and, once reordering has been seen, a wait of a quarter of the round trip.
// Not part of bitmap recovery: the baseline for comparison (RecoveryMode::kSelective).
//
// A second baseline is IRN's rule (Mittal et al., SIGCOMM 2018, section 3.1): a packet is lost as soon as a later one
// has been acknowledged. A lost retransmission has to wait for the timeout.
#pragma once

#include <cstdint>
#include <optional>

#include "base/units.h"

namespace brdma::recovery {

class SelectiveJudge {
 public:
  enum class Rule : std::uint8_t { kRack, kIrn };
  explicit SelectiveJudge(Rule rule = Rule::kRack) : rule_(rule) {}
  // A packet was acknowledged. `sequence` orders packets by their first transmission.
  void delivered(std::uint64_t sequence, Instant sent, bool sent_again, Instant now);

  // Is that packet lost, or when is it to be judged again? Nothing: no packet sent after it has arrived.
  struct Verdict {
    bool lost = false;
    std::optional<Instant> retry_at;
  };
  [[nodiscard]] Verdict judge(std::uint64_t sequence, Instant sent, Instant now, bool sent_again = false) const;

  [[nodiscard]] bool reordering_seen() const { return reordering_; }

 private:
  static constexpr std::uint64_t kDistance = 3;
  static constexpr std::int64_t kWaitShare = 4;  // of the smallest round trip

  Rule rule_;
  bool any_ = false, reordering_ = false;
  Instant newest_sent_;         // latest send time of the arrived packets
  std::uint64_t newest_ = 0;    // its sequence
  std::uint64_t farthest_ = 0;  // highest sequence that has arrived
  Duration trip_, shortest_trip_;
};

}  // namespace brdma::recovery
