#include "qp/queues/transmit_batch.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "wire/crc/small_crc.h"

namespace brdma::qp {
namespace {

constexpr std::byte kPadMask{0x30};  // BTH byte 1, bits 5..4
// Bitmap mode and control packets compute their ICRC with identification 0 whatever the IP header says.
bool ignores_identification(std::uint8_t opcode) { return opcode >= wire::kTransportBitmap; }

}  // namespace

TransmitBatch::TransmitBatch(TransmitBuffer& buffer, const EngineConfig& config)
    : buffer_(buffer), config_(config), segments_max_(std::clamp<std::size_t>(config.segments_max, 1, kSegmentsMax)) {}

void TransmitBatch::begin(const Destination& destination, wire::AddressedIcrcFlow& flow) {
  begin_to(destination);
  if (const wire::IcrcPath path = icrc_path(); !flow.is(path)) flow = wire::AddressedIcrcFlow{path};
  flow_ = &flow;
}

wire::IcrcPath TransmitBatch::icrc_path() const {
  return {.source = destination_.source,
          .destination = destination_.destination,
          .source_port = config_.source_ports[destination_.path],
          .destination_port = kRoceUdpPort,
          .ip_id = 0};
}

void TransmitBatch::add(const wire::Packet& packet, std::span<const Slice> payload, std::size_t payload_bytes) {
  seal();
  std::byte* const headers = buffer_.headers.data() + header_used_;
  const bool exact = ignores_identification(packet.bth.opcode);
  open_.any = true;
  open_.bitmap = exact;
  open_.ip_id = exact || !v4_ ? std::uint16_t{0} : static_cast<std::uint16_t>(segments_);
  open_.headers_at = header_used_;
  open_.headers_size = wire::emit_headers(packet, headers);
  open_.payload_bytes = payload_bytes;
  open_.pad = pad_of(payload_bytes);
  headers[1] = (headers[1] & ~kPadMask) | std::byte(open_.pad << 4);
  standard_ = standard_ || !exact;
  header_used_ += open_.headers_size;
  put_payload(payload);
  count_packet(open_.bytes());
}

void TransmitBatch::add_of_run(const wire::RunHeaders& headers, const wire::RunHeaders::Own& own,
                               std::span<const Slice> payload, std::size_t payload_bytes) {
  seal();
  open_ = {.any = true,
           .bitmap = true,
           .headers_at = header_used_,
           .headers_size = headers.size(),
           .payload_bytes = payload_bytes,
           .pad = pad_of(payload_bytes)};
  std::byte* const at = buffer_.headers.data() + header_used_;
  headers.emit(own, open_.pad, at);
  header_used_ += open_.headers_size;
  if (open_.copied() && payload.size() == 1) [[likely]] {
    copy_in(at + open_.headers_size, payload.front().data, payload_bytes);
    header_used_ += payload_bytes;
  } else {
    put_payload(payload);
  }
  count_packet(open_.bytes());
}

// An ICRC reads headers by vector loads, which wait for pending shorter stores, and those for all earlier stores, the
// last packet's ICRC among them. So the headers of all packets come first, and their ICRCs, several of which the
// processor then computes in parallel, after them.
void TransmitBatch::add_middle(const wire::MiddleHeaders& headers, wire::RunHeaders::Own& own, const std::byte* payload,
                               std::size_t payload_bytes, std::size_t count, bool asks) {
  seal();
  const std::size_t packet = packet_bytes(headers.size(), payload_bytes), stride = headers.size() + wire::kIcrcSize;
  std::byte* at = buffer_.headers.data() + header_used_;
  put_middle(headers, own, {payload, payload_bytes}, count, asks);
  if (count > 1 && !sum_middle({at, headers.size()}, {payload, payload_bytes}, count - 1)) [[unlikely]]
    faulted_ = true;
  at += (count - 1) * stride;
  open_ = {.any = true,
           .bitmap = true,
           .headers_at = static_cast<std::size_t>(at - buffer_.headers.data()),
           .headers_size = headers.size(),
           .first_slice = slices_ - 1,
           .payload_bytes = payload_bytes};
  header_used_ = header_slice_start_ = open_.headers_at + headers.size();
  count_packet(packet, count);
}

// The ICRCs of `count` packets, behind their headers. `headers`, `payload`: of the first. False: part of the memory is
// not mapped.
bool TransmitBatch::sum_middle(MutableBytes headers, ConstBytes payload, std::size_t count) const {
  const std::uint32_t before_bth = flow_->before_bth(packet_bytes(headers.size(), payload.size()));
  return memory::guarded({payload.data(), count * payload.size()}, [=] {
    std::byte* at = headers.data();
    const std::byte* data = payload.data();
    const std::size_t header_bytes = headers.size(), payload_bytes = payload.size();
    for (std::size_t left = count; left > 0; --left, at += header_bytes + wire::kIcrcSize, data += payload_bytes)
      store_le32(at + header_bytes, wire::icrc_of_pieces(before_bth, {at, header_bytes}, {data, payload_bytes}));
  });
}

// Headers, with room for the trailer of each packet, and slices. `payload`: of the first.
void TransmitBatch::put_middle(const wire::MiddleHeaders& headers, wire::RunHeaders::Own& own, ConstBytes payload,
                               std::size_t count, bool asks) {
  std::byte* at = buffer_.headers.data() + header_used_;
  const std::byte* begin = buffer_.headers.data() + header_slice_start_;
  const std::byte* data = payload.data();
  own.ack_request = false;
  for (std::size_t left = count; left > 0; --left, data += payload.size()) {
    if (left == 1) own.ack_request = asks;
    headers.emit(own, at);
    own.psn = own.psn + 1;
    own.packet_index = (own.packet_index + 1) & Psn::kMask;
    own.reth.address += payload.size();
    at += headers.size();
    append_slice(begin, static_cast<std::size_t>(at - begin));
    append_slice(data, payload.size());
    begin = at;
    at += wire::kIcrcSize;
  }
}

std::size_t TransmitBatch::room(std::size_t packet_bytes) const {
  if (!fits(packet_bytes, 0, true)) return 0;
  if (segments_ > 0 && packet_bytes < segment_bytes_) return 1;  // the last
  const std::size_t segments = segments_max_ - kept_segments_ - segments_;
  const std::size_t copied = std::min(packet_bytes, kHeaderBytesMax + kCopiedBytesMax);
  const std::size_t buffer = (buffer_.headers.size() - kTrailerMax - header_used_) / copied;
  const std::size_t batch_bytes = config_.batch_bytes_max;
  const std::size_t batch = (batch_bytes - std::min(bytes_, batch_bytes)) / packet_bytes;
  std::size_t limit = segments;
  if (wire_bytes_max_ != kUnlimited) [[unlikely]] {  // one that begins below it may end beyond
    const std::size_t each = packet_bytes + frame_overhead();
    limit = (wire_bytes_max_ - std::min(wire_bytes(), wire_bytes_max_) + each - 1) / each;
  }
  return std::max<std::size_t>(std::min({segments, buffer, batch, limit}), 1);  // the first fits
}

void TransmitBatch::put_payload(std::span<const Slice> payload) {
  if (open_.copied()) return copy_payload(payload);
  close_header_slice();
  open_.first_slice = slices_;
  for (const Slice& slice : payload) append_slice(slice.data, slice.size);
  header_slice_start_ = header_used_;
}

void TransmitBatch::copy_payload(std::span<const Slice> payload) {
  for (const Slice& slice : payload) {
    copy_in(buffer_.headers.data() + header_used_, slice.data, slice.size);
    header_used_ += slice.size;
  }
}

// Headers and pad here, payload in the program's memory.
inline std::uint32_t TransmitBatch::icrc_of_referenced(MutableBytes headers, ConstBytes pad) {
  std::uint32_t icrc = icrc_of_own(headers);
  for (std::size_t i = open_.first_slice; i < slices_; ++i) {
    const Slice& slice = buffer_.slices[i];
    const memory::Sum sum =
        memory::guarded_sum(wire::extend_icrc, icrc, {static_cast<const std::byte*>(slice.data), slice.size});
    if (sum.there == 0) [[unlikely]]
      faulted_ = true;
    icrc = static_cast<std::uint32_t>(sum.value);
  }
  return pad.empty() ? icrc : wire::extend_icrc(icrc, pad.data(), pad.size());
}

// Pad and ICRC of the open packet.
void TransmitBatch::seal_open() {
  open_.any = false;
  std::byte* const headers = buffer_.headers.data() + open_.headers_at;
  std::byte* const trailer = buffer_.headers.data() + header_used_;
  store_le32(trailer, 0);  // the pad
  if (open_.copied()) {    // contiguous
    const MutableBytes covered{headers, open_.headers_size + open_.payload_bytes + open_.pad};
    return append_trailer(open_.pad, icrc_of_own(covered));
  }
  append_trailer(open_.pad, icrc_of_referenced({headers, open_.headers_size}, {trailer, open_.pad}));
}

// For data in our buffer, from BTH on. Most packets are as long as the one before, with the same bytes before BTH.
std::uint32_t TransmitBatch::icrc_of_own(MutableBytes covered) {
  if (open_.ip_id != 0 || !wire::small_crc_takes(covered.size())) [[unlikely]]
    return wire::Icrc(*flow_, open_.ip_id, open_.bytes(), covered).finish();
  if (open_.bytes() != crc_start_bytes_) {
    crc_start_bytes_ = open_.bytes();
    crc_start_ = flow_->before_bth(crc_start_bytes_);
  }
  return wire::small_crc(crc_start_, covered);
}

void TransmitBatch::add_control(const wire::Bth& bth, ConstBytes body) {
  std::memcpy(begin_control(bth), body.data(), body.size());
  end_control(body.size());
}

void TransmitBatch::end_control(std::size_t body_bytes) {
  std::byte* const packet = buffer_.headers.data() + header_used_;
  const std::size_t covered = wire::kBthSize + body_bytes;
  header_used_ += covered;
  const wire::Icrc icrc(*flow_, 0, covered + wire::kIcrcSize, MutableBytes{packet, covered});
  append_trailer(0, icrc.finish());
  count_packet(covered + wire::kIcrcSize);
}

bool TransmitBatch::piggyback(const wire::Piggyback& acknowledgement, std::size_t packet_bytes_max) {
  if (!open_.any || !open_.bitmap) return false;
  const std::size_t longer = open_.bytes() + wire::kPiggybackSize;
  if (longer > packet_bytes_max || (segments_ > 1 && longer > segment_bytes_)) return false;
  if (bytes_ + wire::kPiggybackSize > config_.batch_bytes_max) return false;
  if (header_used_ + wire::kPiggybackSize + kTrailerMax > buffer_.headers.size()) return false;
  // Only copied payload lies behind the open packet's headers: it makes room.
  constexpr std::size_t kPlace = wire::kBthSize + wire::kBxthSize;
  std::byte* const headers = buffer_.headers.data() + open_.headers_at;
  headers[wire::kBthSize] |= std::byte{wire::kBxthPiggyback};
  std::memmove(headers + kPlace + wire::kPiggybackSize, headers + kPlace, header_used_ - open_.headers_at - kPlace);
  wire::emit_piggyback(acknowledgement, headers + kPlace);
  open_.headers_size += wire::kPiggybackSize;
  header_used_ += wire::kPiggybackSize;
  if (!open_.copied()) {
    buffer_.slices[open_.first_slice - 1].size += wire::kPiggybackSize;
    header_slice_start_ = header_used_;
  }
  bytes_ += wire::kPiggybackSize;
  if (segments_ == 1) segment_bytes_ = longer;
  closed_ = longer < segment_bytes_;
  return true;
}

std::size_t TransmitBatch::packet_bytes(const wire::Packet& packet, std::size_t payload_bytes) {
  return packet_bytes(wire::headers_size(packet), payload_bytes);
}

bool TransmitBatch::finish(Transmit& out) {
  if (segments_ == 0) return false;
  seal();
  close_header_slice();
  out.source = destination_.source;
  out.destination = destination_.destination;
  out.path = destination_.path;
  out.traffic_class = destination_.traffic_class;
  out.hop_limit = destination_.hop_limit;
  out.standard = standard_;
  out.segments = static_cast<std::uint16_t>(segments_);
  out.segment_bytes = static_cast<std::uint16_t>(segment_bytes_);
  out.bytes = static_cast<std::uint32_t>(bytes_);
  out.slices = std::span<const Slice>{buffer_.slices.data(), slices_};
  return true;
}

void TransmitBatch::close_header_slice() {
  if (header_used_ > header_slice_start_) {
    append_slice(buffer_.headers.data() + header_slice_start_, header_used_ - header_slice_start_);
  }
  header_slice_start_ = header_used_;
}

void TransmitBatch::append_slice(const void* data, std::size_t size) { buffer_.slices[slices_++] = Slice{data, size}; }

void TransmitBatch::append_trailer(std::size_t pad, std::uint32_t icrc) {
  store_le32(buffer_.headers.data() + header_used_ + pad, icrc);
  header_used_ += pad + wire::kIcrcSize;
}

}  // namespace brdma::qp
