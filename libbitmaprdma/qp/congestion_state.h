// qp/congestion_state.h - what a queue pair keeps of congestion beside its window: the rate that it sends at, what it
// tells its peer of marked packets, whether switches tell it of drops. Made when the first of them is needed; most
// queue pairs never have one.
#pragma once

#include <memory>
#include <optional>

#include "congestion/dcqcn.h"
#include "congestion/managed_list.h"
#include "congestion/pacer.h"
#include "congestion/rate_control.h"
#include "recovery/link_inquiry.h"

namespace brdma::qp {

struct CongestionState {
  std::optional<congestion::RateControl> rate;  // none: the window alone
  std::optional<congestion::Pacer> spread;      // the window leaves over a round trip, not at once
  bool waits = false;                           // for the rate: something is there to send
  congestion::CnpLimiter cnps;
  bool cnp_due = false;
  std::unique_ptr<recovery::LinkInquiry> inquiry;     // once a packet has waited too long
  congestion::ManagedDestination* managed = nullptr;  // the peer's, of the engine
  std::optional<Instant> edn_heard;  // the last explicit drop notification that had something sent again
};

}  // namespace brdma::qp
