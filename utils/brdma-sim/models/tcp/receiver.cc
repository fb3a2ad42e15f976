#include "models/tcp/receiver.h"

#include <algorithm>

#include "base/check.h"

namespace brdma::models::tcp {

Frame TcpReceiver::make_ack(Instant echo, Instant now) {
  unacknowledged_ = 0;
  ack_at_.reset();
  Frame ack;
  ack.flow = flow_;
  ack.kind = FrameKind::kAck;
  ack.ack = received_.in_order();
  ack.sent_at = now;
  ack.echo = echo;
  ack.wire_bytes = settings_.sizes.answer;
  if (settings_.sack) {
    const auto ranges = received_.ranges();
    ack.sack_count = static_cast<std::uint8_t>(std::min(ranges.size(), kSackRanges));
    std::copy_n(ranges.begin(), ack.sack_count, ack.sack.begin());
  }
  return ack;
}

void TcpReceiver::on_frame(const Frame& frame, Instant now, std::vector<Frame>& out) {
  BRDMA_CHECK(frame.flow == flow_);
  if (frame.kind != FrameKind::kData) return;
  if (frame.last) bytes_ = frame.end();
  const bool had_holes = received_.has_holes();
  const Arrival arrival = received_.insert({frame.sequence, frame.end()});
  if (unacknowledged_ == 0) echo_ = frame.sent_at;
  if (arrival == Arrival::kInOrder && !had_holes && ++unacknowledged_ < settings_.ack_every) {
    if (!ack_at_) ack_at_ = now + settings_.ack_delay;
    return;
  }
  Frame ack = make_ack(arrival == Arrival::kInOrder ? echo_ : frame.sent_at, now);
  if (arrival == Arrival::kDuplicate) {
    ++discarded_;
    if (settings_.sack) ack.duplicate = {frame.sequence, frame.end()};
  }
  out.push_back(ack);
}

void TcpReceiver::on_deadline(Instant now, std::vector<Frame>& out) {
  if (ack_at_ && *ack_at_ <= now) out.push_back(make_ack(echo_, now));
}

}  // namespace brdma::models::tcp
