// registry/segmenter.h - a large command at the head of its queue: it stays there and gives one segment at a time; only
// the offset and the byte count at the head move on (design RR-3). Every segment but the last has the same number
// of packets, a power of two. So a packet's place in the command alone gives its segment: a retransmission needs no
// record of the cuts. Pure values; nothing is kept between segments.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace brdma::registry {

// Packets of one segment. The wire has eight bits for it; 0 means none.
inline constexpr std::uint32_t kSegmentPacketsMax = 128;

// Packets of a full segment of about `segment_bytes`: the largest power of two that is not more.
[[nodiscard]] constexpr std::uint32_t segment_packets(std::uint32_t segment_bytes, std::uint32_t packet_bytes) {
  return std::bit_floor(std::clamp(segment_bytes / packet_bytes, 1u, kSegmentPacketsMax));
}

// The operation that a packet is part of.
struct Segment {
  std::uint32_t number = 0;   // in its command, from 0
  std::uint32_t place = 0;    // of the packet in the segment, from 0: the start of operation
  std::uint32_t packets = 1;  // of the segment
  bool last = false;          // of the command. All others carry the status flag: no completion
};

class Segmenter {
 public:
  // A command of `packets` packets (at least 1), cut by `per_segment` of them, a power of two.
  Segmenter(std::uint32_t packets, std::uint32_t per_segment)
      : packets_(packets), shift_(static_cast<std::uint32_t>(std::countr_zero(per_segment))) {}

  [[nodiscard]] std::uint32_t segments() const { return ((packets_ - 1) >> shift_) + 1; }
  // Of packet `index` of the command, index < packets.
  [[nodiscard]] Segment at(std::uint32_t index) const {
    const std::uint32_t number = index >> shift_;
    const std::uint32_t first = number << shift_;
    const std::uint32_t packets = std::min(packets_ - first, 1u << shift_);
    return {number, index - first, packets, first + packets == packets_};
  }

 private:
  std::uint32_t packets_, shift_;
};

}  // namespace brdma::registry
