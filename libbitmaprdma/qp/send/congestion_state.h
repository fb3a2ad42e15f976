// qp/send/congestion_state.h - what a queue pair keeps of congestion beside its window: the rate that it sends at, what
// it tells its peer of marked packets, whether switches tell it of drops; and what it has asked a silent peer's host.
// Made when the first of them is needed; most queue pairs never have one.
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

// The rate that answers to READs are asked for at (pace_responses.cc), apart from that of what is sent: they come the
// other way.
struct ResponsePace {
  explicit ResponsePace(const CongestionConfig& config, std::uint32_t flows) : rate(config, flows) {}
  congestion::RateControl rate;
  bool waits = false;      // a READ is there to be asked for
  std::uint64_t came = 0;  // bytes of answers since the last round trip that counted ...
  Instant sampled_at;      // ... which was then
};

struct CongestionState {
  // Nothing of it holds anything back, is to be told, or falls due with time: as if there were none. So it is where a
  // packet has waited too long once, and no more was to come of that.
  [[nodiscard, gnu::cold]] bool is_idle(const WanConfig& config) const;  // pace.cc

  std::optional<congestion::RateControl> rate;  // none: the window alone
  std::optional<congestion::Pacer> spread;      // the window leaves over a round trip, not at once
  bool waits = false;                           // for the rate: something is there to send
  std::unique_ptr<ResponsePace> responses;      // where the control goes by round trips
  congestion::CnpLimiter cnps;
  bool cnp_due = false;
  std::unique_ptr<recovery::LinkInquiry> inquiry;     // once a packet has waited too long
  congestion::ManagedDestination* managed = nullptr;  // the peer's, of the engine
  recovery::StoppedPeer stopped;
  std::optional<Instant> edn_applied_at;  // the last explicit drop notification that had something sent again
};

}  // namespace brdma::qp
