// Link inquiries on the path, and their evaluation (spec 3: link-state feedback, flow control;
// recovery/link_inquiry.h). The reaction concerns more than one queue pair: it is left to the engine.
#include <algorithm>
#include <array>

#include "qp/inquiry/link_inquiries.h"
#include "qp/send/requester_impl.h"
#include "wire/link_state.h"

namespace brdma::qp {
namespace {

recovery::LinkFacts facts_of(const wire::LinkStateFeedback& feedback) {
  return {.hop = feedback.hop,
          .over_limits = feedback.over_limits,
          .switch_id = feedback.switch_id,
          .port = feedback.port,
          .speed = feedback.speed,
          .link_rate = feedback.link_rate,
          .queue = feedback.queue,
          .queue_limit = feedback.queue_limit,
          .drops = feedback.drops,
          .timestamp = feedback.timestamp};
}

}  // namespace

void LinkInquiries::on_timed_out(std::uint32_t packets, Instant now) const {
  if (packets == 0) return;
  CongestionState& state = made(signals_);
  if (!state.inquiry) state.inquiry = std::make_unique<recovery::LinkInquiry>();
  state.inquiry->timed_out(packets);
  if (state.inquiry->is_held_back(id_.recovery->wan, now)) env_.count(Counter::kLinkStateInquiriesLimited);
}

bool Requester::inquiry_due(Instant now) const {
  const Impl& me = *impl_;
  if (!me.path.signals || !me.path.signals->inquiry) [[likely]]
    return false;
  return me.id.can_send() && me.id.bitmap_agreed && me.id.peer_knows_link_state &&
         me.path.signals->inquiry->is_due(me.id.recovery->wan, now);
}

// With the addresses and ports of the data, so that it takes the same path.
bool Requester::poll_inquiry(TransmitBatch& batch, Instant now) {
  if (impl_ == nullptr || !inquiry_due(now)) [[likely]]
    return false;
  Impl& me = *impl_;
  if (!batch.fits(wire::kBthSize + wire::kLinkStateInquirySize + wire::kIcrcSize, 0, true)) return false;
  const std::uint64_t nonce = me.env.nonces.next();
  const wire::LinkStateInquiry inquiry{.source_qpn = me.id.qpn,
                                       .hop = 0,
                                       .hop_limit = static_cast<std::uint8_t>(me.id.recovery->wan.hop_limit),
                                       .nonce = nonce};
  std::array<std::byte, wire::kLinkStateInquirySize> body;
  const std::size_t size = wire::emit_link_state_inquiry(inquiry, body.data());
  wire::Bth bth;
  bth.opcode = static_cast<std::uint8_t>(wire::Control::kLinkStateInquiry);
  bth.dest_qpn = me.id.attributes.destination_qpn;
  batch.add_control(bth, ConstBytes{body.data(), size});
  me.path.signals->inquiry->asked(nonce, now + me.timer_lengths().replies(), now);
  me.env.count(Counter::kLinkStateInquiriesSent);
  return true;
}

// More congested links than the threshold: the destination's rate is reduced at once.
void Requester::handle_link_state(const wire::LinkStateFeedback& feedback) {
  Impl& me = *impl_;
  me.env.count(Counter::kLinkStateFeedback);
  recovery::LinkInquiry* const inquiry = me.path.signals ? me.path.signals->inquiry.get() : nullptr;
  if (inquiry == nullptr) return me.env.count(Counter::kLinkStateUnasked);
  const WanConfig& config = me.id.recovery->wan;
  const recovery::LinkFacts link = facts_of(feedback);
  switch (inquiry->on_reply(feedback.nonce, link, config)) {
    case recovery::LinkInquiry::Verdict::kUnasked:
      return me.env.count(Counter::kLinkStateUnasked);
    case recovery::LinkInquiry::Verdict::kRepeated:
      return me.env.count(Counter::kLinkStateRepeated);
    case recovery::LinkInquiry::Verdict::kTaken:
      break;
  }
  if (recovery::is_congested(link, config)) me.env.count(Counter::kLinksCongested);
  if (inquiry->congested() <= config.congested_links) return;
  me.env.congested_peers.push_back(me.id.attributes.peer_address);
  inquiry->close();
}

void LinkInquiries::conclude(Instant now) const {
  if (!signals_ || !signals_->inquiry) return;
  recovery::LinkInquiry& inquiry = *signals_->inquiry;
  const auto until = inquiry.open_until();
  if (!until || now < *until) return;
  if (!inquiry.links().empty()) {
    if (env_.link_reports.size() == recovery::LinkReport::kWaitingMax) {
      env_.count(Counter::kLinkStateReportsLost);
    } else {
      env_.count(Counter::kLinkStateReports);
      env_.link_reports.push_back({.local = id_.attributes.local_address,
                                   .peer = id_.attributes.peer_address,
                                   .qpn = id_.qpn,
                                   .congested = inquiry.congested(),
                                   .links = {inquiry.links().begin(), inquiry.links().end()}});
    }
  }
  inquiry.close();
}

void Requester::set_managed(congestion::ManagedDestination* destination) {
  if (impl_ == nullptr || (destination == nullptr && !impl_->path.signals)) return;
  made(impl_->path.signals).managed = destination;
}

congestion::ManagedDestination* Requester::managed() const {
  return impl_ != nullptr && impl().path.signals ? impl().path.signals->managed : nullptr;
}

Bandwidth Requester::delivered() const {
  if (impl_ == nullptr) return {};
  // The window's own rate covers rounds that it bounded: without a bound, or with little to send, there are none.
  return Bandwidth::from_bps(std::max(impl_->path.congestion.delivered(), impl_->path.congestion.throughput()) * 8);
}

}  // namespace brdma::qp
