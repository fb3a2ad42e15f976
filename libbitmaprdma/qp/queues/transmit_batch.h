// qp/queues/transmit_batch.h - packets collected into one Transmit (a GSO message): of one queue pair, or of several
// whose packets reach the same socket of the peer by the same path. A packet costs two slices (gather_list.h): one for
// trailer-and-headers, one (or more) for its payload. Small payloads are copied in between: then it costs none.
//
// The packet added last stays open, without pad and ICRC, until the next one is added or the batch is finished: until
// then an acknowledgement may be put into it (piggyback()).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "base/config.h"
#include "base/datagram.h"
#include "base/ip_address.h"
#include "qp/queues/batch_icrc.h"
#include "qp/queues/gather_list.h"
#include "qp/queues/gso_segments.h"
#include "wire/crc/icrc.h"
#include "wire/packet.h"
#include "wire/run_headers.h"

namespace brdma::qp {

class TransmitBatch {
 public:
  TransmitBatch(TransmitBuffer& buffer, const EngineConfig& config)
      : config_(config), segments_(config), gather_(buffer) {}

  // Address of the batch; before the first packet. `traffic_class`, `hop_limit` from the QP's address vector.
  struct Destination {
    IpAddress source, destination;
    std::uint8_t path = 0, traffic_class = 0, hop_limit = 64;
    std::uint32_t slot = 0;  // of the peer's socket: a merged message is steered whole by its first packet
    bool operator==(const Destination&) const = default;
  };
  void begin(const Destination& destination) {
    begin_to(destination);
    icrc_.begin(icrc_path());
  }
  // `flow`: kept by the caller; reset if it is of another flow. Of the second kind: for batches from and to these
  // addresses only.
  void begin(const Destination& destination, wire::AddressedIcrcFlow& flow) {
    begin_to(destination);
    icrc_.begin(icrc_path(), flow);
  }
  void begin(const Destination& destination, wire::IcrcFlow& flow) {
    begin_to(destination);
    if (!flow.has_ports(config_.source_ports[destination.path], kRoceUdpPort)) [[unlikely]]
      flow = wire::IcrcFlow{icrc_path()};
    icrc_.begin(flow);
  }
  [[nodiscard]] bool begun() const { return begun_; }
  [[nodiscard]] std::size_t packets() const { return segments_.count(); }
  [[nodiscard]] std::size_t bytes() const { return segments_.bytes(); }  // of UDP payload
  // May packets of another queue pair to `to` follow? fits() checks the size.
  [[nodiscard]] bool takes_more(const Destination& to) const { return segments_.takes_more() && destination_ == to; }
  [[nodiscard]] std::uint8_t path() const { return destination_.path; }
  // While set, fits() keeps the last segment back for a control packet that is to follow the data.
  void keep_last_segment(bool keep) { segments_.keep_last(keep); }

  // From here on at most so many bytes more, as wire_bytes() counts them; but one packet in any case.
  void limit(std::uint64_t wire_bytes) { segments_.limit(wire_bytes); }
  void lift_limit() { segments_.lift_limit(); }
  // On the wire, with Ethernet, IP and UDP headers.
  [[nodiscard]] std::size_t frame_overhead() const { return segments_.frame_overhead(); }  // of a packet
  [[nodiscard]] std::size_t wire_bytes() const { return segments_.wire_bytes(); }

  // Can a packet of this UDP-payload size (BTH .. ICRC), with so many payload slices, follow those of the batch? False
  // once a shorter packet has been added (it must be the last), when it is longer than the first, when standard and
  // bitmap packets would mix in a way that the IP identification forbids, or when the buffer, the segments or the bytes
  // run out. An empty batch takes any packet that the path MTU allows.
  [[nodiscard]] bool fits(std::size_t packet_bytes, std::size_t payload_slices, bool bitmap) const {
    const std::size_t copied = std::min(packet_bytes, kHeaderBytesMax + kCopiedBytesMax);
    return gather_.takes_bytes(copied) && takes_slices(payload_slices) && segments_.takes(packet_bytes, bitmap);
  }
  // fits() for a small packet of bitmap mode, already grown by the bytes of piggyback().
  [[nodiscard]] bool fits_grown(std::size_t packet_bytes) const {
    return fits(packet_bytes, 0, true) && segments_.takes_bytes(packet_bytes);
  }
  // Adds a packet; precondition fits(). Its pad is computed here from the payload. The payload is read again, for the
  // ICRC, before finish() returns.
  void add(const wire::Packet& packet, std::span<const Slice> payload, std::size_t payload_bytes);
  // A packet of a run (qp/transmit/small_runs.h, qp/transmit/middle_runs.h, qp/respond/serve_read_middle.cc), of
  // bitmap mode. Precondition: fits().
  void add_of_run(const wire::RunHeaders& headers, const wire::RunHeaders::Own& own, std::span<const Slice> payload,
                  std::size_t payload_bytes);
  // `count` MIDDLE packets, as add_of_run() would add one by one: their payloads, of `payload_bytes` each, are
  // contiguous. `own` is of the first, and on return of the one that would follow; the last one asks for an
  // acknowledgement if `asks`. Precondition: room(), and takes_middle().
  void add_middle(const wire::MiddleHeaders& headers, wire::RunHeaders::Own& own, const std::byte* payload,
                  std::size_t payload_bytes, std::size_t count, bool asks);
  [[nodiscard]] bool takes_middle(std::size_t payload_bytes, std::size_t count) const {
    return payload_bytes > kCopiedBytesMax && payload_bytes % 4 == 0 && takes_slices(2 * count);
  }
  // The same for a single packet, of at most kCopiedBytesMax in one piece: its headers, with their pad, are written to
  // the result of the first, before the second.
  [[nodiscard]] std::byte* begin_copied(std::size_t headers, std::size_t payload_bytes) {
    seal();
    open_ = {.any = true,
             .bitmap = true,
             .headers_at = gather_.used(),
             .headers_size = headers,
             .payload_bytes = payload_bytes,
             .pad = pad_of(payload_bytes)};
    return gather_.end();
  }
  // Of that packet: the room behind BTH and BXTH, if left there.
  [[nodiscard]] std::byte* behind_bxth() { return gather_.at(open_.headers_at + wire::kBthSize + wire::kBxthSize); }
  void end_copied(const std::byte* payload) {
    gather_.take(open_.headers_size);
    gather_.copy(payload, open_.payload_bytes);
    segments_.add(open_.bytes());
  }
  [[nodiscard]] static constexpr std::size_t pad_of(std::size_t payload_bytes) { return (0 - payload_bytes) & 3; }
  // How many of these, contiguous, all of this size.
  [[nodiscard]] std::size_t room(std::size_t packet_bytes) const;
  // Is there room for a packet's payload in so many pieces?
  [[nodiscard]] bool takes_slices(std::size_t payload_slices) const { return gather_.takes_slices(payload_slices); }
  // A control packet: `body` is copied. Precondition: fits().
  void add_control(const wire::Bth& bth, ConstBytes body);
  // The same, with the body written in place, between these two.
  [[nodiscard]] std::byte* begin_control(const wire::Bth& bth) {
    seal();
    std::byte* const packet = gather_.end();
    wire::emit_bth(bth, packet);
    return packet + wire::kBthSize;
  }
  void end_control(std::size_t body_bytes);
  // Puts the acknowledgement into the packet added last. False, and nothing done: it is no bitmap-mode data packet, or
  // it would become longer than the first segment or than `packet_bytes_max`.
  bool piggyback(const wire::Piggyback& acknowledgement, std::size_t packet_bytes_max);

  static std::size_t packet_bytes(const wire::Packet& packet,
                                  std::size_t payload_bytes);  // headers + payload + pad + ICRC
  static constexpr std::size_t packet_bytes(std::size_t headers, std::size_t payload) {
    return headers + payload + pad_of(payload) + wire::kIcrcSize;
  }
  // Fills `out`; false if nothing was added.
  bool finish(Transmit& out);
  // Part of the payload could not be read (memory/guard.h): the batch is not to be sent. After finish().
  [[nodiscard]] bool faulted() const { return gather_.faulted(); }

 private:
  void begin_to(const Destination& destination) {
    segments_.begin(destination.source.is_v4());
    destination_ = destination;
    begun_ = true;
  }
  [[nodiscard]] wire::IcrcPath icrc_path() const;
  void put_middle(const wire::MiddleHeaders& headers, wire::RunHeaders::Own& own, ConstBytes payload, std::size_t count,
                  bool asks);
  void put_payload(std::span<const Slice> payload);
  // Pad and ICRC of the open packet.
  void seal() {
    if (open_.any) seal_open();
  }
  void seal_open();

  const EngineConfig& config_;
  Destination destination_;
  GsoSegments segments_;
  GatherList gather_;
  BatchIcrc icrc_;
  bool begun_ = false;
  bool standard_ = false;
  // The open packet: its headers, its payload's slices, and the inputs of its ICRC and trailer.
  struct Open {
    bool any = false;
    bool bitmap = false;
    std::uint16_t ip_id = 0;
    std::size_t headers_at = 0, headers_size = 0;
    std::size_t first_slice = 0;  // of the payload, where that is not copied
    std::size_t payload_bytes = 0, pad = 0;
    [[nodiscard]] bool copied() const { return payload_bytes <= kCopiedBytesMax; }
    [[nodiscard]] std::size_t bytes() const { return headers_size + payload_bytes + pad + wire::kIcrcSize; }
  };
  Open open_;
};

}  // namespace brdma::qp
