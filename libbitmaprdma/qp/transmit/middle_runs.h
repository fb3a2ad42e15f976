// qp/transmit/middle_runs.h - private: fast path for MIDDLE packets of a long WRITE or SEND: packets of a whole path
// MTU, neither first nor last. Common fields are computed once. It does the same as data_packets.h for each packet;
// that takes everything else, as for small_runs.h.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/units.h"
#include "qp/queues/message_table.h"
#include "qp/queues/payload_cursor.h"
#include "qp/queues/send_queue.h"
#include "qp/queues/transmit_batch.h"
#include "qp/send/packet_builder.h"
#include "qp/transmit/runs.h"
#include "wire/packet.h"
#include "wire/run_headers.h"

namespace brdma::qp {

// A view of the requester's parts, made where it is needed.
class MiddleRuns {
 public:
  struct Parts {
    Runs runs;
    const SendQueue& queue;
  };
  [[gnu::always_inline]] explicit MiddleRuns(const Parts& parts) : parts_(parts) {}

  // The next packets of `message`, which has begun. True: some were added.
  [[gnu::always_inline]] bool transmit(const Message& message, PayloadCursor& cursor, TransmitBatch& batch,
                                       Instant now) const;

 private:
  // MIDDLE packets that may leave before the next check.
  [[nodiscard, gnu::always_inline]] std::uint64_t allowed(const Message& message) const;
  [[gnu::always_inline]] std::uint64_t add(const Message& message, const wire::Packet& first, std::uint64_t count,
                                           PayloadCursor& cursor, TransmitBatch& batch) const;

  Parts parts_;
};

inline std::uint64_t MiddleRuns::allowed(const Message& message) const {
  const Runs& runs = parts_.runs;
  const Sequence next = runs.scoreboard().next();
  if (next == message.first || next + 1 >= message.end()) return 0;
  if (!runs.in_steady_state() || message.answered() || message.by_reference != 0 || message.segment_packets != 0)
    return 0;
  const RunSize allowed = runs.limits().run_allowance();
  return std::min({std::uint64_t{message.end() - 1 - next}, allowed.packets, allowed.bytes / runs.id().mtu()});
}

inline bool MiddleRuns::transmit(const Message& message, PayloadCursor& cursor, TransmitBatch& batch,
                                 Instant now) const {
  std::uint64_t count = allowed(message);
  if (count == 0) return false;
  const Runs& runs = parts_.runs;
  const std::uint32_t mtu = runs.id().mtu();
  const PacketBuilder builder{runs.id(), parts_.queue, runs.scoreboard()};
  const Sequence first = runs.scoreboard().next();
  wire::Packet packet;
  builder.data(packet, message, first, false, now);
  const std::size_t bytes = TransmitBatch::packet_bytes(packet, mtu);
  count = std::min<std::uint64_t>(count, batch.room(bytes));
  if (count == 0) return false;
  const std::uint64_t packets = add(message, packet, count, cursor, batch);
  if (packets == 0) return false;
  if (runs.env().telemetry.sink != nullptr) [[unlikely]]
    builder.trace_data(runs.env(), message, first, packets, bytes, now);
  runs.count({packets, packets * mtu}, batch.path(), now);
  return true;
}

inline std::uint64_t MiddleRuns::add(const Message& message, const wire::Packet& first, std::uint64_t count,
                                     PayloadCursor& cursor, TransmitBatch& batch) const {
  const SendLimits limits = parts_.runs.limits();
  const std::uint32_t mtu = parts_.runs.id().mtu();
  const wire::RunHeaders headers{first};
  wire::RunHeaders::Own own{.psn = first.bth.psn,
                            .msn = message.msn,
                            .rsn = message.rsn,
                            .packet_index = static_cast<std::uint32_t>(limits.scoreboard.next() - message.first),
                            .reth = first.reth};
  const wire::MiddleHeaders inside{headers, own};
  const std::uint32_t ack_interval = limits.request_interval();
  cursor.seek(parts_.queue, message.wqe, message.offset + own.packet_index * mtu);
  std::uint64_t packets = 0;
  while (packets < count) {
    const std::uint32_t asked = limits.packets_until_request(ack_interval, packets);
    std::uint32_t added = std::min(asked, static_cast<std::uint32_t>(count - packets));
    const std::byte* at = nullptr;
    if (batch.takes_middle(mtu, added) && (added = cursor.take_run(mtu, added, at)) > 0) [[likely]] {
      batch.add_middle(inside, own, at, mtu, added, added == asked);
    } else {
      // Unreadable memory is found again, and reported, when this packet is sent alone.
      if (!cursor.take(mtu) || !batch.takes_slices(cursor.slices().size())) break;
      added = 1;
      own.ack_request = added == asked;
      batch.add_of_run(headers, own, cursor.slices(), mtu);
      own.psn = own.psn + 1;
      ++own.packet_index;
      own.reth.address += mtu;
    }
    parts_.runs.admission().on_added(added, added == asked);
    packets += added;
  }
  return packets;
}

}  // namespace brdma::qp
