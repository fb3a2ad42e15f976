// qp/queues/batch_icrc.h - private: the ICRCs of a batch's packets, which are all of one flow. Most packets are as long
// as the one before, with the same bytes before BTH: the CRC over those is kept for the next packet of that size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "base/datagram.h"
#include "memory/guard.h"
#include "wire/crc/icrc.h"
#include "wire/crc/small_crc.h"
#include "wire/packet.h"

namespace brdma::qp {

class BatchIcrc {
 public:
  // `flow` is kept by the caller; reset if it is of another path.
  void begin(const wire::IcrcPath& path, wire::AddressedIcrcFlow& flow) {
    if (!flow.is(path)) flow = wire::AddressedIcrcFlow{path};
    begin(flow);
  }
  void begin(const wire::IcrcPath& path) { begin(path, own_flow_); }
  // It is of the batch's path.
  void begin(const wire::IcrcFlow& flow) {
    flow_ = &flow;
    start_bytes_ = 0;
  }

  // Of data in one piece, from BTH on, in a packet of `packet_bytes` with the ICRC.
  [[nodiscard]] std::uint32_t of(MutableBytes covered, std::size_t packet_bytes, std::uint16_t ip_id) {
    if (ip_id != 0 || !wire::small_crc_takes(covered.size())) [[unlikely]]
      return wire::Icrc(*flow_, ip_id, packet_bytes, covered).finish();
    if (packet_bytes != start_bytes_) {
      start_bytes_ = packet_bytes;
      start_ = flow_->before_bth(start_bytes_);
    }
    return wire::small_crc(start_, covered);
  }
  // Continues `icrc` over payload in the program's memory. False: part of it is not mapped.
  [[nodiscard]] static bool extend(std::uint32_t& icrc, std::span<const Slice> payload) {
    bool there = true;
    for (const Slice& slice : payload) {
      const memory::Sum sum =
          memory::guarded_sum(wire::extend_icrc, icrc, {static_cast<const std::byte*>(slice.data), slice.size});
      if (sum.there == 0) [[unlikely]]
        there = false;
      icrc = static_cast<std::uint32_t>(sum.value);
    }
    return there;
  }
  [[nodiscard]] std::uint32_t of_control(MutableBytes covered) const {
    return wire::Icrc(*flow_, 0, covered.size() + wire::kIcrcSize, covered).finish();
  }
  // Those of `count` packets of a run, each stored behind its headers. `headers`, `payload`: of the first; the next
  // headers lie behind the ICRC, the next payload behind the payload. False: part of the memory is not mapped.
  [[nodiscard]] bool store_run(MutableBytes headers, ConstBytes payload, std::size_t count,
                               std::size_t packet_bytes) const {
    const std::uint32_t before_bth = flow_->before_bth(packet_bytes);
    return memory::guarded({payload.data(), count * payload.size()}, [=] {
      std::byte* at = headers.data();
      const std::byte* data = payload.data();
      const std::size_t header_bytes = headers.size(), payload_bytes = payload.size();
      for (std::size_t left = count; left > 0; --left, at += header_bytes + wire::kIcrcSize, data += payload_bytes)
        store_le32(at + header_bytes, wire::icrc_of_pieces(before_bth, {at, header_bytes}, {data, payload_bytes}));
    });
  }

 private:
  const wire::IcrcFlow* flow_ = nullptr;
  std::size_t start_bytes_ = 0;  // of the last small packet; 0: none
  std::uint32_t start_ = 0;      // before its BTH
  wire::AddressedIcrcFlow own_flow_;
};

}  // namespace brdma::qp
