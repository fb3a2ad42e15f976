// qp/queues/gso_segments.h - private: the segments of one GSO message, and what bounds them. All segments have the size
// of the first; a shorter one is the last. Bounds: their number, the message's bytes, and the bytes on the wire that a
// rate allows. Sizes are of the UDP payload (BTH .. ICRC), in bytes.
#pragma once

#include <algorithm>
#include <cstddef>

#include "base/check.h"
#include "base/config.h"
#include "base/datagram.h"
#include "wire/packet.h"

namespace brdma::qp {

class GsoSegments {
 public:
  explicit GsoSegments(const EngineConfig& config)
      : config_(config), count_max_(std::clamp<std::size_t>(config.segments_max, 1, kSegmentsMax)) {}

  // Precondition: no segment is in.
  void begin(bool v4) {
    BRDMA_CHECK(count_ == 0);
    v4_ = v4;
  }
  [[nodiscard]] std::size_t count() const { return count_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] std::size_t segment_bytes() const { return segment_bytes_; }  // of the first
  [[nodiscard]] bool v4() const { return v4_; }

  // Of a packet: Ethernet, IP, UDP.
  [[nodiscard]] static constexpr std::size_t frame_overhead(bool v4) {
    return kEthernetSize + (v4 ? wire::kIpv4Size : wire::kIpv6Size) + wire::kUdpSize;
  }
  [[nodiscard]] std::size_t frame_overhead() const { return frame_overhead(v4_); }
  // On the wire, with Ethernet, IP and UDP headers.
  [[nodiscard]] std::size_t wire_bytes() const { return bytes_ + count_ * frame_overhead(); }

  // From here on at most so many bytes more, as wire_bytes() counts them; but one packet in any case.
  void limit(std::uint64_t wire_bytes) { wire_bytes_max_ = this->wire_bytes() + wire_bytes; }
  void lift_limit() { wire_bytes_max_ = kUnlimited; }
  // While set, takes() keeps the last segment back.
  void keep_last(bool keep) { kept_ = keep && count_max_ >= kKeepFrom ? 1 : 0; }

  // May a segment as long as the first follow, whatever is kept back?
  [[nodiscard]] bool takes_more() const {
    return count_ > 0 && !closed_ && count_ < count_max_ && takes_bytes(segment_bytes_);
  }
  [[nodiscard]] bool takes_bytes(std::size_t bytes) const { return bytes_ + bytes <= config_.batch_bytes_max; }
  // May a packet of this size be the next segment? The first one may always.
  [[nodiscard]] bool takes(std::size_t packet_bytes, bool bitmap) const {
    return count_ == 0 || takes_behind(packet_bytes, bitmap);
  }
  // How many of these, all of this size, if one of them may be the next. At least one.
  [[nodiscard]] std::size_t room(std::size_t packet_bytes) const;

  void add(std::size_t bytes, std::size_t count = 1) {
    BRDMA_CHECK(count_ == 0 || (!closed_ && bytes <= segment_bytes_));
    if (count_ == 0) segment_bytes_ = bytes;
    closed_ = bytes < segment_bytes_;
    bytes_ += bytes * count;
    count_ += count;
  }
  // May the last segment become `longer`, which is `more` bytes longer than it is?
  [[nodiscard]] bool last_may_grow(std::size_t longer, std::size_t more) const {
    return (count_ == 1 || longer <= segment_bytes_) && takes_bytes(more);
  }
  void grow_last(std::size_t longer, std::size_t more) {
    bytes_ += more;
    if (count_ == 1) segment_bytes_ = longer;
    closed_ = longer < segment_bytes_;
  }

 private:
  static constexpr std::size_t kUnlimited = ~std::size_t{0};
  static constexpr std::size_t kEthernetSize = 14;
  static constexpr std::size_t kKeepFrom = 4;  // shorter batches would lose too much by a kept segment

  [[nodiscard]] bool takes_behind(std::size_t packet_bytes, bool bitmap) const {
    if (wire_bytes_max_ != kUnlimited && wire_bytes() >= wire_bytes_max_) [[unlikely]]
      return false;
    if (closed_ || packet_bytes > segment_bytes_) return false;
    if (count_ + kept_ >= count_max_ || !takes_bytes(packet_bytes)) return false;
    return bitmap || !v4_ || config_.ip_id_counts_in_batch;
  }

  const EngineConfig& config_;
  std::size_t count_max_, kept_ = 0;
  std::size_t wire_bytes_max_ = kUnlimited;
  std::size_t count_ = 0, segment_bytes_ = 0, bytes_ = 0;
  bool v4_ = false;
  bool closed_ = false;  // a shorter last segment is in
};

inline std::size_t GsoSegments::room(std::size_t packet_bytes) const {
  if (count_ > 0 && packet_bytes < segment_bytes_) return 1;  // the last
  const std::size_t batch_bytes = config_.batch_bytes_max;
  const std::size_t batch = (batch_bytes - std::min(bytes_, batch_bytes)) / packet_bytes;
  std::size_t limit = count_max_ - kept_ - count_;
  if (wire_bytes_max_ != kUnlimited) [[unlikely]] {  // one that begins below it may end beyond
    const std::size_t each = packet_bytes + frame_overhead();
    limit = std::min(limit, (wire_bytes_max_ - std::min(wire_bytes(), wire_bytes_max_) + each - 1) / each);
  }
  return std::max<std::size_t>(std::min(batch, limit), 1);
}

}  // namespace brdma::qp
