// qp/receive/early_placement.h - private: early packets are kept. A bitmap-mode First or Middle names the place of its
// data and is placed at once. All others are held: a message's last packet because programs poll on the last byte;
// READs, atomics and the like because they see or change memory; standard packets because they don't name their
// message; packets by reference with the reference. A faulty packet is left unreceived and never answered: it is judged
// when it comes again in order.
#pragma once

#include <optional>

#include "base/units.h"
#include "qp/execute/request_checks.h"
#include "qp/receive/operation_receiver.h"
#include "trace/drop_reason.h"
#include "wire/packet.h"

namespace brdma::qp {

// A view of the responder's parts, made where it is needed, while packets are missing: those of an OperationReceiver.
class EarlyPlacement {
 public:
  using Parts = OperationReceiver::Parts;
  [[gnu::always_inline]] explicit EarlyPlacement(const Parts& parts) : parts_(parts) {}

  // Nothing: the packet is now kept, and may be marked as received; else the reason why it is dropped.
  [[nodiscard]] std::optional<DropReason> keep(const wire::Packet& packet, Instant now) const;

 private:
  [[nodiscard]] EarlyChecks checks() const {
    return EarlyChecks{{parts_.env.memory, parts_.identity, parts_.window, parts_.out_of_order, parts_.receives,
                        parts_.mtu, parts_.rsn}};
  }
  [[nodiscard]] Psn base() const { return parts_.window.base(); }
  [[nodiscard]] std::optional<DropReason> place_or_hold(const wire::Packet& packet) const;
  [[nodiscard]] std::optional<DropReason> place_send(const wire::Packet& packet) const;
  [[nodiscard]] std::optional<DropReason> place_write(const wire::Packet& packet) const;
  void note_placed(const wire::Packet& packet, const std::byte* place) const;

  Parts parts_;
};

}  // namespace brdma::qp
