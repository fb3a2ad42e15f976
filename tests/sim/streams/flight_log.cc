#include "streams/flight_log.h"

#include <algorithm>

#include "wire/packet.h"

namespace brdma::test {

// Null: not a request.
FlightLog::Flight* FlightLog::flight_of(const sim::Packet& packet) {
  const auto parsed = wire::parse_packet(packet.bytes);
  if (!parsed.ok() || parsed.value().control || !wire::is_request(parsed.value().op)) return nullptr;
  marked_again_ = !parsed.value().bitmap || parsed.value().bxth.retransmitted;
  const Psn near = first_ + static_cast<std::uint32_t>(newest_ & Psn::kMask);
  const std::int64_t place = static_cast<std::int64_t>(newest_) + distance(parsed.value().bth.psn, near);
  if (place < 0) return nullptr;
  newest_ = std::max(newest_, static_cast<std::uint64_t>(place));
  if (flights_.size() <= newest_) flights_.resize(newest_ + 1);
  return &flights_[static_cast<std::size_t>(place)];
}

void FlightLog::sent(const sim::Host& from, const sim::Packet& packet, Instant now) {
  if (&from != &sender_) return;
  Flight* flight = flight_of(packet);
  if (flight == nullptr) return;
  if (flight->copies++ == 0) {
    flight->first_sent = now;
  } else {
    ++sent_again_;
  }
}

void FlightLog::received(const sim::Host& by, const sim::Packet& packet, Instant now) {
  if (&by != &receiver_) return;
  Flight* flight = flight_of(packet);
  if (flight == nullptr) return;
  const auto place = static_cast<std::uint64_t>(flight - flights_.data());
  if (flight->placed) {
    ++spurious_;
    return;
  }
  if (in_order_ && place != next_in_order_) return;
  next_in_order_ = std::max(next_in_order_, place + 1);
  flight->placed = true;
  const Duration taken = now - flight->first_sent;
  if (shortest_ == Duration{} || taken < shortest_) shortest_ = taken;
  if (flight->copies > 1 && marked_again_) recoveries_.push_back(taken - shortest_);
}

}  // namespace brdma::test
