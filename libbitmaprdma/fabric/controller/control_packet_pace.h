// fabric/controller/control_packet_pace.h - the control packets (design WT-13) to a host for one destination: at most
// one in an interval. Remembers a bounded number of them; while it is full, no further one may leave.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <utility>

#include "base/ip_address.h"
#include "base/units.h"

namespace brdma::fabric::controller {

class ControlPacketPace {
 public:
  static constexpr std::size_t kPacketsMax = 4096;

  explicit ControlPacketPace(Duration interval) : interval_(interval) {}

  // True: one may leave now; it counts as sent.
  [[nodiscard]] bool take(const std::string& host_id, const IpAddress& destination, Instant now) {
    std::erase_if(sent_, [&](const auto& entry) { return now - entry.second >= interval_; });
    if (sent_.size() == kPacketsMax) return false;
    return sent_.try_emplace({host_id, destination}, now).second;
  }

 private:
  Duration interval_;
  std::map<std::pair<std::string, IpAddress>, Instant> sent_;
};

}  // namespace brdma::fabric::controller
