#include "support/flight_checker.h"

#include <algorithm>

#include "wire/control.h"
#include "wire/crc/icrc.h"

namespace brdma::test {
namespace {

constexpr std::size_t kCreditsKept = 8;

}  // namespace

std::optional<wire::Packet> believable(const sim::Packet& packet) {
  const auto parsed = wire::parse_packet(packet.bytes);
  if (!parsed.ok()) return std::nullopt;
  // Bitmap mode defines its ICRC with identification 0, whatever the packet carries.
  const bool standard = !parsed.value().bitmap && !parsed.value().control;
  const std::uint16_t ip_id = standard ? packet.ip_id : std::uint16_t{0};
  const wire::IcrcPath path{packet.source, packet.destination, packet.source_port, 4791, ip_id};
  if (wire::packet_icrc(path, packet.bytes) != wire::stored_icrc(packet.bytes)) return std::nullopt;
  return parsed.value();
}

FlightChecker::FlightChecker(const sim::Host& requester, const Connection& connection)
    : requester_(requester),
      connection_(connection),
      next_(connection.first_psn.value()),
      base_(connection.first_psn.value()) {}

std::int64_t FlightChecker::sequence_of(Psn psn) const {
  return next_ + distance(psn, Psn{static_cast<std::uint32_t>(next_)});
}

void FlightChecker::find(std::string what, Instant now) {
  if (findings_.size() < 5) {
    findings_.push_back(requester_.config().name + " at " + std::to_string(now.ns()) + " ns: " + std::move(what));
  }
}

void FlightChecker::sent(const sim::Host& from, const sim::Packet& packet, Instant now) {
  if (ended_ || &from != &requester_ || packet.destination != connection_.responder) return;
  const auto parsed = wire::parse_packet(packet.bytes);
  if (!parsed.ok()) return find("sent a packet that does not parse", now);
  if (parsed.value().bth.dest_qpn != connection_.responder_qpn) return;
  if (parsed.value().bth.opcode == wire::kCnpOpcode) return;  // only reports that a packet was marked
  if (!parsed.value().control && wire::is_request(parsed.value().op)) handle_request(parsed.value(), now);
}

void FlightChecker::handle_request(const wire::Packet& packet, Instant now) {
  const std::int64_t sequence = sequence_of(packet.bth.psn);
  if (sequence < next_) return handle_retransmission(packet, sequence, now);
  if (sequence > next_) find("PSN " + std::to_string(packet.bth.psn.value()) + " skips PSNs", now);
  bitmap_ = bitmap_ || packet.bitmap;
  const std::uint32_t psns = psns_of(packet, connection_.mtu);
  next_ = sequence + psns;
  if (psns > 1) reads_[sequence] = next_;
  const auto bytes = static_cast<std::uint32_t>(packet.payload.size());
  flight_[sequence] = bytes;
  flight_bytes_ += bytes;
  packets_most_ = std::max(packets_most_, flight_.size());
  check_limits(next_, now);
}

void FlightChecker::handle_retransmission(const wire::Packet& packet, std::int64_t sequence, Instant now) {
  if (!bitmap_) return;
  if (!is_needless(packet, sequence) || needless_++ != 0) return;
  first_needless_ = requester_.config().name + " at " + std::to_string(now.ns()) + " ns: PSN " +
                    std::to_string(packet.bth.psn.value()) + " to QP " + std::to_string(packet.bth.dest_qpn);
}

bool FlightChecker::is_needless(const wire::Packet& packet, std::int64_t sequence) const {
  if (!wire::is_answered(packet.op))
    return sequence > base_ && !flight_.empty() && !flight_.contains(sequence) && !not_ready_.contains(sequence);
  const auto first = responses_.lower_bound(sequence);
  return first != responses_.end() && *first < sequence + psns_of(packet, connection_.mtu);
}

std::uint32_t FlightChecker::psns_of(const wire::Packet& request, std::uint32_t mtu) {
  if (request.op != wire::RcOp::kReadRequest || request.bxth.by_reference()) return 1;
  return std::max(1u, (request.reth.length + mtu - 1) / mtu);
}

void FlightChecker::check_limits(std::int64_t end, Instant now) {
  const RecoveryConfig& own = requester_.config().engine.recovery;
  const auto too_many = [&](const char* what, std::uint64_t is, std::uint64_t limit) {
    if (is > limit) find(std::to_string(is) + what + ", allowed are " + std::to_string(limit), now);
  };
  if (!bitmap_) {
    const std::uint32_t more = own.mode == RecoveryMode::kGoBackN ? 4096 / connection_.mtu : 1;
    too_many(" packets in flight before bitmap mode", flight_.size(), own.standard_window_packets * more);
    return;
  }
  too_many(" PSNs in the window", static_cast<std::uint64_t>(end - base_), std::min(own.window_packets, peer_window_));
  if (flight_.size() <= 1) return;  // one packet may always go: it requests new credit
  Credit most{0, 0};
  for (const auto* credits : {&credits_, &stale_credits_}) {
    for (const Credit& credit : *credits) {
      most.packets = std::max(most.packets, credit.packets);
      most.bytes = std::max(most.bytes, credit.bytes);
    }
  }
  too_many(" packets in flight", flight_.size(), most.packets);
  too_many(" bytes in flight", flight_bytes_, most.bytes);
}

void FlightChecker::received(const sim::Host& by, const sim::Packet& bytes, Instant) {
  if (ended_ || &by != &requester_ || bytes.source != connection_.responder) return;
  const auto packet = believable(bytes);
  if (!packet || packet->bth.dest_qpn != connection_.requester_qpn) return;
  if (packet->bth.opcode == wire::kCnpOpcode) return;
  if (packet->control) return handle_control(*packet);
  if (packet->bitmap && packet->bxth.piggyback) handle_ack(wire::bitmap_ack_of(packet->bxth, packet->piggyback));
  const std::int64_t sequence = sequence_of(packet->bth.psn);
  if (wire::is_request(packet->op) || sequence >= next_ || sequence < base_) return;
  const std::uint8_t kind = packet->aeth.syndrome & wire::kSyndromeKindMask;
  const bool names_missing = packet->op == wire::RcOp::kAcknowledge && kind != 0;  // NAK, RNR NAK
  if (names_missing && kind == wire::kSyndromeRnr) not_ready_.insert(sequence);
  if (packet->bitmap && packet->op != wire::RcOp::kAcknowledge) responses_.insert(sequence);
  acknowledge_before(names_missing ? sequence : end_of_request(sequence));
}

// A READ's first response shows that the request was executed; its PSNs are those of all its responses.
std::int64_t FlightChecker::end_of_request(std::int64_t sequence) const {
  const auto after = reads_.upper_bound(sequence);
  if (after == reads_.begin()) return sequence + 1;
  const auto& [start, end] = *std::prev(after);
  return std::max(sequence + 1, end > sequence ? end : start);
}

void FlightChecker::handle_control(const wire::Packet& packet) {
  switch (static_cast<wire::Control>(packet.bth.opcode)) {
    case wire::Control::kCaps:
      // The first accepted one counts: later ones may have overtaken acknowledgements, which repeat the same values.
      if (const auto caps = wire::parse_caps(packet.payload); caps && caps->echo != 0 && peer_window_ == 0) {
        peer_window_ = caps->window_packets;
        note_credit(caps->credit_packets, caps->credit_bytes);
      }
      break;
    case wire::Control::kBitmapAck: {
      const auto ack = wire::parse_bitmap_ack(packet.payload, packet.bth.psn);
      if (ack) handle_ack(*ack);
      break;
    }
    case wire::Control::kFfm:
    case wire::Control::kEdn:
    case wire::Control::kLinkStateInquiry:
    case wire::Control::kLinkStateFeedback:
    case wire::Control::kStoppedQuery:
    case wire::Control::kStoppedReply:
      break;
  }
}

void FlightChecker::handle_ack(const wire::BitmapAck& ack) {
  const std::int64_t base = sequence_of(ack.base);
  if (base > next_) return;
  const bool stale = base < base_;  // relative to responses too: the requester may know less
  acknowledge_before(base);
  if ((ack.syndrome & wire::kSyndromeKindMask) == wire::kSyndromeRnr) not_ready_.insert(base);
  for (std::uint32_t i = 0; !stale && i < ack.bit_count; ++i) {
    if (((load_u8(&ack.bits[i / 8]) >> (7 - i % 8)) & 1) != 0) acknowledge(base + i);
  }
  note_credit(ack.credit_packets, ack.credit_bytes, stale);
}

void FlightChecker::note_credit(std::uint32_t packets, std::uint64_t bytes, bool stale) {
  std::vector<Credit>& credits = stale ? stale_credits_ : credits_;
  credits.push_back({packets, bytes});
  if (credits.size() > kCreditsKept) credits.erase(credits.begin());
}

void FlightChecker::acknowledge(std::int64_t sequence) {
  const auto found = flight_.find(sequence);
  if (found == flight_.end()) return;
  flight_bytes_ -= found->second;
  flight_.erase(found);
}

void FlightChecker::acknowledge_before(std::int64_t sequence) {
  while (!flight_.empty() && flight_.begin()->first < sequence) acknowledge(flight_.begin()->first);
  base_ = std::max(base_, sequence);
}

}  // namespace brdma::test
