// qp/queue_pair.h - one RC queue pair: identity, requester, responder, the negotiation of bitmap mode (CAPS), and the
// state machine. Routes packets to its parts and carries out their Outcomes; decides nothing about recovery.
#pragma once

#include <memory>
#include <optional>

#include "bitmaprdma/types.h"
#include "device/datagram.h"
#include "qp/environment.h"
#include "qp/identity.h"
#include "qp/requester.h"
#include "qp/responder.h"
#include "qp/transmit_batch.h"
#include "wire/packet.h"

namespace brdma {

class QueuePair {
 public:
  QueuePair(const qp::Environment& environment, const qp::Identity& identity);
  ~QueuePair();

  [[nodiscard]] const qp::Identity& identity() const { return identity_; }
  Status modify(const QpAttributes& attributes, std::uint32_t mask, Instant now);  // qp/modify.cc: IBTA table 92
  Status post_send(const SendRequest& request, Instant now);
  Status post_receive(const ReceiveRequest& request, Instant now);
  void handle_packet(const wire::Packet& packet, Instant now);  // peer and ICRC checked by the engine
  void handle_timeout(Instant now);
  [[nodiscard]] std::optional<Instant> next_timeout() const;
  bool poll_transmit(qp::TransmitBatch& batch, Instant now);
  [[nodiscard]] bool has_output(Instant now) const;
  [[nodiscard]] bool only_deferrable(Instant now) const;
  // enum ibv_event_type values raised since the last call, -1 = none.
  [[nodiscard]] int take_async_event();

  // The engine's bookkeeping: intrusive links, so that no container is searched per packet.
  bool in_ready_list = false;
  std::size_t timer_slot = static_cast<std::size_t>(-1);

 private:
  void carry_out(const qp::Outcome& outcome, Instant now);
  void enter_error(Instant now);
  qp::Environment const& environment_;
  qp::Identity identity_;
  qp::Requester requester_;
  qp::Responder responder_;
  struct Negotiation {
    bool answer_due = false;
    bool ask_due = false;
    bool answered = false;
    unsigned asked = 0;
    Instant ask_again;
  } negotiation_;
  int async_event_ = -1;
};

}  // namespace brdma
