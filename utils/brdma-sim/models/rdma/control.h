// models/rdma/control.h - congestion control of a RoCE source: a window, a rate, or none of both. Policies: they decide
// and have no timers of the simulator's; what depends on time they compute when asked.
#pragma once

#include <limits>
#include <memory>

#include "models/rdma/settings.h"

namespace brdma::models::rdma {

struct AckFacts {
  std::uint64_t delivered;  // bytes, for the first time
  Duration rtt;             // of the packet that the answer echoes
};

class Control {
 public:
  virtual ~Control() = default;
  virtual void on_ack(const AckFacts& /*facts*/, Instant /*now*/) {}
  virtual void on_cnp(Instant /*now*/) {}
  virtual void on_loss(Instant /*now*/) {}  // a recovery begins, or a notification
  virtual void on_timeout(Instant /*now*/) {}
  // Bytes outstanding at most.
  [[nodiscard]] virtual std::uint64_t window() const { return std::numeric_limits<std::uint64_t>::max(); }
  // Picoseconds from the begin of a packet to the begin of the next; 0: as fast as the link.
  virtual std::int64_t gap_ps(std::uint32_t /*wire_bytes*/, Instant /*now*/) { return 0; }
  [[nodiscard]] virtual Bandwidth rate() const { return {}; }  // 0: no rate
  [[nodiscard]] virtual std::uint64_t reductions() const { return 0; }
};

[[nodiscard]] std::unique_ptr<Control> make_control(const Settings& settings);

}  // namespace brdma::models::rdma
