#include "feedback/ip_actions.h"

#include "datapath/ethernet.h"
#include "fabric/routing/five_tuple.h"
#include "fabric/routing/frame.h"
#include "fabric/routing/ip_header.h"
#include "feedback/udp_checksum.h"

namespace brdma::lab {
namespace {

constexpr std::size_t kIpv4Size = 20, kIpv6Size = 40;

}  // namespace

void IpActions::configure(const fabric::NetworkConfig& config,
                          const std::optional<fabric::IncrementConfig>& increment) {
  if (!config.ecn_to_rtt || !increment) return translator_.reset();
  if (!translator_) translator_.emplace(fabric::RttTranslator::Config{});
  translator_->configure(*increment, config.ecn_to_rtt->rewrite);
}

MutableBytes IpActions::ip_of(const SwitchPacket& packet) {
  const MutableBytes frame = pool_.buffer(packet.buffer).first(packet.size);
  const std::uint16_t type = frame.size() < kIp ? std::uint16_t{0} : load_be16(&frame[kEtherType]);
  const bool whole = (type == kEtherIpv4 && frame.size() >= kIp + kIpv4Size) ||
                     (type == kEtherIpv6 && frame.size() >= kIp + kIpv6Size);
  return whole ? frame.subspan(kIp) : MutableBytes{};
}

std::uint8_t IpActions::dscp(const SwitchPacket& packet) {
  const ConstBytes ip = ip_of(packet);
  return ip.empty() ? std::uint8_t{0} : fabric::dscp_of(fabric::traffic_class(ip));
}

void IpActions::dropped(const SwitchPacket& packet, Instant now) {
  if (const auto flow = fabric::five_tuple(ip_of(packet))) ++flows_.of(*flow, now).dropped;
}

void IpActions::enqueued(SwitchPacket& packet, bool marked, Instant now) {
  const MutableBytes ip = ip_of(packet);
  const auto flow = fabric::five_tuple(ip);
  if (!flow) return;
  fabric::FlowCount& count = flows_.of(*flow, now);
  ++count.packets;
  count.bytes += packet.size;
  count.marked += marked ? 1 : 0;
  if (!marked && !translator_) return;
  const std::uint8_t ecn = fabric::ecn_of(fabric::traffic_class(ip));
  const bool translated = translator_ && translate(packet, *flow, marked || ecn == fabric::kCongested, now);
  if (const std::uint8_t after = marks_.leave_with(ecn, marked, translated); after != ecn) fabric::set_ecn(ip, after);
}

// True: the mark was taken over.
bool IpActions::translate(SwitchPacket& packet, const fabric::FiveTuple& flow, bool marked, Instant now) {
  if (packet.udp_offset == 0 || flow.destination_port != fabric::kRocePort) return false;
  const MutableBytes frame = pool_.buffer(packet.buffer).first(packet.size);
  const fabric::FrameInfo info = packet.udp_info();
  const std::uint64_t rewritten = translator_->counters().rewritten;
  const bool translated =
      translator_->pass(flow.source, flow.destination, frame.subspan(info.payload_offset), marked, now);
  if (translator_->counters().rewritten != rewritten) mend_udp_checksum(packet, frame);
  return translated;
}

}  // namespace brdma::lab
