// sim/station_list.h - a world's stations, in the order of their making, each run when it is due. The cost of an
// instant grows with the number of stations that have something to do, and with the logarithm of all.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/function_ref.h"
#include "base/units.h"
#include "sim/station.h"
#include "sim/wake_list.h"

namespace brdma::sim {

class StationList {
 public:
  Station& add(std::unique_ptr<Station> station);
  void run_only_due() { only_due_ = true; }
  [[nodiscard]] std::optional<Instant> next(Instant now);
  // Calls `run` for each station, or each that is due, in their order.
  void run_due(Instant now, FunctionRef<void(Station&)> run);
  // Those that the last run_due() has run.
  [[nodiscard]] const std::vector<Station*>& ran() const { return ran_; }

 private:
  void take_marked(Instant now);
  void update(std::uint32_t number, Instant now);

  std::vector<std::unique_ptr<Station>> all_;
  std::vector<std::uint32_t> marked_;    // may have another time
  std::vector<std::uint32_t> restless_;  // run at every instant
  std::vector<Station*> ran_;
  WakeList wakes_;
  bool only_due_ = false;
};

}  // namespace brdma::sim
