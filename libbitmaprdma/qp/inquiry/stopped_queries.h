// qp/inquiry/stopped_queries.h - private: queries to a silent peer's host whether the process is only stopped
// (recovery/stopped_peer.h).
#pragma once

#include <cstdint>

#include "qp/queues/transmit_batch.h"
#include "qp/send/requester_impl.h"
#include "wire/stopped_peer.h"

namespace brdma::qp {

// A view of the requester, made where it is needed.
class StoppedQueries {
 public:
  explicit StoppedQueries(const Requester& requester) : me_(requester.impl()) {}

  // A query was due, whether the silence lasts or not.
  [[nodiscard]] bool is_pending() const { return me_.path.signals && me_.path.signals->stopped.has_due(); }
  // And the silence lasts.
  [[nodiscard]] bool is_due() const {
    if (!is_pending()) [[likely]]
      return false;
    return me_.id.can_send() && !me_.scoreboard.empty() && me_.path.signals->stopped.is_due(me_.timers.progress());
  }
  // Precondition of these two: is_pending().
  void forget() const { me_.path.signals->stopped.forget_due(); }
  [[nodiscard]] std::uint64_t sent() const { return me_.path.signals->stopped.queries(); }  // in this silence
  // Precondition: is_due(). The batch goes to QP 1 of the peer's host.
  void add(TransmitBatch& batch, Instant now) const;
  void on_reply(const wire::StoppedReply& reply, Instant now) const;

 private:
  Requester::Impl& me_;
};

}  // namespace brdma::qp
