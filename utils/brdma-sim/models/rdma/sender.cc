#include "models/rdma/sender.h"

#include "base/check.h"
#include "models/rdma/dcqcn.h"
#include "models/rdma/go_back_n.h"
#include "models/rdma/irn.h"
#include "models/rdma/irn_ns3.h"
#include "models/rdma/swift.h"

namespace brdma::models::rdma {

std::unique_ptr<LossRecovery> make_recovery(const Settings& settings) {
  switch (settings.recovery) {
    case RecoveryRule::kIrn:
      return std::make_unique<Irn>(settings);
    case RecoveryRule::kIrnNs3:
      return std::make_unique<IrnNs3>(settings);
    case RecoveryRule::kGoBackN:
      break;
  }
  return std::make_unique<GoBackN>(settings);
}

std::unique_ptr<Control> make_control(const Settings& settings) {
  switch (settings.control) {
    case ControlRule::kDcqcn:
      return std::make_unique<Dcqcn>(settings.dcqcn);
    case ControlRule::kSwift:
      return std::make_unique<Swift>(settings);
    case ControlRule::kNone:
      break;
  }
  return std::make_unique<Control>();
}

RdmaSender::RdmaSender(FlowId flow, const Settings& settings)
    : flow_(flow), settings_(settings), recovery_(make_recovery(settings)), control_(make_control(settings)) {}

void RdmaSender::start(std::uint64_t bytes, Instant now) {
  BRDMA_CHECK(!started_at_ && bytes > 0);
  started_at_ = now;
  recovery_->start(bytes);
}

std::uint64_t RdmaSender::window() const {
  return settings_.cap == 0 ? control_->window() : std::min(settings_.cap, control_->window());
}

void RdmaSender::arm(Instant now) {
  deadline_.reset();
  const std::uint64_t outstanding = recovery_->next() - recovery_->una();
  const Timeouts& timeouts = settings_.timeouts;
  if (outstanding == 0 || timeouts.high == Duration{}) return;
  const bool few = outstanding <= std::uint64_t{timeouts.low_packets} * settings_.sizes.payload;
  deadline_ = now + (few ? timeouts.low : timeouts.high);
}

void RdmaSender::on_answer(const Frame& frame, Instant now) {
  const Answered answered = recovery_->on_answer(frame);
  control_->on_ack({answered.delivered, now - frame.echo}, now);
  if (frame.ece) control_->on_cnp(now);
  if (answered.entered) control_->on_loss(now);
  arm(now);
}

void RdmaSender::on_frame(const Frame& frame, Instant now) {
  BRDMA_CHECK(frame.flow == flow_);
  if (!started_at_ || done()) return;
  switch (frame.kind) {
    case FrameKind::kAck:
    case FrameKind::kNack:
      on_answer(frame, now);
      break;
    case FrameKind::kCnp:
      control_->on_cnp(now);
      break;
    case FrameKind::kDropped:
      if (settings_.edn && recovery_->on_notice(frame)) control_->on_loss(now);
      break;
    default:
      break;
  }
  count_reductions();
}

void RdmaSender::on_deadline(Instant now) {
  if (done() || !deadline_ || *deadline_ > now) return;
  ++counters_.timeouts;
  recovery_->on_timeout();
  control_->on_timeout(now);
  count_reductions();
  deadline_ = now + settings_.timeouts.high;  // until the next packet leaves
}

std::optional<Plan> RdmaSender::plan() const {
  if (!started_at_ || done()) return std::nullopt;
  return recovery_->plan(window());
}

std::optional<Instant> RdmaSender::ready_at() const {
  if (!plan()) return std::nullopt;
  return std::max(*started_at_, pacer_.ready());
}

std::optional<Frame> RdmaSender::next_frame(Instant now) {
  const auto chosen = plan();
  if (!chosen || pacer_.ready() > now) return std::nullopt;
  Frame frame;
  frame.flow = flow_;
  frame.ect = settings_.control == ControlRule::kDcqcn;
  frame.sequence = chosen->first;
  frame.length = chosen->length;
  frame.wire_bytes = chosen->length + settings_.sizes.header;
  frame.last = frame.end() == recovery_->bytes();
  frame.again = chosen->again;
  frame.sent_at = now;
  ++counters_.sent;
  if (chosen->again) ++counters_.again[static_cast<std::size_t>(chosen->cause)];
  recovery_->on_sent(*chosen, now);
  pacer_.sent(control_->gap_ps(frame.wire_bytes, now), now);
  count_reductions();
  arm(now);
  return frame;
}

}  // namespace brdma::models::rdma
