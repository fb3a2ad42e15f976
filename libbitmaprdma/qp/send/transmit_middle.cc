// Fast path for MIDDLE packets of a long WRITE or SEND: packets of a whole path MTU, neither first nor last. Common
// fields are computed once. It does the same as transmit_new.cc for each packet; that takes everything else, as for
// transmit_small.cc.
#include <algorithm>

#include "qp/send/requester_impl.h"

namespace brdma::qp {

bool Requester::Impl::may_send_middle(const Message& message) const {
  return in_steady_state() && !message.answered() && message.by_reference == 0 && message.segment_packets == 0;
}

// MIDDLE packets of the message that may leave before the next check.
std::uint64_t Requester::Impl::middle_allowed(const Message& message) const {
  const Sequence next = scoreboard.next();
  if (next == message.first || next + 1 >= message.end() || !may_send_middle(message)) return 0;
  const RunSize allowed = limits().run_allowance();
  return std::min({std::uint64_t{message.end() - 1 - next}, allowed.packets, allowed.bytes / id.mtu()});
}

// True: some were added.
bool Requester::Impl::transmit_middle(const Message& message, PayloadCursor& cursor, TransmitBatch& batch,
                                      Instant now) {
  std::uint64_t count = middle_allowed(message);
  if (count == 0) return false;
  const std::uint32_t mtu = id.mtu();
  const Sequence first = scoreboard.next();
  wire::Packet packet;
  builder().data(packet, message, first, false, now);
  const std::size_t bytes = TransmitBatch::packet_bytes(packet, mtu);
  count = std::min<std::uint64_t>(count, batch.room(bytes));
  if (count == 0) return false;
  const wire::RunHeaders headers{packet};
  wire::RunHeaders::Own own{.psn = scoreboard.psn_of(first),
                            .msn = message.msn,
                            .rsn = message.rsn,
                            .packet_index = static_cast<std::uint32_t>(first - message.first),
                            .reth = packet.reth};
  const wire::MiddleHeaders inside{headers, own};
  const std::uint32_t ack_interval = limits().request_interval();
  cursor.seek(queue, message.wqe, message.offset + own.packet_index * mtu);
  RunSize used;
  while (used.packets < count) {
    const std::uint32_t asked = limits().packets_until_request(ack_interval, used.packets);
    std::uint32_t added = std::min(asked, static_cast<std::uint32_t>(count - used.packets));
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
    admission.on_added(added, added == asked);
    used.packets += added;
  }
  if (used.packets == 0) return false;
  if (env.sink != nullptr) [[unlikely]]
    builder().trace_data(env, message, scoreboard.next(), used.packets, bytes, now);
  used.bytes = used.packets * mtu;
  count_run(used, batch.path(), now);
  return true;
}

}  // namespace brdma::qp
