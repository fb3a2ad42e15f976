// The inside of a long WRITE or SEND: packets of a whole path MTU that are neither the first nor the last of it. What
// is the same for all of them is looked at once. It does what transmit_new.cc would do with each, and leaves to it
// whatever is not as usual, as transmit_small.cc does.
#include <algorithm>

#include "qp/requester_impl.h"

namespace brdma::qp {

bool Requester::Impl::may_run_inside(const Message& message) const {
  return flows() && !message.answered() && message.described == 0 && message.segment_packets == 0;
}

// How many packets of the message's inside may leave before anything has to be asked again.
std::uint64_t Requester::Impl::inside_allowed(const Message& message) const {
  const Sequence next = next_sequence();
  if (next == message.first || next + 1 >= message.end() || !may_run_inside(message)) return 0;
  const Allowance allowed = allowance();
  return std::min({std::uint64_t{message.end() - 1 - next}, allowed.packets, allowed.bytes / id.mtu()});
}

// True: some were added.
bool Requester::Impl::transmit_inside(const Message& message, PayloadCursor& cursor, TransmitBatch& batch,
                                      Instant now) {
  std::uint64_t count = inside_allowed(message);
  if (count == 0) return false;
  const std::uint32_t mtu = id.mtu();
  const Sequence first = next_sequence();
  auto index = static_cast<std::uint32_t>(first - message.first);
  wire::Packet packet;
  build_data(packet, message, first, false, now);
  const std::size_t bytes = TransmitBatch::packet_bytes(packet, mtu);
  count = std::min<std::uint64_t>(count, batch.room(bytes));
  if (count == 0) return false;
  const wire::RunHeaders headers{packet};
  const std::uint32_t ack_interval = ack_request_interval();
  wire::RunHeaders::Own own{.psn = psn_of(first), .msn = message.msn, .rsn = message.rsn, .reth = packet.reth};
  cursor.seek(queue, message.wqe, message.offset + index * mtu);
  Allowance used;
  for (; used.packets < count; ++used.packets, ++index, own.reth.address += mtu) {
    // Memory that is not ours to read is found again, and told of, by who sends this packet alone.
    if (!cursor.take(mtu) || !batch.takes_slices(cursor.slices().size())) break;
    own.psn = psn_of(first + used.packets);
    own.packet_index = index;
    own.ack_request =
        ++packets_since_ack_request >= ack_interval || flight.packets + used.packets + 1 >= id.peer_credit.packets;
    if (own.ack_request) packets_since_ack_request = 0;
    batch.add_of_run(headers, own, cursor.slices(), mtu);
    if (env.sink != nullptr) [[unlikely]] {
      build_data(packet, message, first + used.packets, false, now);
      trace_sent(packet, bytes, false, now);
    }
  }
  if (used.packets == 0) return false;
  used.bytes = used.packets * mtu;
  count_run(used, batch.path(), now);
  return true;
}

}  // namespace brdma::qp
