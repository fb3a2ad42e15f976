// Fast path for MIDDLE packets of a READ response, in runs. Common fields are computed once, as in
// transmit/middle_runs.h for requests. It does the same as response_sender.cc for each packet; that takes everything
// else: standard packets, several paths, retransmissions.
#include <algorithm>

#include "qp/respond/response_sender.h"

namespace brdma::qp {

// How many MIDDLE packets are still to be sent, if they may leave in runs.
std::uint32_t ResponseSender::middle_left(const Response& response) const {
  const std::uint32_t mtu = parts_.mtu;
  if (!response.started || response.bytes_left <= mtu) return 0;
  if (!response.bitmap || response.replay || parts_.paths != nullptr) return 0;
  return (response.bytes_left - 1) / mtu;
}

// True: some were added. Unreadable memory is found again, and reported, when a packet is sent alone.
bool ResponseSender::send_middle(Response& response, TransmitBatch& batch, Instant now) const {
  std::uint32_t count = middle_left(response);
  if (count == 0) return false;
  Environment& env = parts_.env;
  const std::uint32_t mtu = parts_.mtu;
  wire::Packet packet = packet_of(response, wire::RcOp::kReadResponseMiddle, now);
  count =
      static_cast<std::uint32_t>(std::min<std::size_t>(count, batch.room(TransmitBatch::packet_bytes(packet, mtu))));
  if (count == 0) return false;
  std::byte* data = nullptr;
  const std::uint64_t bytes = std::uint64_t{count} * mtu;
  if (env.memory.resolve(parts_.identity.accessor(), response.rkey, response.address, bytes, kAccessRemoteRead,
                         &data) != memory::Fault::kNone ||
      !env.memory.holds(data, bytes)) {
    return false;
  }
  const wire::RunHeaders headers{packet};
  wire::RunHeaders::Own own;
  own.psn = response.psn;
  own.msn = response.message;
  own.packet_index = response.packet_index;
  std::uint32_t sent = 0;
  if (batch.takes_middle(mtu, count)) [[likely]] {
    batch.add_middle({headers, own}, own, data, mtu, sent = count, /*asks=*/false);
  } else {
    for (; sent < count && batch.takes_slices(1); ++sent, data += mtu) {
      const Slice slice{data, mtu};
      batch.add_of_run(headers, own, {&slice, 1}, mtu);
      own.psn = own.psn + 1;
      own.packet_index = (own.packet_index + 1) & Psn::kMask;
    }
  }
  if (sent == 0) return false;
  for (std::uint32_t i = 0; env.telemetry.sink != nullptr && i < sent; ++i) {
    packet.bth.psn = response.psn + i;
    trace(packet, response, mtu, now);
  }
  env.count(Counter::kSentDataPackets, sent);
  response.psn = own.psn;
  response.packet_index = own.packet_index;
  response.address += std::uint64_t{sent} * mtu;
  response.bytes_left -= sent * mtu;
  return true;
}

}  // namespace brdma::qp
