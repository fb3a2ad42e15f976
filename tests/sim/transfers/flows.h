// sim/transfers/flows.h - flows that come at random times (Poisson) from some senders to one receiver, each one WRITE
// on a connection of its own, and the duration of each, from its post to its completion.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/units.h"
#include "fabric/network.h"
#include "fabric/switch/drop_notifier.h"
#include "qp/loss/sender_judge.h"
#include "transfers/flow_sizes.h"

namespace brdma::test {

struct FlowsConfig {
  RecoveryMode mode = RecoveryMode::kBitmap;
  bool edn = false;                      // the switch reports drops, and senders apply the reports
  std::optional<qp::IrnTimeouts> irn{};  // with kSelective: IRN's rules
  std::uint8_t timeout = 10;             // the queue pairs' local ACK timeout: 4.096 us * 2^timeout
  std::uint32_t senders = 1;
  std::uint64_t rate_bps = 25'000'000'000;
  Duration delay = 5_us;                       // in each direction
  fabric::UplinkConfig uplink{.same = false};  // senders leave at rate_bps: one hop with a rate is the receiver's
  std::uint64_t queue_bytes = 1u << 20;
  std::uint32_t loss_ppm = 0;  // at random, in the switch, on the way to the receiver
  bool loses_answers = false;  // acknowledgements are lost too
  double load = 0.05;          // of the receiver's link, payload
  std::uint32_t flows = 1000;
  bool together = false;           // each time one of every sender; else one of a random sender
  std::uint32_t connections = 64;  // of each sender
  CongestionControl control = CongestionControl::kWindow;
  std::uint32_t window = 4096;                         // recovery.window; with kNone a flow's packets in flight
  std::optional<fabric::SharedBufferConfig> buffer{};  // shared by the switch's queues
  std::uint64_t seed = 1;
};

struct FlowsResult {
  std::string network;          // fabric/network.h: network_text; and the direction with loss
  std::vector<Duration> times;  // of the flows, sorted
  std::uint64_t packets = 0;    // data, first transmissions
  std::uint64_t bytes = 0;      // payload of the flows
  std::uint64_t lost = 0, retransmitted = 0, timeouts = 0;
  std::uint64_t notices = 0, notice_bytes = 0, forwarded = 0, forwarded_bytes = 0;
  std::uint64_t table_most = 0;  // flows in the merge table at a time
  std::uint32_t broken = 0;      // connections that ran out of retries; their flows restarted
  std::uint32_t waited = 0;      // flows that found no free connection; their waiting time counts
};

[[nodiscard]] FlowsResult run_flows(const FlowsConfig& config, const FlowSizes& sizes);

}  // namespace brdma::test
