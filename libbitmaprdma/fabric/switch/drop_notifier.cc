#include "fabric/switch/drop_notifier.h"

#include <algorithm>
#include <cstring>

#include "base/datagram.h"
#include "fabric/routing/frame.h"
#include "wire/crc/icrc.h"
#include "wire/edn.h"
#include "wire/opcode.h"
#include "wire/packet.h"

namespace brdma::fabric {
namespace {

using wire::OpcodeShape;
using wire::RcOp;

constexpr std::uint16_t kNoticePort = 0xC0DE;  // source port of control packets; nobody answers there
constexpr std::size_t kIpv4Size = wire::kIpv4Size, kIpv6Size = wire::kIpv6Size;
static_assert(DropReport::kQuoteMax >= wire::kQuoteMax);
static_assert(DropNotice::kSizeMax >= wire::kIcmpHeaderSize + wire::kQuoteMax);
static_assert(DropNotice::kSizeMax >= wire::kBthSize + wire::kEdnSize + wire::kIcrcSize);

// Its sender can send the packet, or its current equivalent, again.
bool is_repaired(std::uint8_t opcode) {
  if (wire::is_acknowledgement(opcode)) return true;
  const OpcodeShape& shape = wire::opcode_shape(opcode);
  const std::uint8_t transport = opcode & wire::kTransportMask;
  return shape.parts != 0 && (transport == wire::kTransportRc || transport == wire::kTransportBitmap);
}

// PSNs of requests, of responses and of acknowledgements are separate sequences, though all go to one queue pair.
std::uint32_t numbers_of(std::uint8_t opcode) {
  if (wire::is_acknowledgement(opcode)) return 2;
  return wire::is_answer(static_cast<RcOp>(opcode & 0x1F)) ? 1 : 0;
}

std::optional<wire::Bth> repaired_packet(const RoceView& packet) {
  if (packet.payload.size() < wire::kBthSize) return std::nullopt;
  const wire::Bth bth = wire::parse_bth(packet.payload.first<wire::kBthSize>());
  if (!is_repaired(bth.opcode)) return std::nullopt;
  return bth;
}

DropFlow flow_of(const RoceView& packet, const wire::Bth& bth) {
  return {.source = packet.source,
          .destination = packet.destination,
          .source_port = packet.source_port,
          .destination_port = kRoceUdpPort,
          .protocol = 17,
          .queue_pair = bth.dest_qpn | numbers_of(bth.opcode) << 24};
}

}  // namespace

DropNotifier::DropNotifier(const Config& config)
    : config_(config), table_(config.table), tokens_(config.notices_per_second, config.burst) {}

void DropNotifier::dropped(const RoceView& packet, Duration drain, Instant now) {
  if (!on()) return;
  const auto bth = repaired_packet(packet);
  if (!bth) return;
  std::array<std::byte, DropReport::kQuoteMax> made;
  ConstBytes beginning = packet.from_ip;
  if (beginning.empty()) {  // the headers that it would have had
    const std::size_t headers =
        write_roce_headers(packet.source, packet.destination, packet.source_port, packet.payload.size(), made.data());
    const std::size_t rest = std::min(made.size() - headers, packet.payload.size());
    std::memcpy(&made[headers], packet.payload.data(), rest);
    beginning = ConstBytes{made}.first(headers + rest);
  }
  const DropFlow flow = flow_of(packet, *bth);
  for (const DropReport& report : table_.dropped(flow, {bth->psn.value(), 1, beginning}, drain, now))
    send_report(report, now);
}

void DropNotifier::enqueued(const RoceView& packet, Instant now) {
  if (table_.flows() == 0) return;
  const auto bth = repaired_packet(packet);
  if (!bth) return;
  if (const auto report = table_.enqueued(flow_of(packet, *bth))) send_report(*report, now);
}

void DropNotifier::handle_timeout(Instant now) {
  while (const auto report = table_.poll_silent(now)) send_report(*report, now);
}

std::optional<DropNotice> DropNotifier::poll() {
  if (notices_.empty()) return std::nullopt;
  const DropNotice notice = notices_.front();
  notices_.pop_front();
  return notice;
}

void DropNotifier::send_report(const DropReport& report, Instant now) {
  const bool icmp = config_.form == EdnForm::kIcmp && report.flow.source.is_v4();
  const auto notice = icmp ? as_icmp(report) : as_roce(report);
  if (!notice) {
    ++counters_.formless;
    return;
  }
  if (!tokens_.has_token(now)) {
    ++counters_.limited;
    return;
  }
  tokens_.take(now);
  ++counters_.sent;
  counters_.sent_bytes += notice->size + (report.flow.source.is_v4() ? kIpv4Size : kIpv6Size) +
                          (notice->source_port == 0 ? 0 : wire::kUdpSize);
  notices_.push_back(*notice);
}

std::optional<DropNotice> DropNotifier::as_icmp(const DropReport& report) {
  DropNotice notice{.source = report.flow.destination, .destination = report.flow.source};
  const std::uint32_t count = std::min<std::uint32_t>(report.length, 0x1'0000);
  notice.size =
      static_cast<std::uint8_t>(wire::emit_icmp_edn(report.quote(), count, report.drain, notice.bytes.data()));
  return notice;
}

std::optional<DropNotice> DropNotifier::as_roce(const DropReport& report) {
  const std::size_t skipped = (report.flow.source.is_v4() ? kIpv4Size : kIpv6Size) + wire::kUdpSize;
  // BXTH, or a control packet's body: the first word is the same, and the token is at the same place.
  if (report.quote().size() < skipped + wire::kBthSize + wire::kBxthSize) return std::nullopt;
  const ConstBytes roce = report.quote().subspan(skipped);
  const wire::Bth dropped = wire::parse_bth(roce.first<wire::kBthSize>());
  const OpcodeShape& shape = wire::opcode_shape(dropped.opcode);
  if (!shape.has(OpcodeShape::kToken) || wire::bitmap_version(&roce[wire::kBthSize]) != wire::kBitmapVersion)
    return std::nullopt;
  const wire::Bxth bxth = wire::parse_bxth(roce.subspan<wire::kBthSize, wire::kBxthSize>());
  wire::Edn edn{.first = Psn{report.number},
                .last = Psn{report.number + report.length - 1},
                .destination_qpn = dropped.dest_qpn,
                .drain = report.drain,
                .token = bxth.token};
  if (wire::is_acknowledgement(dropped.opcode)) {
    edn.acknowledgement = true;
  } else {
    edn.responses = wire::is_answer(static_cast<RcOp>(dropped.opcode & 0x1F));
    edn.path = bxth.path;
    edn.timestamp = bxth.timestamp;
  }
  wire::Packet packet;
  packet.bth.opcode = static_cast<std::uint8_t>(wire::Control::kEdn);
  packet.bth.dest_qpn = bxth.source_qpn;
  packet.bth.psn = edn.first;
  DropNotice notice{.source = report.flow.destination, .destination = report.flow.source, .source_port = kNoticePort};
  std::size_t size = wire::emit_headers(packet, notice.bytes.data());
  size += wire::emit_edn(edn, &notice.bytes[size]);
  notice.size = static_cast<std::uint8_t>(size + wire::kIcrcSize);
  const wire::IcrcPath path{.source = notice.source,
                            .destination = notice.destination,
                            .source_port = notice.source_port,
                            .destination_port = kRoceUdpPort,
                            .ip_id = 0};
  store_le32(&notice.bytes[size], wire::packet_icrc(path, notice.view()));
  return notice;
}

}  // namespace brdma::fabric
