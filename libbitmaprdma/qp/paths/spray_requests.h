// qp/paths/spray_requests.h - private: requests over several paths (design BR-29): the path of a batch, and copies
// that probe a path which is set aside (paths_send.h).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "base/units.h"
#include "qp/loss/scoreboard.h"
#include "qp/paths/paths_send.h"
#include "qp/queues/message_table.h"
#include "qp/queues/payload_cursor.h"
#include "qp/queues/send_queue.h"
#include "qp/queues/transmit_batch.h"
#include "qp/queues/work_completer.h"
#include "qp/state/environment.h"
#include "qp/state/identity.h"
#include "qp/timers/retransmission_timers.h"
#include "wire/packet.h"

namespace brdma::qp {

// A view of the requester's parts, made where it is needed.
class SprayedRequests {
 public:
  struct Parts {
    Environment& env;
    const Identity& id;
    const SendQueue& queue;
    const SendFault& fault;
    const MessageTable& messages;
    const Scoreboard& scoreboard;
    const RetransmissionTimers& timers;
    std::unique_ptr<SendPaths>& paths;  // null: there is one, or nothing has left on several
  };
  explicit SprayedRequests(const Parts& parts) : parts_(parts) {}

  // The paths, which begin here if there are none.
  [[nodiscard]] SendPaths& begun() const;
  // That of the next batch. `answered`: it begins with a READ request or another answered one, unless with a
  // retransmission.
  [[nodiscard]] std::uint8_t next_path(bool answered, Instant now) const;

  // --- probes ---
  // A path that is set aside is to be probed, and there is a packet to copy. Precondition: there are paths.
  [[nodiscard]] bool probe_due(Instant now) const { return parts_.paths->probe_due(now) && copyable(); }
  // A copy on the batch's path, which is set aside. It only serves to get evidence of the path. False: nothing was
  // added.
  bool poll_probe(TransmitBatch& batch, Instant now) const;

 private:
  // A packet whose copy may probe a path.
  [[nodiscard]] std::optional<Sequence> copyable() const;
  // The copy. Nothing: its memory is gone.
  [[nodiscard]] std::optional<std::uint32_t> make_copy(wire::Packet& packet, Sequence sequence, PayloadCursor& cursor,
                                                       Instant now) const;

  Parts parts_;
};

}  // namespace brdma::qp
