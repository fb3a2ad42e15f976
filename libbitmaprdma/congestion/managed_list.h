// congestion/managed_list.h - destinations that are given less, because links towards them are congested (spec 3: flow
// control): a rate that all queue pairs to that address share, and a shorter turn among those of this host. Visited now
// and then: where acknowledgements come as soon as they should, a step of what was taken is given back, until nothing
// is missing. Nobody gets less than a floor. Pure: told `now`.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "base/config.h"
#include "base/ip_address.h"
#include "base/units.h"
#include "congestion/pacer.h"

namespace brdma::congestion {

struct ManagedDestination {
  ManagedDestination(const PacerConfig& pacing, Bandwidth rate) : pacer(pacing, rate) {}
  Pacer pacer;                                               // of what all its queue pairs send
  Bandwidth full, lowered;                                   // what was delivered before; what it was lowered to last
  std::uint32_t weight_percent = 100, weight_lowered = 100;  // of a turn
  Instant since, visit_at;
  Duration shortest;  // how long acknowledgements took without queues, as known for kShortestKept; 0: not known
  Instant shortest_at;
};

class ManagedList {
 public:
  static constexpr std::size_t kDestinationsMax = 1024;
  static constexpr Duration kShortestKept = 10_s;

  // `delivered`: what the destination took of late. Is it on the list already, it is lowered once more, from there if
  // that is less than its rate, but not twice between two visits. Null: the list is full. The destination stays where
  // it is in memory until it is removed.
  ManagedDestination* lower(const IpAddress& peer, Bandwidth delivered, const CongestionConfig& pacing,
                            const WanConfig& config, Instant now);
  [[nodiscard]] ManagedDestination* find(const IpAddress& peer);
  bool remove(const IpAddress& peer);

  enum class Visit : std::uint8_t { kKept, kRaised, kDone };
  // Of the queue pairs to a destination: how long acknowledgements take, and how long without queues (0: nothing is
  // sent there); what arrives.
  struct Observed {
    Duration wait{}, shortest{};
    Bandwidth delivered{};
  };
  // kDone: it has all again and may be removed.
  static Visit visit(ManagedDestination& destination, const Observed& observed, const WanConfig& config, Instant now);
  [[nodiscard]] std::optional<Instant> next_visit() const;
  [[nodiscard]] const std::map<IpAddress, ManagedDestination>& all() const { return destinations_; }
  [[nodiscard]] std::map<IpAddress, ManagedDestination>& all() { return destinations_; }
  [[nodiscard]] bool empty() const { return destinations_.empty(); }

 private:
  std::map<IpAddress, ManagedDestination> destinations_;
};

}  // namespace brdma::congestion
