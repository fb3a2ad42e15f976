// qp/send/pacing.h - private: output of a requester at its rates (pace.h), and how marks of the network change them.
#pragma once

#include <cstdint>
#include <optional>

#include "qp/queues/transmit_batch.h"
#include "qp/send/pace.h"
#include "qp/send/requester_impl.h"

namespace brdma::qp {

// Waits for a rate. A view of the requester, made where it is needed.
class Pacing {
 public:
  explicit Pacing(const Requester& requester) : me_(requester.parts()) {}

  [[nodiscard]] congestion::RateControl* rate() const {  // null: none is kept
    return own_rate(me_.path.signals);
  }
  [[nodiscard]] Pace pace() const {  // all rates that bound it
    if (!me_.path.signals) [[likely]]
      return {};
    return pace_of(*me_.path.signals);
  }
  // After output, if there is a rate: `more` output was left.
  void note_paced(bool more, Instant now) const;
  // Is there output, whatever the rate?
  [[nodiscard]] bool has_unpaced_output(Instant now) const { return me_.has_output(now); }
  [[nodiscard]] std::optional<Instant> waits_until() const;  // output waits for its rate until then
  void handle_timeout(Instant now) const;                    // a timer fired: waiting output is tried again
  // By a full queue: the rate applies to READ responses, too.
  void on_responses_dropped(std::uint64_t bytes, Instant now) const;

 private:
  [[nodiscard]] Pace pace_of(CongestionState& signals) const;

  Requester::Impl& me_;
};

// ECN marks of either direction, and their congestion notification packets (CNP, IBTA annex A17). A view of the
// requester, made where it is needed.
class CongestionMarks {
 public:
  explicit CongestionMarks(const Requester& requester) : me_(requester.parts()) {}

  void on_cnp(Instant now) const;     // the peer has received marked packets of ours
  void on_marked(Instant now) const;  // a marked packet of the peer arrived
  [[nodiscard]] bool cnp_due() const { return me_.path.signals && me_.path.signals->cnp_due; }
  // Adds a CNP that is due. True: it was added.
  bool poll(TransmitBatch& batch) const;

 private:
  Requester::Impl& me_;
};

}  // namespace brdma::qp
