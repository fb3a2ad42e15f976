// qp/turn/transmission.h - private: a turn of a queue pair adds its packets to a batch: which half is first, what
// follows behind data, and by which path the batch leaves.
#pragma once

#include "qp/state/queue_pair.h"

namespace brdma {
namespace qp {

// Of outgoing packets: with ECN bits where the settings, or a congestion control that takes marks, want them; and with
// a DSCP of its own towards a managed destination (design WT-16).
[[nodiscard]] std::uint8_t changed_traffic_class(const Identity& id);
[[nodiscard]] inline bool takes_marks(const CongestionConfig& config) {
  return config.control == CongestionControl::kDcqcn || config.control == CongestionControl::kBoth;
}
[[nodiscard]] inline std::uint8_t traffic_class(const Identity& id) {
  const CongestionConfig& config = id.recovery->congestion;
  if (config.ecn == EcnField::kAuto && !takes_marks(config) && !id.peer_managed) [[likely]]
    return id.attributes.traffic_class;
  return changed_traffic_class(id);
}

}  // namespace qp

// A view of the queue pair, made where it is needed.
class QueuePair::Transmission {
 public:
  explicit Transmission(QueuePair& pair) : pair_(pair) {}

  // True: packets were added.
  bool poll_requests(qp::TransmitBatch& batch, Instant now) const;       // nothing else is pending
  bool poll_acknowledging(qp::TransmitBatch& batch, Instant now) const;  // nothing but an acknowledgement beside them
  bool poll_all(qp::TransmitBatch& batch, Instant now) const;            // anything; RC in a state that receives
  bool poll_otherwise(qp::TransmitBatch& batch, Instant now) const;      // UC and UD, and the remaining output in ERR
  // A single request, if that is all there is to send: true: it was added. False: nothing has happened.
  [[gnu::always_inline]] bool poll_single(qp::TransmitBatch& batch, bool acknowledges, Instant now) const;

  [[gnu::always_inline]] void begin_batch(qp::TransmitBatch& batch, Instant now) const {
    if (pair_.identity_.sending_paths != 1) [[unlikely]]
      return begin_sprayed(batch, now);
    batch.begin(destination(pair_), pair_.sent_flow_);
  }
  // Of batches, with one path.
  [[nodiscard, gnu::always_inline]] static qp::TransmitBatch::Destination destination(const QueuePair& pair) {
    const qp::Identity& id = pair.identity_;
    const QpAttributes& to = id.attributes;
    return {.source = to.local_address,
            .destination = to.peer_address,
            .path = id.bitmap_agreed ? std::uint8_t{0} : pair.negotiation_.path(qp::own_paths(pair.environment_)),
            .traffic_class = qp::traffic_class(id),
            .hop_limit = to.hop_limit,
            .slot = pair.environment_.steered_to(to.destination_qpn, to.local_address == to.peer_address)};
  }

 private:
  bool poll_data(qp::TransmitBatch& batch, Instant now) const;
  bool poll_responses(qp::TransmitBatch& batch, bool naks, Instant now) const;
  bool poll_control(qp::TransmitBatch& batch, Instant now) const;
  bool poll_inquiry(qp::TransmitBatch& batch, Instant now) const;
  bool poll_stopped_query(qp::TransmitBatch& batch, Instant now) const;
  [[nodiscard]] bool control_follows(Instant now) const;
  void begin_sprayed(qp::TransmitBatch& batch, Instant now) const;
  [[nodiscard]] std::uint8_t next_path(Instant now) const;

  QueuePair& pair_;
};

[[gnu::always_inline]] inline bool QueuePair::joins(const qp::TransmitBatch& batch) const {
  return !unreliable_ && identity_.sending_paths == 1 && !begins_batch && !order_.any_first() &&
         batch.takes_more(Transmission::destination(*this));
}

}  // namespace brdma
