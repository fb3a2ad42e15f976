// Link inquiries on the path, and their evaluation (design WT-6 to WT-11;
// recovery/link_inquiry.h). The reaction concerns more than one queue pair: it is left to the engine.
#include <algorithm>
#include <array>

#include "qp/inquiry/link_inquiries.h"

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
          .timestamp = feedback.timestamp,
          .switch_speed = feedback.switch_speed};
}

}  // namespace

void LinkInquiries::on_timed_out(std::uint32_t packets, Instant now) const {
  if (packets == 0) return;
  CongestionState& state = made(signals_);
  if (!state.inquiry) state.inquiry = std::make_unique<recovery::LinkInquiry>();
  state.inquiry->timed_out(packets);
  if (state.inquiry->is_held_back(id_.recovery->wan, now)) env_.count(Counter::kLinkStateInquiriesLimited);
}

bool LinkInquiries::is_due(Instant now) const {
  if (!signals_ || !signals_->inquiry) [[likely]]
    return false;
  return id_.can_send() && id_.bitmap_agreed && id_.peer_knows_link_state &&
         signals_->inquiry->is_due(id_.recovery->wan, now);
}

// With the addresses and ports of the data, so that it takes the same path.
bool LinkInquiries::poll(TransmitBatch& batch, Duration replies, Instant now) const {
  if (!batch.fits(wire::kBthSize + wire::kLinkStateInquirySize + wire::kIcrcSize, 0, true)) return false;
  const std::uint64_t nonce = env_.nonces.links.next();
  const wire::LinkStateInquiry inquiry{.source_qpn = id_.qpn,
                                       .hop = 0,
                                       .hop_limit = static_cast<std::uint8_t>(id_.recovery->wan.hop_limit),
                                       .nonce = nonce};
  std::array<std::byte, wire::kLinkStateInquirySize> body;
  const std::size_t size = wire::emit_link_state_inquiry(inquiry, body.data());
  wire::Bth bth;
  bth.opcode = static_cast<std::uint8_t>(wire::Control::kLinkStateInquiry);
  bth.dest_qpn = id_.attributes.destination_qpn;
  batch.add_control(bth, ConstBytes{body.data(), size});
  signals_->inquiry->asked(nonce, now + replies, now);
  env_.count(Counter::kLinkStateInquiriesSent);
  return true;
}

// More congested links than the threshold: the destination's rate is reduced at once.
void LinkInquiries::on_feedback(const wire::LinkStateFeedback& feedback) const {
  env_.count(Counter::kLinkStateFeedback);
  recovery::LinkInquiry* const inquiry = signals_ ? signals_->inquiry.get() : nullptr;
  if (inquiry == nullptr) return env_.count(Counter::kLinkStateUnasked);
  const WanConfig& config = id_.recovery->wan;
  const recovery::LinkFacts link = facts_of(feedback);
  switch (inquiry->on_reply(feedback.nonce, link, config)) {
    case recovery::LinkInquiry::Verdict::kUnasked:
      return env_.count(Counter::kLinkStateUnasked);
    case recovery::LinkInquiry::Verdict::kRepeated:
      return env_.count(Counter::kLinkStateRepeated);
    case recovery::LinkInquiry::Verdict::kTaken:
      break;
  }
  if (recovery::is_congested(link, config)) env_.count(Counter::kLinksCongested);
  if (inquiry->congested() <= config.congested_links) return;
  env_.links.congested_peers.push_back(id_.attributes.peer_address);
  inquiry->close();
}

void LinkInquiries::conclude(Instant now) const {
  if (!signals_ || !signals_->inquiry) return;
  recovery::LinkInquiry& inquiry = *signals_->inquiry;
  const auto until = inquiry.open_until();
  if (!until || now < *until) return;
  if (!inquiry.links().empty()) {
    if (env_.links.reports.size() == recovery::LinkReport::kWaitingMax) {
      env_.count(Counter::kLinkStateReportsLost);
    } else {
      env_.count(Counter::kLinkStateReports);
      env_.links.reports.push_back({.local = id_.attributes.local_address,
                                    .peer = id_.attributes.peer_address,
                                    .qpn = id_.qpn,
                                    .congested = inquiry.congested(),
                                    .links = {inquiry.links().begin(), inquiry.links().end()}});
    }
  }
  inquiry.close();
}

}  // namespace brdma::qp
