// qp/send/congestion_state.h - congestion state of a queue pair beside its window: its sending rate, CNPs for marked
// packets, drop reports of switches; and the queries to a silent peer's host. Made on first use; most queue pairs never
// have one.
#pragma once

#include <memory>
#include <optional>

#include "congestion/dcqcn.h"
#include "congestion/managed_list.h"
#include "congestion/pacer.h"
#include "congestion/rate_control.h"
#include "recovery/link_inquiry.h"
#include "recovery/stopped_peer.h"

namespace brdma::qp {

// The rate at which READ responses are requested (response_pacing.h), apart from the sending rate: they come on the
// return path.
struct ResponsePace {
  explicit ResponsePace(const CongestionConfig& config, std::uint32_t flows) : rate(config, flows) {}
  congestion::RateControl rate;
  bool waits = false;      // a READ waits to be requested
  std::uint64_t came = 0;  // bytes of responses since the last counted RTT sample ...
  Instant sampled_at;      // ... and its time
};

struct CongestionState {
  // No part of it delays output, has something to send, or has a deadline: as if it did not exist. That is the state
  // after a packet waited too long once, without consequences.
  [[nodiscard, gnu::cold]] bool is_idle(const WanConfig& config) const;  // pacing.cc

  std::optional<congestion::RateControl> rate;  // none: the window alone
  std::optional<congestion::Pacer> spread;      // the window leaves over a round trip, not at once
  bool whole = false;                           // all of it; else its bursts alone are bounded
  bool waits = false;                           // for the rate: there is output
  std::unique_ptr<ResponsePace> responses;      // if the control uses RTT samples
  congestion::CnpLimiter cnps;
  bool cnp_due = false;
  std::unique_ptr<recovery::LinkInquiry> inquiry;     // once a packet has waited too long
  congestion::ManagedDestination* managed = nullptr;  // the peer's, owned by the engine
  recovery::StoppedPeer stopped;
  std::optional<Instant> edn_applied_at;  // the last explicit drop notification that caused a retransmission
};

// It is to be honoured: something of it delays output, is to be sent, or has a deadline.
[[nodiscard]] inline bool has_signals(const std::unique_ptr<CongestionState>& state, const WanConfig& config) {
  return state && !state->is_idle(config);
}
// nullptr: no rate is kept.
[[nodiscard]] inline congestion::RateControl* own_rate(const std::unique_ptr<CongestionState>& state) {
  return state && state->rate ? &*state->rate : nullptr;
}
// nullptr: READ responses are not paced.
[[nodiscard]] inline ResponsePace* response_pace(const std::unique_ptr<CongestionState>& state) {
  return state ? state->responses.get() : nullptr;
}

inline CongestionState& made(std::unique_ptr<CongestionState>& state) {
  if (!state) state = std::make_unique<CongestionState>();
  return *state;
}

}  // namespace brdma::qp
