#include "qp/queues/transmit_batch.h"

#include <algorithm>
#include <cstring>

namespace brdma::qp {
namespace {

constexpr std::byte kPadMask{0x30};  // BTH byte 1, bits 5..4
// Bitmap mode and control packets compute their ICRC with identification 0 whatever the IP header says.
bool ignores_identification(std::uint8_t opcode) { return opcode >= wire::kTransportBitmap; }

}  // namespace

wire::IcrcPath TransmitBatch::icrc_path() const {
  return {.source = destination_.source,
          .destination = destination_.destination,
          .source_port = config_.source_ports[destination_.path],
          .destination_port = kRoceUdpPort,
          .ip_id = 0};
}

void TransmitBatch::add(const wire::Packet& packet, std::span<const Slice> payload, std::size_t payload_bytes) {
  seal();
  std::byte* const headers = gather_.end();
  const bool exact = ignores_identification(packet.bth.opcode);
  open_.any = true;
  open_.bitmap = exact;
  open_.ip_id = exact || !segments_.v4() ? std::uint16_t{0} : static_cast<std::uint16_t>(segments_.count());
  open_.headers_at = gather_.used();
  open_.headers_size = wire::emit_headers(packet, headers);
  open_.payload_bytes = payload_bytes;
  open_.pad = pad_of(payload_bytes);
  headers[1] = (headers[1] & ~kPadMask) | std::byte(open_.pad << 4);
  standard_ = standard_ || !exact;
  gather_.take(open_.headers_size);
  put_payload(payload);
  segments_.add(open_.bytes());
}

void TransmitBatch::add_of_run(const wire::RunHeaders& headers, const wire::RunHeaders::Own& own,
                               std::span<const Slice> payload, std::size_t payload_bytes) {
  seal();
  open_ = {.any = true,
           .bitmap = true,
           .headers_at = gather_.used(),
           .headers_size = headers.size(),
           .payload_bytes = payload_bytes,
           .pad = pad_of(payload_bytes)};
  headers.emit(own, open_.pad, gather_.end());
  gather_.take(open_.headers_size);
  if (open_.copied() && payload.size() == 1) [[likely]] {
    gather_.copy(payload.front().data, payload_bytes);
  } else {
    put_payload(payload);
  }
  segments_.add(open_.bytes());
}

// An ICRC reads headers by vector loads, which wait for pending shorter stores, and those for all earlier stores, the
// last packet's ICRC among them. So the headers of all packets come first, and their ICRCs, several of which the
// processor then computes in parallel, after them.
void TransmitBatch::add_middle(const wire::MiddleHeaders& headers, wire::RunHeaders::Own& own, const std::byte* payload,
                               std::size_t payload_bytes, std::size_t count, bool asks) {
  seal();
  const std::size_t packet = packet_bytes(headers.size(), payload_bytes), stride = headers.size() + wire::kIcrcSize;
  const std::size_t first = gather_.used(), last = first + (count - 1) * stride;
  put_middle(headers, own, {payload, payload_bytes}, count, asks);
  if (count > 1 && !icrc_.store_run({gather_.at(first), headers.size()}, {payload, payload_bytes}, count - 1, packet))
      [[unlikely]]
    gather_.note_fault();
  open_ = {.any = true,
           .bitmap = true,
           .headers_at = last,
           .headers_size = headers.size(),
           .first_slice = gather_.slices() - 1,
           .payload_bytes = payload_bytes};
  gather_.resume_at(last + headers.size());
  segments_.add(packet, count);
}

// Headers, with room for the trailer of each packet, and slices. `payload`: of the first.
void TransmitBatch::put_middle(const wire::MiddleHeaders& headers, wire::RunHeaders::Own& own, ConstBytes payload,
                               std::size_t count, bool asks) {
  std::byte* at = gather_.end();
  const std::byte* begin = gather_.at(gather_.slice_start());
  const std::byte* data = payload.data();
  own.ack_request = false;
  for (std::size_t left = count; left > 0; --left, data += payload.size()) {
    if (left == 1) own.ack_request = asks;
    headers.emit(own, at);
    own.psn = own.psn + 1;
    own.packet_index = (own.packet_index + 1) & Psn::kMask;
    own.reth.address += payload.size();
    at += headers.size();
    gather_.append(begin, static_cast<std::size_t>(at - begin));
    gather_.append(data, payload.size());
    begin = at;
    at += wire::kIcrcSize;
  }
}

std::size_t TransmitBatch::room(std::size_t packet_bytes) const {
  if (!fits(packet_bytes, 0, true)) return 0;
  const std::size_t copied = std::min(packet_bytes, kHeaderBytesMax + kCopiedBytesMax);
  return std::max<std::size_t>(std::min(segments_.room(packet_bytes), gather_.room(copied)), 1);  // the first fits
}

void TransmitBatch::put_payload(std::span<const Slice> payload) {
  if (open_.copied()) return gather_.copy(payload);
  open_.first_slice = gather_.refer(payload);
}

void TransmitBatch::seal_open() {
  open_.any = false;
  std::byte* const headers = gather_.at(open_.headers_at);
  std::byte* const trailer = gather_.end();
  store_le32(trailer, 0);  // the pad
  if (open_.copied()) {    // contiguous
    const MutableBytes covered{headers, open_.headers_size + open_.payload_bytes + open_.pad};
    return gather_.put_trailer(open_.pad, icrc_.of(covered, open_.bytes(), open_.ip_id));
  }
  std::uint32_t icrc = icrc_.of({headers, open_.headers_size}, open_.bytes(), open_.ip_id);
  if (!BatchIcrc::extend(icrc, gather_.slices_from(open_.first_slice))) [[unlikely]]
    gather_.note_fault();
  if (open_.pad > 0) icrc = wire::extend_icrc(icrc, trailer, open_.pad);
  gather_.put_trailer(open_.pad, icrc);
}

void TransmitBatch::add_control(const wire::Bth& bth, ConstBytes body) {
  std::memcpy(begin_control(bth), body.data(), body.size());
  end_control(body.size());
}

void TransmitBatch::end_control(std::size_t body_bytes) {
  const MutableBytes covered{gather_.end(), wire::kBthSize + body_bytes};
  gather_.take(covered.size());
  gather_.put_trailer(0, icrc_.of_control(covered));
  segments_.add(covered.size() + wire::kIcrcSize);
}

bool TransmitBatch::piggyback(const wire::Piggyback& acknowledgement, std::size_t packet_bytes_max) {
  if (!open_.any || !open_.bitmap) return false;
  const std::size_t longer = open_.bytes() + wire::kPiggybackSize;
  if (longer > packet_bytes_max || !segments_.last_may_grow(longer, wire::kPiggybackSize)) return false;
  if (!gather_.takes_bytes(wire::kPiggybackSize)) return false;
  // Only copied payload lies behind the open packet's headers: it makes room.
  const std::size_t place = open_.headers_at + wire::kBthSize + wire::kBxthSize;
  *gather_.at(open_.headers_at + wire::kBthSize) |= std::byte{wire::kBxthPiggyback};
  gather_.make_room(place, wire::kPiggybackSize);
  wire::emit_piggyback(acknowledgement, gather_.at(place));
  open_.headers_size += wire::kPiggybackSize;
  if (!open_.copied()) gather_.extend_slice(open_.first_slice - 1, wire::kPiggybackSize);
  segments_.grow_last(longer, wire::kPiggybackSize);
  return true;
}

std::size_t TransmitBatch::packet_bytes(const wire::Packet& packet, std::size_t payload_bytes) {
  return packet_bytes(wire::headers_size(packet), payload_bytes);
}

bool TransmitBatch::finish(Transmit& out) {
  if (segments_.count() == 0) return false;
  seal();
  gather_.close_slice();
  out.source = destination_.source;
  out.destination = destination_.destination;
  out.path = destination_.path;
  out.traffic_class = destination_.traffic_class;
  out.hop_limit = destination_.hop_limit;
  out.standard = standard_;
  out.segments = static_cast<std::uint16_t>(segments_.count());
  out.segment_bytes = static_cast<std::uint16_t>(segments_.segment_bytes());
  out.bytes = static_cast<std::uint32_t>(segments_.bytes());
  out.slices = gather_.slices_from(0);
  return true;
}

}  // namespace brdma::qp
