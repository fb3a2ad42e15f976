// qp/negotiate/negotiator.h - private: agreement on bitmap mode with the peer of a queue pair, by CAPS packets.
#pragma once

#include <cstdint>
#include <memory>

#include "base/units.h"
#include "qp/negotiate/local_negotiator.h"
#include "qp/negotiate/negotiation.h"
#include "qp/queues/transmit_batch.h"
#include "qp/receive/responder.h"
#include "qp/send/requester.h"
#include "qp/state/environment.h"
#include "qp/state/identity.h"
#include "wire/control.h"

namespace brdma::qp {

// A view of the queue pair's parts, made where it is needed.
class Negotiator {
 public:
  struct Parts {
    Environment& env;
    Identity& id;
    Negotiation& negotiation;
    std::unique_ptr<LocalPath>& local;
    Requester& requester;
    Responder& responder;
  };
  explicit Negotiator(const Parts& parts) : me_(parts) {}

  void begin() const;  // RTR is reached
  void reset() const;
  // The peer has sent a bitmap packet, so it has our CAPS; if none of its own arrived, asking restarts.
  void on_bitmap_packet() const {
    if (me_.id.bitmap_agreed || me_.negotiation.asking()) return;
    me_.negotiation.ask_due = true;
    me_.negotiation.asked = 0;
  }
  // `source_port`: of the packet.
  void on_caps(const wire::Caps& caps, std::uint16_t source_port, Instant now) const;
  // A standard packet came although bitmap mode is agreed. True: it is refused.
  [[nodiscard]] bool refuses_standard(Instant now) const;
  // Adds a CAPS that is due. True: it was added.
  bool poll(TransmitBatch& batch, Instant now) const;
  // Finds out whether the peer is a process of this host with readable memory; called with the first message of
  // transfer.local_threshold_bytes.
  void want_local() const;

 private:
  void ask_in_turn() const;
  void challenge(Instant now) const;
  void agree(const wire::Caps& caps, Instant now) const;
  void on_local_caps(const wire::Caps& caps, std::uint16_t source_port) const;
  [[nodiscard]] wire::Caps own_caps() const;
  void note_sent(Instant now) const;
  [[nodiscard]] LocalNegotiator local() const { return {me_.env, me_.id, me_.local}; }

  Parts me_;
};

}  // namespace brdma::qp
