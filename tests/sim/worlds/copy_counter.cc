#include "worlds/copy_counter.h"

#include <algorithm>

namespace brdma::test {

CopyCounter::Counts& CopyCounter::Counts::operator+=(const Counts& more) {
  again += more.again;
  passes += more.passes;
  answered_again += more.answered_again;
  late += more.late;
  return *this;
}

CopyCounter::CopyCounter(const sim::Host& requester, const FlightChecker::Connection& connection)
    : requester_(requester),
      connection_(connection),
      next_(connection.first_psn.value()),
      farthest_request_(next_),
      farthest_answer_(next_) {}

std::int64_t CopyCounter::sequence_of(Psn psn) const {
  return next_ + distance(psn, Psn{static_cast<std::uint32_t>(next_)});
}

bool CopyCounter::is_between_them(const sim::Packet& bytes) const {
  const IpAddress &here = requester_.address(), &there = connection_.responder;
  return (bytes.source == here && bytes.destination == there) || (bytes.source == there && bytes.destination == here);
}

bool CopyCounter::is_request(const sim::Packet& bytes, const wire::Packet& packet) const {
  return bytes.destination == connection_.responder && packet.bth.dest_qpn == connection_.responder_qpn &&
         !packet.control && packet.bth.opcode != wire::kCnpOpcode && wire::is_request(packet.op);
}

bool CopyCounter::is_response(const sim::Packet& bytes, const wire::Packet& packet) const {
  return bytes.source == connection_.responder && packet.bth.dest_qpn == connection_.requester_qpn && !packet.control &&
         packet.bth.opcode != wire::kCnpOpcode && !wire::is_request(packet.op) && packet.op != wire::RcOp::kAcknowledge;
}

void CopyCounter::sent(const sim::Host&, const sim::Packet& bytes, Instant) {
  if (ended_ || !is_between_them(bytes)) return;
  const auto packet = wire::parse_packet(bytes.bytes);
  if (!packet.ok()) return;
  if (is_request(bytes, packet.value())) handle_request(packet.value());
  if (is_response(bytes, packet.value())) handle_response(packet.value());
}

void CopyCounter::handle_request(const wire::Packet& packet) {
  const std::int64_t sequence = sequence_of(packet.bth.psn);
  bitmap_ = bitmap_ || packet.bitmap;
  if (sequence >= next_) {
    next_ = sequence + FlightChecker::psns_of(packet, connection_.mtu);
    passing_ = false;
  } else if (bitmap_) {
    ++counts_.again;
  } else {
    if (!passing_ || sequence <= repeated_) ++counts_.passes;
    passing_ = true;
    repeated_ = sequence;
  }
}

void CopyCounter::handle_response(const wire::Packet& packet) {
  if (!answered_.insert(sequence_of(packet.bth.psn)).second && packet.bitmap) ++counts_.answered_again;
}

void CopyCounter::received(const sim::Host& by, const sim::Packet& bytes, Instant) {
  if (ended_ || by.address() != bytes.destination || !is_between_them(bytes)) return;
  const auto packet = believable(bytes);
  if (!packet || !packet->bitmap) return;
  if (is_request(bytes, *packet)) handle_arrival(*packet, farthest_request_);
  if (is_response(bytes, *packet)) handle_arrival(*packet, farthest_answer_);
}

void CopyCounter::handle_arrival(const wire::Packet& packet, std::int64_t& farthest) {
  const std::int64_t sequence = sequence_of(packet.bth.psn);
  if (sequence < farthest && !packet.bxth.retransmitted) ++counts_.late;
  farthest = std::max(farthest, sequence);
}

}  // namespace brdma::test
