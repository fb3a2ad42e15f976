// congestion/managed_list.h - destinations whose rate is reduced, because links towards them are congested (design
// WT-14 and WT-15): all queue pairs to that address share a rate, and have a shorter turn among those of this host. The
// list is visited periodically: where acknowledgements come without delay, a step is given back, until the full rate is
// restored. No destination gets less than a floor. Pure: `now` is an argument.
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
  Pacer pacer;                                               // for all data of its queue pairs
  Bandwidth full, lowered;                                   // delivered rate before; last reduced rate
  std::uint32_t weight_percent = 100, weight_lowered = 100;  // of a turn
  Instant since, visit_at;
  Duration shortest;  // RTT of acknowledgements without queues, as known for kShortestKept; 0: not known
  Instant shortest_at;
};

class ManagedList {
 public:
  static constexpr std::size_t kDestinationsMax = 1024;
  static constexpr Duration kShortestKept = 10_s;

  // `delivered`: the destination's recent rate. If it is on the list already, it is lowered again, from there if that
  // is less than its rate, but not twice between two visits. Null: the list is full. The destination stays where it is
  // in memory until it is removed.
  ManagedDestination* lower(const IpAddress& peer, Bandwidth delivered, const CongestionConfig& pacing,
                            const WanConfig& config, Instant now);
  [[nodiscard]] ManagedDestination* find(const IpAddress& peer);
  bool remove(const IpAddress& peer);

  enum class Visit : std::uint8_t { kKept, kRaised, kDone };
  // Of the queue pairs to a destination: RTT of acknowledgements, and their RTT without queues (0: nothing is sent
  // there); delivered rate.
  struct Observed {
    Duration wait{}, shortest{};
    Bandwidth delivered{};
  };
  // kDone: it has its full rate again and may be removed.
  static Visit visit(ManagedDestination& destination, const Observed& observed, const WanConfig& config, Instant now);
  [[nodiscard]] std::optional<Instant> next_visit() const;
  [[nodiscard]] const std::map<IpAddress, ManagedDestination>& all() const { return destinations_; }
  [[nodiscard]] std::map<IpAddress, ManagedDestination>& all() { return destinations_; }
  [[nodiscard]] bool empty() const { return destinations_.empty(); }

 private:
  std::map<IpAddress, ManagedDestination> destinations_;
};

}  // namespace brdma::congestion
