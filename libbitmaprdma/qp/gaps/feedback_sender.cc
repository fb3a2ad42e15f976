#include "qp/gaps/feedback_sender.h"

#include <algorithm>
#include <array>

#include "wire/control.h"

namespace brdma::qp {
namespace {

constexpr std::size_t kFixedSize = wire::kBthSize + wire::kFfmSize + wire::kIcrcSize;

}  // namespace

FeedbackSender::Sent FeedbackSender::poll(TransmitBatch& batch, Instant now) const {
  FeedbackWatch& watch = parts_.out_of_order.feedback;
  std::array<bitmap::GapRecord*, wire::kFfmGapsMax> room;
  const auto [gaps, rest] = choose(room, now);
  if (gaps.empty() || parts_.base_packet.is_refused()) {
    parts_.feedback.cancel();
    if (parts_.base_packet.is_refused()) watch.look = true;
    if (gaps.empty()) watch.all_named();
    return Sent::kNothing;
  }
  if (!batch.fits(kFixedSize + gaps.size() * wire::kFfmGapSize, 0, true)) return Sent::kNothing;
  add(gaps, batch, now);
  const bool repeated = note_named(gaps, now);
  if (repeated) parts_.ack_loss.on_sign(parts_.window.highest());
  if (rest) {
    watch.continued_at = rest;
    return Sent::kPart;
  }
  watch.all_named();
  parts_.feedback.cancel();
  return Sent::kAll;
}

FeedbackSender::Chosen FeedbackSender::choose(std::span<bitmap::GapRecord*> room, Instant now) const {
  const FeedbackWatch& watch = parts_.out_of_order.feedback;
  bitmap::GapTable& gaps = parts_.out_of_order.gaps;
  const std::size_t gaps_max = std::min<std::size_t>(room.size(), parts_.mtu / wire::kFfmGapSize);
  const auto unless_continued = watch.look ? std::optional<Psn>{parts_.window.base()} : watch.unnamed;
  const auto from = watch.continued_at ? watch.continued_at : unless_continued;
  std::size_t count = 0;
  for (std::size_t i = from ? gaps.find(*from) : gaps.size(); i < gaps.size(); ++i) {
    ++parts_.out_of_order.gaps_looked_at;
    if (!is_due(gaps[i], now)) continue;
    if (count == gaps_max) return {room.first(count), gaps[i].start};
    room[count++] = &gaps[i];
  }
  return {room.first(count)};
}

bool FeedbackSender::is_due(const bitmap::GapRecord& gap, Instant now) const {
  if (gap.state != bitmap::GapState::kPromoted) return false;
  return gap.feedbacks == 0 ||
         parts_.feedback.is_repetition_due(gap, parts_.out_of_order.last_arrival, *parts_.identity.recovery, now);
}

void FeedbackSender::add(std::span<bitmap::GapRecord* const> gaps, TransmitBatch& batch, Instant now) const {
  std::byte listed[wire::kFfmGapsMax * wire::kFfmGapSize];
  for (std::size_t i = 0; i < gaps.size(); ++i) {
    const bitmap::GapRecord& gap = *gaps[i];
    const auto repeat = static_cast<std::uint8_t>(std::min<unsigned>(gap.feedbacks, wire::kFfmGapRepeatMax));
    wire::emit_ffm_gap({gap.start, gap.length, gap.cause, repeat}, listed + i * wire::kFfmGapSize);
  }
  const Identity& identity = parts_.identity;
  const bitmap::GapRecord& first = *gaps.front();
  const Psn highest = parts_.window.highest();
  wire::Ffm ffm;
  ffm.source_qpn = identity.qpn;
  ffm.token = identity.peer_token;
  ffm.path = first.path;
  ffm.highest = highest;
  ffm.cause = first.cause;
  ffm.base = parts_.window.base();
  ffm.depth = static_cast<std::uint16_t>(std::min(distance(highest, first.start), 0xFFFF));
  ffm.repeat = first.feedbacks;
  ffm.timestamp = static_cast<std::uint64_t>(now.ns());
  parts_.feedback.number(ffm);
  ffm.gap_count = static_cast<std::uint16_t>(gaps.size());
  ffm.gaps = ConstBytes{listed, gaps.size() * wire::kFfmGapSize};
  std::byte body[wire::kFfmSize + sizeof listed];
  const std::size_t emitted = wire::emit_ffm(ffm, body);
  wire::Bth bth;
  bth.opcode = static_cast<std::uint8_t>(wire::Control::kFfm);
  bth.dest_qpn = identity.attributes.destination_qpn;
  bth.psn = first.start;
  batch.add_control(bth, ConstBytes{body, emitted});
  parts_.env.count(Counter::kFfmSent);
  parts_.env.note(now, identity.qpn, trace::EventType::kFfmSent, first.start.value(), gaps.size(), ffm.repeat);
  parts_.env.trace(now, identity.qpn, trace::FfmSent{first.start, first.length, highest, ffm.gap_count});
}

// True: one of them had been named before.
bool FeedbackSender::note_named(std::span<bitmap::GapRecord* const> gaps, Instant now) const {
  FeedbackWatch& watch = parts_.out_of_order.feedback;
  bool repeated = false;
  for (bitmap::GapRecord* const gap : gaps) {
    if (gap->feedbacks != 0xFFFF) ++gap->feedbacks;
    repeated = repeated || gap->feedbacks > 1;
    gap->last_feedback = now;
    bring_forward(watch.oldest[FeedbackWatch::class_of(gap->feedbacks)], now);
  }
  return repeated;
}

}  // namespace brdma::qp
