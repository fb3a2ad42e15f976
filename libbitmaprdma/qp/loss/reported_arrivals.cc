#include "qp/loss/reported_arrivals.h"

#include <algorithm>
#include <bit>

#include "base/bit_order.h"
#include "recovery/retransmit_request.h"

namespace brdma::qp {
namespace {

using bitmap::EntryState;

bool reports(const wire::BitmapAck& ack, std::uint32_t bit) {
  return bit < ack.bit_count &&
         (load_be32(ack.bits.data() + std::size_t{bit / 32} * 4) & (0x8000'0000u >> (bit % 32))) != 0;
}

// The next 64 bits of an acknowledgement from word `at` on; bit 0 is the lowest PSN. `count`: packets that it can
// cover.
std::uint64_t bits_at(const wire::BitmapAck& ack, std::uint32_t at, std::uint32_t count) {
  const auto word = [&ack](std::uint32_t first) -> std::uint64_t {
    return first < ack.bit_count ? reverse_bits(load_be32(ack.bits.data() + std::size_t{first / 32} * 4)) : 0;
  };
  const std::uint64_t bits = word(at) | word(at + 32) << 32;
  return count - at >= 64 ? bits : bits & ((std::uint64_t{1} << (count - at)) - 1);
}

}  // namespace

void ReportedArrivals::on_acknowledgement(const wire::BitmapAck& ack, Sequence from, Instant now) const {
  if (ack.bit_count > 0) take_bits(ack, from, now);
  if (ack.operations_valid && wire::acknowledges(ack.syndrome)) take_segments(ack, now);
  if (ack.range_count > 0) [[unlikely]]
    take_ranges(ack, from, now);
  // Nothing is missing, and the peer answers: it lives, whenever it executes the rest.
  if (parts_.scoreboard.unacked() == 0 && from < parts_.scoreboard.next()) parts_.progress.on_acknowledged(now);
}

// A packet is reported for the first time. True: newly acknowledged.
bool ReportedArrivals::take_reported(Sequence sequence, Instant now) const {
  parts_.scoreboard.note_reported(sequence);
  if (parts_.scoreboard.is_acked(sequence)) return false;
  Message& message = parts_.packets.message_of(sequence);
  if (!message.answered()) return parts_.packets.acknowledge(sequence, message, now);
  parts_.packets.request_reported(message, now);
  return false;
}

// Each acknowledgement repeats earlier bits, which are skipped 64 packets at a time.
void ReportedArrivals::take_bits(const wire::BitmapAck& ack, Sequence from, Instant now) const {
  Scoreboard& board = parts_.scoreboard;
  bool progress = false;
  Sequence end = from;  // one past the newest received
  const auto count = static_cast<std::uint32_t>(std::min<Sequence>(ack.bit_count, board.next() - from));
  board.look_at(count / 64);
  for (std::uint32_t at = 0; at < count; at += 64) {
    const std::uint64_t bits = bits_at(ack, at, count);
    if (bits == 0) continue;
    end = from + at + static_cast<Sequence>(std::bit_width(bits));
    for (std::uint64_t news = bits & ~board.reported(from + at); news != 0; news &= news - 1)
      progress = take_reported(from + at + static_cast<Sequence>(std::countr_zero(news)), now) || progress;
  }
  if (progress) parts_.progress.on_acknowledged(now);
  board.note_arrived(end);
  judge_missing(ack, from, end, now);
}

// Between the base and `end`, one past the newest received.
void ReportedArrivals::judge_missing(const wire::BitmapAck& ack, Sequence from, Sequence end, Instant now) const {
  const Sequence judged = std::min(from + ack.judged, end);
  if (parts_.sender_judges) [[unlikely]] {
    if (parts_.id.recovery->mode == RecoveryMode::kWanFeedback) apply_judgement(from, judged, now);
    return;
  }
  std::optional<EchoedPacket> echo;
  if (ack.echo_valid) echo = {wire::instant_of(ack.ts_echo, now), ack.path};
  // Needed only after a retransmission or a late packet.
  if (echo && parts_.paths == nullptr && (parts_.loss || parts_.scoreboard.retransmitted() != 0)) [[unlikely]]
    parts_.packets.repairing().overtaking.on_echo(std::min(echo->sent, now));
  apply_judgement(from, judged, now);
  retransmit_old_holes({from, judged, end}, echo, now);
}

// The receiver has judged missing packets before `to` lost. If the FFM that reported them was lost as well, this
// repeats it. It covers no retransmission sent since.
void ReportedArrivals::apply_judgement(Sequence from, Sequence to, Instant now) const {
  const Scoreboard& board = parts_.scoreboard;
  for (Sequence at = board.first_unreported(from, to); at < to; at = board.first_unreported(at + 1, to)) {
    const bitmap::SendEntry& entry = board.entry(at);
    if (recovery::judge_request({entry.state, entry.transmissions > 1, {}}, {}, true) !=
        recovery::RequestVerdict::kResend)
      continue;
    const Message& message = parts_.packets.message_of(at);
    if (message.answered() && message.request_received) continue;
    parts_.packets.retransmit_range(at, at + 1, Counter::kRetransmittedAck, now);
  }
}

// The receiver has not judged it lost: it may be there, and wait for its receive. No bit can report the base.
bool ReportedArrivals::may_be_held(Sequence at, const Holes& holes) const {
  return at == holes.from && holes.judged == holes.from && !parts_.packets.message_of(at).answered();
}

// Holes are the FFM's to request; only after as long as a stall without one, ours.
void ReportedArrivals::retransmit_old_holes(const Holes& holes, const std::optional<EchoedPacket>& echo,
                                            Instant now) const {
  const Scoreboard& board = parts_.scoreboard;
  std::uint32_t timed_out = 0;
  const Duration age = parts_.lengths.stall();
  for (Sequence at = board.first_unreported(holes.from, holes.to); at < holes.to;
       at = board.first_unreported(at + 1, holes.to)) {
    const bitmap::SendEntry& entry = board.entry(at);
    if (entry.state == EntryState::kAcked || entry.state == EntryState::kRetransmitPending) continue;
    const Instant sent = board.sent_at(at, now);
    const bool old = (echo ? echo->sent : now) >= sent + age;
    if (!old && (may_be_held(at, holes) || !lost_again(entry, sent, echo, now))) continue;
    const Message& message = parts_.packets.message_of(at);
    if (message.answered() && message.request_received) continue;
    const std::uint32_t again = parts_.packets.retransmit_range(at, at + 1, Counter::kRetransmittedAck, now);
    timed_out += old ? again : 0;
  }
  parts_.inquiries.on_timed_out(timed_out, now);
}

// Is a missing retransmission lost as well, because a packet that left after it has arrived? Then the receiver's next
// request is not awaited.
bool ReportedArrivals::lost_again(const bitmap::SendEntry& entry, Instant sent, const std::optional<EchoedPacket>& echo,
                                  Instant now) const {
  if (entry.transmissions < 2) return false;
  const RecoveryConfig& recovery = *parts_.id.recovery;
  if (parts_.paths == nullptr) {
    return parts_.loss && now - sent >= recovery.resend_interval_min && parts_.loss->overtaking.passed(sent);
  }
  const Duration apart = echo && entry.path == echo->path ? Duration{} : apart_on_paths();
  return echo && echo->sent > sent + recovery.age_max + apart;
}

// How much later a packet has to leave than another on another path to arrive later for certain: the difference of the
// paths, and the queue before both, which may have emptied in between.
Duration ReportedArrivals::apart_on_paths() const {
  const Duration skew = parts_.paths->skew();
  return skew + std::min(skew, parts_.congestion.queueing());
}

void ReportedArrivals::take_segments(const wire::BitmapAck& ack, Instant now) const {
  parts_.segments.for_each_completed(ack, [&](const registry::SentOperation& segment) {
    const Sequence first = std::max(segment.first, parts_.scoreboard.base());
    const Message& message = parts_.packets.message_of(first);
    for (Sequence at = first; at < segment.end(); ++at) parts_.packets.acknowledge(at, message, now);
  });
}

// Holes between ranges are left to the FFM: not all received packets are reported.
void ReportedArrivals::take_ranges(const wire::BitmapAck& ack, Sequence from, Instant now) const {
  const Scoreboard& board = parts_.scoreboard;
  bool progress = false;
  for (std::size_t i = 0; i < ack.range_count; ++i) {
    const wire::AckRange range = ack.range(i);
    const Sequence first = from + static_cast<Sequence>(distance(range.start, ack.base));
    const Sequence end = std::min(first + range.length, board.next());
    for (Sequence at = board.first_unreported(first, end); at < end; at = board.first_unreported(at + 1, end))
      progress = take_reported(at, now) || progress;
  }
  if (progress) parts_.progress.on_acknowledged(now);
}

void ReportedArrivals::take_back(const wire::BitmapAck& ack, Sequence from, Instant now) const {
  Scoreboard& board = parts_.scoreboard;
  for (Sequence at = from; at < board.next(); ++at) {
    if (reports(ack, static_cast<std::uint32_t>(at - from))) continue;
    board.forget_reported(at);
    Message& message = parts_.packets.message_of(at);
    if (message.answered()) {
      message.request_received = false;
    } else if (board.is_acked(at)) {
      parts_.packets.reopen(at, message, now);
    }
  }
}

}  // namespace brdma::qp
