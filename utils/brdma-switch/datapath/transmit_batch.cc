#include "datapath/transmit_batch.h"

#include <cstring>

#include "base/check.h"
#include "fabric/routing/frame.h"

namespace brdma::lab {

bool TransmitBatch::joins(const Message& message, const SwitchPacket& packet) {
  const SwitchPacket& first = message.first;
  if (!join_ || message.closed || message.segments == kJoinedMax) return false;
  if (packet.udp_offset == 0 || packet.udp_offset != first.udp_offset || packet.is_ipv6 != first.is_ipv6) return false;
  if (!packet.partial_checksum || !first.partial_checksum) return false;
  const fabric::FrameInfo info = packet.udp_info();
  const std::size_t payload = packet.size - std::size_t{info.payload_offset};
  if (payload == 0 || payload > message.payload_size) return false;
  if (message.total_payload + payload + info.payload_offset > kJoinedBytesMax) return false;
  const ConstBytes a = pool_.buffer(first.buffer), b = pool_.buffer(packet.buffer);
  if (!first.is_ipv6 &&
      fabric::identification(b, info) != ((fabric::identification(a, info) + message.segments) & 0xFFFF)) {
    return false;
  }
  return fabric::same_flow(a, b, info);
}

void TransmitBatch::add(const SwitchPacket& packet) {
  BRDMA_CHECK(!full());
  buffers_[packet_count_++] = packet.buffer;
  std::byte* const bytes = pool_.buffer(packet.buffer).data();
  const std::size_t payload_offset = packet.udp_info().payload_offset;
  if (message_count_ != 0 && joins(messages_[message_count_ - 1], packet)) {
    Message& message = messages_[message_count_ - 1];
    const std::size_t payload = packet.size - payload_offset;
    iovecs_[iovec_count_++] = {bytes + payload_offset, payload};
    ++message.segments;
    message.total_payload += payload;
    message.closed = payload < message.payload_size;
    return;
  }
  Message& message = messages_[message_count_];
  message = Message{packet, 1, 0, 0, iovec_count_, false};
  if (packet.udp_offset != 0) message.payload_size = message.total_payload = packet.size - payload_offset;
  iovecs_[iovec_count_++] = {&offloads_[message_count_], sizeof(OffloadHeader)};
  iovecs_[iovec_count_++] = {bytes, packet.size};
  ++message_count_;
}

// Writes the metadata for the receiver: the offload header and, of a joined frame, the total lengths.
void TransmitBatch::finish(Message& message, std::size_t index) {
  const SwitchPacket& first = message.first;
  OffloadHeader& offload = offloads_[index];
  offload = {};
  if (first.partial_checksum) {
    offload.flags = kNeedsChecksum;
    offload.checksum_start = first.checksum_start;
    offload.checksum_offset = first.checksum_offset;
  }
  if (message.segments > 1) {
    const fabric::FrameInfo info = first.udp_info();
    const MutableBytes headers = pool_.buffer(first.buffer).first(info.payload_offset);
    fabric::set_datagram_size(headers, info, message.total_payload, fabric::identification(headers, info));
    offload.gso_type = kGsoUdpDatagrams;
    offload.gso_size = static_cast<std::uint16_t>(message.payload_size);
    offload.header_size = info.payload_offset;
  }
  const std::size_t iovec_end = index + 1 < message_count_ ? messages_[index + 1].first_iovec : iovec_count_;
  headers_[index] = {};
  headers_[index].msg_hdr.msg_iov = &iovecs_[message.first_iovec];
  headers_[index].msg_hdr.msg_iovlen = iovec_end - message.first_iovec;
}

std::size_t TransmitBatch::flush(PacketPort& port) {
  for (std::size_t i = 0; i < message_count_; ++i) finish(messages_[i], i);
  std::size_t refused = 0;
  for (std::size_t done = 0; done < message_count_;) {
    const std::size_t sent = port.send(std::span{headers_}.subspan(done, message_count_ - done));
    done += sent;
    if (sent == 0) refused += messages_[done++].segments;  // a virtual interface will refuse it later too: drop it
  }
  for (std::size_t i = 0; i < packet_count_; ++i) pool_.give_back(buffers_[i]);
  packet_count_ = message_count_ = iovec_count_ = 0;
  return refused;
}

}  // namespace brdma::lab
