// brdma-switch/feedback/ip_actions.h - actions on IP packets that the switch's queues take or drop, beyond forwarding:
// counts flows, marks (ECN), turns marks into round-trip time (design ER-8, ER-14).
#pragma once

#include <optional>

#include "base/units.h"
#include "fabric/network.h"
#include "fabric/packet_pool.h"
#include "fabric/switch/ecn_marks.h"
#include "fabric/switch/flow_counters.h"
#include "fabric/switch/rtt_translator.h"
#include "forwarding/switch_packet.h"

namespace brdma::lab {

class IpActions {
 public:
  explicit IpActions(fabric::PacketPool& pool) : pool_(pool), flows_(kFlowsMax) {}
  // While traffic runs (design ER-17). `increment`: of this switch, fabric/network.h; flows keep their state where it
  // keeps its meaning.
  void configure(const fabric::NetworkConfig& config, const std::optional<fabric::IncrementConfig>& increment);

  [[nodiscard]] std::uint8_t dscp(const SwitchPacket& packet);
  void dropped(const SwitchPacket& packet, Instant now);
  void enqueued(SwitchPacket& packet, bool marked, Instant now);

  [[nodiscard]] const fabric::EcnMarks& marks() const { return marks_; }
  [[nodiscard]] const fabric::FlowCounters& flows() const { return flows_; }
  [[nodiscard]] const std::optional<fabric::RttTranslator>& translator() const { return translator_; }

 private:
  static constexpr std::size_t kFlowsMax = 4096;
  [[nodiscard]] MutableBytes ip_of(const SwitchPacket& packet);  // empty: not IP
  [[nodiscard]] bool translate(SwitchPacket& packet, const fabric::FiveTuple& flow, bool marked, Instant now);

  fabric::PacketPool& pool_;
  std::optional<fabric::RttTranslator> translator_;
  fabric::EcnMarks marks_;
  fabric::FlowCounters flows_;
};

}  // namespace brdma::lab
