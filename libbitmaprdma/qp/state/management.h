// qp/state/management.h - a queue pair for its operator and its engine: settings, requests by hand, and its end.
#pragma once

#include <optional>
#include <vector>

#include "qp/state/queue_pair.h"

namespace brdma {
namespace qp {

// A view of an RC queue pair's requester, made where it is needed.
class RequesterManagement {
 public:
  explicit RequesterManagement(const Requester& requester);

  // The gaps among READ responses and results of atomics that have a record, in PSN order; their limits, learnt ones
  // included; the path bitmaps of responses (empty: none).
  [[nodiscard]] std::vector<OpenGap> open_gaps(Instant now) const;
  [[nodiscard]] recovery::GapLimits limits(Instant now) const;
  [[nodiscard]] std::vector<PathReceived> receive_paths(Instant now) const;
  [[nodiscard]] std::vector<PathStatus> send_paths() const;  // one: without statistics
  // Retransmits the packets of [first, first + count) that are unacknowledged and not pending yet; none: all
  // outstanding ones. READs as a whole. `packets` 0: there is none.
  RetransmitRequested retransmit(std::optional<Psn> first, std::uint32_t count, Instant now) const;
  // Re-requests the missing responses of the gap of `psn`, or of each (none).
  RetransmitRequested retransmit_gaps(std::optional<Psn> psn, Instant now) const;
  void recovery_changed() const;                                        // Identity::recovery has changed
  void set_managed(congestion::ManagedDestination* destination) const;  // its peer's; null: none
  void follow_irn(const IrnTimeouts& timeouts) const;  // a baseline, of RecoveryMode::kSelective; after start()

 private:
  Requester::Impl& me_;
};

}  // namespace qp

// A view of the queue pair, made where it is needed. UC and UD take the settings, and nothing else happens.
class QueuePair::Management {
 public:
  explicit Management(QueuePair& pair) : pair_(pair) {}

  // Other recovery settings from now on; `recovery` outlives the queue pair, or the next call of this.
  void set_recovery(const RecoveryConfig* recovery, Instant now) const;
  // Precondition of this and the next two: RC.
  void set_managed(congestion::ManagedDestination* destination) const {
    pair_.identity_.peer_managed = destination != nullptr;
    qp::RequesterManagement{pair_.requester_}.set_managed(destination);
  }
  void follow_irn(const qp::IrnTimeouts& timeouts) const {
    qp::RequesterManagement{pair_.requester_}.follow_irn(timeouts);
  }
  // Finds out whether the peer is a process of this host with readable memory, as with the first message of
  // transfer.local_threshold_bytes.
  void want_local() const { pair_.negotiator().want_local(); }
  void send_final_acks() const;  // Engine::send_final_acks
  // An operator's request (Engine::retransmit): unacknowledged packets, gaps of requests and of READ responses.
  qp::RetransmitRequested retransmit(std::optional<Psn> first, std::uint32_t count, Instant now) const;
  qp::RetransmitRequested retransmit_gaps(std::optional<Psn> psn, Instant now) const;

 private:
  QueuePair& pair_;
};

inline QueuePair::Management QueuePair::manage() { return Management{*this}; }

}  // namespace brdma
