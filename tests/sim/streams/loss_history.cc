#include "streams/loss_history.h"

#include <algorithm>

#include "wire/packet.h"

namespace brdma::test {
namespace {

bool is(const wire::Packet& packet, wire::Control what) {
  return packet.control && packet.bth.opcode == static_cast<std::uint8_t>(what);
}

}  // namespace

std::int64_t LossHistory::place_of(Psn psn) const {
  const auto newest = static_cast<std::int64_t>(flights_.size());
  return newest + distance(psn, first_ + static_cast<std::uint32_t>(flights_.size() & Psn::kMask));
}

void LossHistory::sent(const sim::Host& from, const sim::Packet& packet, Instant now) {
  const auto parsed = wire::parse_packet(packet.bytes);
  if (!parsed.ok()) return;
  const wire::Packet& seen = parsed.value();
  if (&from == &receiver_ && is(seen, wire::Control::kFfm)) {
    if (const auto ffm = wire::parse_ffm(seen.payload, seen.bth.psn)) feedback_left(*ffm, now);
  }
  if (&from != &sender_ || seen.control || !wire::is_request(seen.op)) return;
  const std::int64_t place = place_of(seen.bth.psn);
  if (place < 0) return;
  if (place >= static_cast<std::int64_t>(flights_.size())) flights_.resize(static_cast<std::size_t>(place) + 1);
  flights_[static_cast<std::size_t>(place)].copies.push_back(now);
}

void LossHistory::received(const sim::Host& by, const sim::Packet& packet, Instant now) {
  const auto parsed = wire::parse_packet(packet.bytes);
  if (!parsed.ok()) return;
  const wire::Packet& seen = parsed.value();
  if (&by == &sender_) {
    if (is(seen, wire::Control::kFfm)) {
      if (const auto ffm = wire::parse_ffm(seen.payload, seen.bth.psn)) feedback_came(*ffm, now);
    } else if (is(seen, wire::Control::kBitmapAck)) {
      if (const auto ack = wire::parse_bitmap_ack(seen.payload, seen.bth.psn)) judged(*ack, now);
    }
    return;
  }
  if (seen.control || !wire::is_request(seen.op)) return;
  const std::int64_t place = place_of(seen.bth.psn);
  if (place >= 0 && place < static_cast<std::int64_t>(flights_.size())) arrived(place, now);
}

template <class Do>
void LossHistory::for_each_named(const wire::Ffm& ffm, const Do& what) {
  for (std::size_t i = 0; i < ffm.gap_count; ++i) {
    const wire::FfmGap gap = ffm.gap(i);
    const std::int64_t start = place_of(gap.start);
    for (std::int64_t at = start; at < start + gap.length; ++at) {
      const auto missing = missing_.find(at);
      if (missing != missing_.end()) what(missing->second);
    }
  }
}

void LossHistory::feedback_left(const wire::Ffm& ffm, Instant now) {
  for_each_named(ffm, [now](Missing& missing) { missing.feedbacks.push_back(now); });
}

void LossHistory::feedback_came(const wire::Ffm& ffm, Instant now) {
  for_each_named(ffm, [&](Missing& missing) {
    const bool first = static_cast<std::uint64_t>(missing.feedbacks.front().ns()) == ffm.timestamp;
    missing.first_feedback_heard = missing.first_feedback_heard || first;
    if (!missing.reported) missing.reported = now;
  });
}

void LossHistory::judged(const wire::BitmapAck& ack, Instant now) {
  const std::int64_t start = place_of(ack.base);
  for (std::int64_t at = start; at < start + ack.judged; ++at) {
    const auto missing = missing_.find(at);
    if (missing != missing_.end() && !missing->second.reported) missing->second.reported = now;
  }
}

void LossHistory::arrived(std::int64_t place, Instant now) {
  Flight& flight = flights_[static_cast<std::size_t>(place)];
  if (flight.placed) return;
  flight.placed = true;
  const Duration taken = now - flight.copies.front();
  if (shortest_ == Duration{} || taken < shortest_) shortest_ = taken;
  for (std::int64_t at = highest_ + 1; at < place; ++at) missing_[at].shown = now;
  highest_ = std::max(highest_, place);
  const auto missing = missing_.find(place);
  if (flight.copies.size() > 1) {
    LossStory& story = stories_.emplace_back();
    story.place = static_cast<std::uint64_t>(place);
    story.first_sent = flight.copies.front();
    story.shortest_trip = shortest_;
    story.copies = flight.copies;
    story.placed = now;
    if (missing != missing_.end()) {
      story.shown = missing->second.shown;
      story.feedbacks = std::move(missing->second.feedbacks);
      story.first_feedback_heard = missing->second.first_feedback_heard;
      story.reported = missing->second.reported;
    }
  }
  if (missing != missing_.end()) missing_.erase(missing);
  flight.copies = {flight.copies.front()};
}

}  // namespace brdma::test
