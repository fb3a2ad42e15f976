// qp/read/response_gaps.h - private: which responses to READs and atomics are missing, which of them count as lost, and
// when each is requested again. The rules for gaps are the receiver's (qp/gaps/gap_receiver.h); only the form in
// which a gap is named is this one's: a READ re-request.
//
// ResponseReceiver is what a queue pair keeps; ResponseGaps is a view of the requester's parts, made where it is
// needed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>

#include "base/function_ref.h"
#include "base/units.h"
#include "bitmap/gap_table.h"
#include "qp/gaps/gap_receiver.h"
#include "qp/loss/loss_recovery.h"
#include "qp/loss/scoreboard.h"
#include "qp/paths/paths_receive.h"
#include "qp/queues/message_table.h"
#include "qp/read/response_admission.h"
#include "recovery/retransmit_request.h"
#include "recovery/rtt_estimator.h"
#include "wire/packet.h"

namespace brdma::qp {

class ResponseReceiver {
 public:
  void restart() {
    seen_ = 0;
    paths_.reset();
  }
  void forget_flight(Sequence base) {
    seen_ = base;
    if (paths_) paths_->clear();
  }
  // One past the newest received response.
  [[nodiscard]] Sequence seen() const { return seen_; }
  void note_seen(Sequence end) { seen_ = std::max(seen_, end); }

  // Only if responses take several paths.
  [[nodiscard]] ReceivePaths* paths() { return paths_.get(); }
  [[nodiscard]] const ReceivePaths* paths() const { return paths_.get(); }
  ReceivePaths& paths_begun(Environment& env, const Identity& id, Instant now) {
    if (!paths_) paths_ = std::make_unique<ReceivePaths>(*id.recovery, id.receiving_paths, env.pools.segments, now);
    return *paths_;
  }

 private:
  Sequence seen_ = 0;
  std::unique_ptr<ReceivePaths> paths_;
};

class ResponseGaps {
 public:
  struct Parts {
    Environment& env;
    const Identity& id;
    const Scoreboard& scoreboard;
    const MessageTable& messages;
    const recovery::RttEstimator& rtt;
    const ResponseAdmission& awaited;
    ResponseReceiver& receiver;
    PooledLossRecovery& loss;
  };
  explicit ResponseGaps(const Parts& parts) : parts_(parts) {}

  // --- arrivals ---
  // A response that names its path. Precondition: it is in the send window.
  void note_path(const wire::Packet& packet, Instant now) const;
  // Response `sequence`, requested at `sent`: opens gaps before it or fills one, and is evidence against others.
  void on_response(const wire::Packet& packet, Sequence sequence, Instant sent, Instant now) const;

  // --- lost, requested again ---
  // Marks that response for a re-request; false if it could not be.
  using Resend = FunctionRef<bool(Sequence)>;
  // Judges all gaps, and requests lost ones and those whose re-request is due. `seen`: when the packet that caused this
  // arrived.
  void judge(Instant now, Instant seen, Resend resend) const;
  // Plain RoCE: a response out of order means that one was lost. It and all behind it are requested again, once a round
  // trip. Precondition: one is missing.
  void go_back(Instant now, Resend resend) const;
  // All gaps, whatever their age: a probe.
  void request_all(Instant now, Resend resend) const;
  // Those with `psn` missing in them (nothing: all), whatever was requested before: an operator. `named`: each of them.
  void request_by_hand(std::optional<Psn> psn, Instant now, FunctionRef<void(const bitmap::GapRecord&)> named,
                       Resend resend) const;

  // --- answers ---
  // The oldest missing response; next() of the scoreboard if none is missing.
  [[nodiscard]] Sequence first_missing() const;
  // The limits in force, learnt ones included, as they will be at `now` if nothing comes late until then.
  [[nodiscard]] recovery::GapLimits limits_at(Instant now) const;
  // Since when the base stands because of `gap`, an open one.
  [[nodiscard]] std::optional<Instant> stalls_since(const bitmap::GapRecord& gap) const {
    return rules().stalls_since(gap);
  }

 private:
  [[nodiscard]] GapReceiver rules() const;
  [[nodiscard]] recovery::GapLimits rerequest_limits() const;
  [[nodiscard]] Duration interval(std::uint16_t times) const;
  [[nodiscard]] bool rerequest_lost(const bitmap::GapRecord& gap, Instant now) const;
  [[nodiscard]] Duration quiet() const {
    return std::max(parts_.id.recovery->resend_interval_min, parts_.rtt.smoothed());
  }
  void open_before(Sequence sequence, Instant seen, Instant now) const;
  void fill(const wire::Packet& packet, Sequence sequence, Instant now) const;
  void note_later(Sequence sequence, Instant sent) const;
  void note_path_evidence(const wire::Packet& packet, Instant sent, Instant seen) const;
  [[nodiscard]] Instant next_request(const bitmap::GapRecord& gap) const;
  Instant note_requested(bitmap::GapRecord& gap, Instant now) const;
  void for_each_missing(const bitmap::GapRecord& gap, FunctionRef<void(Sequence)> function) const;
  Instant request(bitmap::GapRecord& gap, Instant now, Resend resend) const;
  [[nodiscard]] recovery::RequestVerdict verdict(Sequence at, Instant now) const;

  Parts parts_;
};

}  // namespace brdma::qp
