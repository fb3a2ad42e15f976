// qp/read/response_pacing.h - private: READ responses at a rate. The responder has no RTT samples; the requester knows
// the time of the request and of the first response. So where the control uses RTT samples, requests are paced: a READ
// request takes as many tokens as its responses will have bytes, from a bucket of its own. Marks on responses become
// CNPs to the responder, which paces by those (qp/turn/transmission.cc: poll_responses); with `both` either side does
// its part.
//
// Re-requests are charged, but do not wait: they are few, and new READs wait for them.
#pragma once

#include <cstdint>
#include <memory>

#include "base/units.h"
#include "congestion/delay_window.h"
#include "qp/queues/message_table.h"
#include "qp/send/congestion_state.h"
#include "qp/state/environment.h"
#include "qp/state/identity.h"
#include "recovery/rtt_estimator.h"

namespace brdma::qp {

// As the settings of the queue pair want it: a pace from the start, or none.
void choose_response_pace(Environment& env, const Identity& id, std::unique_ptr<CongestionState>& signals);

// A view of the requester's parts, made where it is needed. Precondition: there is a pace.
class ResponsePacing {
 public:
  struct Parts {
    Environment& env;
    const Identity& id;
    const recovery::RttEstimator& rtt;
    const congestion::DelayWindow& congestion;  // of the return path
    ResponsePace& pace;
  };
  explicit ResponsePacing(const Parts& parts) : parts_(parts) {}

  // The responses to one request form a burst on the path. So it asks for the rate's worth of one timer interval, at
  // least a few packets. On a path so long that the allowed requests would not fill it, it asks for more.
  [[nodiscard]] std::uint32_t packets_of_request() const;
  // `packets` of its responses.
  void on_requested(const Message& message, std::uint32_t packets, Instant now) const;
  // One sample a segment, as for sent data; or one a round trip, if less than that is requested. `arrived`: bytes since
  // the last.
  void on_round_trip(Duration round_trip, std::uint64_t arrived, Instant now) const;
  // After output. `read_next`: a READ could leave, but for its rate.
  void note_waiting(bool read_next, Instant now) const;

 private:
  Parts parts_;
};

}  // namespace brdma::qp
