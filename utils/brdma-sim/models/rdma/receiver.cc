#include "models/rdma/receiver.h"

#include "base/check.h"

namespace brdma::models::rdma {

namespace {
// An answer to `data`, without what depends on the rule.
Frame answer(const Frame& data, FrameKind kind, std::uint32_t wire_bytes, Instant now) {
  Frame frame;
  frame.flow = data.flow;
  frame.kind = kind;
  frame.wire_bytes = wire_bytes;
  frame.sent_at = now;
  frame.echo = data.sent_at;
  return frame;
}
}  // namespace

void CnpSource::on_data(const Frame& frame, Instant now, std::vector<Frame>& out) {
  if (!frame.ce || !interval_ || (last_ && now - *last_ < *interval_)) return;
  last_ = now;
  out.push_back(answer(frame, FrameKind::kCnp, bytes_, now));
}

std::optional<FrameKind> GoBackNReceiver::answer_to(const Frame& frame, Instant now) {
  if (frame.sequence == expected_) {
    expected_ = frame.end();
    if (++unacknowledged_ < settings_.receiver.ack_every && !frame.last) return std::nullopt;
    unacknowledged_ = 0;
    return FrameKind::kAck;
  }
  ++discarded_;
  if (frame.sequence < expected_) {
    if (!settings_.receiver.answers_duplicates) return std::nullopt;
    return FrameKind::kAck;
  }
  if (nacked_ == expected_ && now < nack_again_at_) return std::nullopt;
  nacked_ = expected_;
  nack_again_at_ = now + settings_.receiver.nack_interval;
  return FrameKind::kNack;
}

void GoBackNReceiver::on_frame(const Frame& frame, Instant now, std::vector<Frame>& out) {
  BRDMA_CHECK(frame.flow == flow_);
  if (frame.kind != FrameKind::kData) return;
  if (frame.last) bytes_ = frame.end();
  cnp_.on_data(frame, now, out);
  const auto kind = answer_to(frame, now);
  if (!kind) return;
  Frame reply = answer(frame, *kind, settings_.sizes.answer, now);
  reply.ack = expected_;
  reply.ece = (frame.ce && cnp_.uses_answers()) || (*kind == FrameKind::kNack && settings_.receiver.cnp_on_nack);
  out.push_back(reply);
}

void SelectiveReceiver::on_frame(const Frame& frame, Instant now, std::vector<Frame>& out) {
  BRDMA_CHECK(frame.flow == flow_);
  if (frame.kind != FrameKind::kData) return;
  if (frame.last) bytes_ = frame.end();
  cnp_.on_data(frame, now, out);
  const ByteRange range{frame.sequence, frame.end()};
  const Arrival arrival = received_.insert(range);
  if (arrival == Arrival::kDuplicate) ++discarded_;
  const bool ahead = arrival == Arrival::kAhead;
  const bool nack = ahead || (settings_.receiver.nacks_while_holes && received_.has_holes());
  Frame reply = answer(frame, nack ? FrameKind::kNack : FrameKind::kAck, settings_.sizes.answer, now);
  reply.ack = received_.in_order();
  if (nack) {
    reply.sack[0] = range;
    reply.sack_count = 1;
  }
  reply.ece = (frame.ce && cnp_.uses_answers()) || (ahead && settings_.receiver.cnp_on_nack);
  out.push_back(reply);
}

}  // namespace brdma::models::rdma
