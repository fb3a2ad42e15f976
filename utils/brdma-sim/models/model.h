// models/model.h - the two ends of one flow of a protocol that the evaluation compares with: TCP, go-back-N, IRN, ...
// Start here. Sans-I/O: times and frames are arguments. Frames have no payload, only numbers.
//
// Who calls what. The host of a flow's source owns a Sender, the host of its destination a Receiver.
//   1. start(bytes, now), once.
//   2. The host's port takes a frame with next_frame(now) whenever its link is free and ready_at() <= now.
//   3. Frames that arrive go to on_frame(frame, now). Which ones: frame.to_source() or not.
//   4. on_deadline(now) at next_deadline() or later. An early call is harmless and changes nothing.
//   After each call ready_at() and next_deadline() may have changed. Time never goes back.
//   5. done(): the source knows that all bytes arrived. Nothing is sent afterwards, and the Sender may be destroyed.
//      complete(): the destination has all bytes. It must still answer frames that arrive (lost ACKs).
// Switches: they set `ce` on frames with `ect`; and may return a kDropped frame (notification_of) to the source.
// Errors: a frame of another flow is our own fault (check). Thread-safety: one thread at a time for each object.
// Units: bytes of payload count from 0 in `sequence`, `ack` and ranges; wire_bytes is the size in queues and on links.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/units.h"

namespace brdma::models {

using FlowId = std::uint32_t;

// Bytes [first, end).
struct ByteRange {
  std::uint64_t first = 0;
  std::uint64_t end = 0;
  [[nodiscard]] bool empty() const { return first == end; }
  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

enum class FrameKind : std::uint8_t {
  kData,
  kAck,      // `ack` and, for TCP, `sack`
  kNack,     // RoCE: `ack` is the expected byte; IRN: sack[0] is the packet that arrived out of order
  kCnp,      // RoCE: congestion notification packet
  kDropped,  // EDN (explicit drop notification) of a switch: [sequence, sequence + length) was dropped; `echo`: its
             // sent_at
  kPause,    // PFC, between neighbours: flows never see these two
  kResume,
};

inline constexpr std::size_t kSackRanges = 3;  // TCP with timestamps has room for 3 (RFC 2018)

// One packet. `sent_at`: when this copy left its sender; an answer has it in `echo` (TCP timestamps, delay control).
struct Frame {
  FlowId flow = 0;
  FrameKind kind = FrameKind::kData;
  bool ect = false;    // ECN-capable: a switch may set `ce` instead of dropping
  bool ce = false;     // congestion experienced, set by a switch
  bool ece = false;    // answer: the frame that caused it had `ce`
  bool last = false;   // data: the last bytes of the flow
  bool again = false;  // data: a retransmission, for statistics
  std::uint8_t sack_count = 0;
  std::uint32_t length = 0;      // data, dropped: payload bytes
  std::uint32_t wire_bytes = 0;  // headers included
  std::uint64_t sequence = 0;    // data, dropped: first byte
  std::uint64_t ack = 0;         // answers: all bytes below have arrived
  Instant sent_at;
  Instant echo;
  ByteRange duplicate;  // answer: bytes that arrived twice (DSACK, RFC 2883); empty if none
  std::array<ByteRange, kSackRanges> sack{};

  [[nodiscard]] bool to_source() const { return kind != FrameKind::kData; }
  [[nodiscard]] std::uint64_t end() const { return sequence + length; }
  [[nodiscard]] std::span<const ByteRange> sacked() const { return {sack.data(), sack_count}; }
};

// The notification of a switch that drops `data`. wire_bytes: its size, which the switch's settings name.
[[nodiscard]] Frame notification_of(const Frame& data, std::uint32_t wire_bytes, Instant now);

// Why data was sent again. The sum of all is `sent` less the frames of first transmissions.
enum class Cause : std::uint8_t {
  kFeedback,  // duplicate ACKs, SACK, RACK, NACK
  kTimeout,   // RTO
  kProbe,     // tail loss probe that repeats data
  kNotified,  // EDN
};
inline constexpr std::size_t kCauses = 4;

struct Counters {
  std::uint64_t sent = 0;                      // data frames, retransmissions included
  std::array<std::uint64_t, kCauses> again{};  // retransmitted frames by Cause
  std::uint64_t timeouts = 0;                  // expiries of the RTO
  std::uint64_t probes = 0;                    // tail loss probes, with new data or old
  std::uint64_t reductions = 0;                // of the window or rate
  [[nodiscard]] std::uint64_t retransmitted() const {
    std::uint64_t sum = 0;
    for (const std::uint64_t count : again) sum += count;
    return sum;
  }
};

class Sender {
 public:
  virtual ~Sender() = default;
  // bytes >= 1.
  virtual void start(std::uint64_t bytes, Instant now) = 0;
  virtual void on_frame(const Frame& frame, Instant now) = 0;
  // The earliest time at which next_frame has a frame, if nothing arrives before: in the past when it has one now,
  // later when a rate holds it back. None: it waits for an answer or a deadline.
  [[nodiscard]] virtual std::optional<Instant> ready_at() const = 0;
  [[nodiscard]] virtual std::optional<Frame> next_frame(Instant now) = 0;
  [[nodiscard]] virtual std::optional<Instant> next_deadline() const = 0;
  virtual void on_deadline(Instant now) = 0;
  [[nodiscard]] virtual bool done() const = 0;
  [[nodiscard]] virtual const Counters& counters() const = 0;
  // For plots and tests: bytes that may be unacknowledged, and the rate (0: as fast as the link).
  [[nodiscard]] virtual std::uint64_t window() const = 0;
  [[nodiscard]] virtual Bandwidth rate() const = 0;
};

class Receiver {
 public:
  virtual ~Receiver() = default;
  // Appends the answers, two at most.
  virtual void on_frame(const Frame& frame, Instant now, std::vector<Frame>& out) = 0;
  // Delayed ACKs; none for protocols without.
  [[nodiscard]] virtual std::optional<Instant> next_deadline() const { return std::nullopt; }
  virtual void on_deadline(Instant /*now*/, std::vector<Frame>& /*out*/) {}
  [[nodiscard]] virtual bool complete() const = 0;
  [[nodiscard]] virtual std::uint64_t in_order() const = 0;   // bytes
  [[nodiscard]] virtual std::uint64_t discarded() const = 0;  // frames: duplicates, and those out of order (go-back-N)
};

// Sizes in bytes. A full data packet has payload + header on the wire.
struct Sizes {
  std::uint32_t payload = 0;  // of a full packet: TCP's SMSS, the MTU of RDMA
  std::uint32_t header = 0;   // Ethernet with FCS, IP, ... of a data packet; preamble and gap are the link's
  std::uint32_t answer = 0;   // a whole ACK, NACK or CNP
};

// What a flow's parameters depend on. `base_rtt`: of the longest path, without queues (facts of the topology).
struct Path {
  Bandwidth rate;  // of the hosts' links
  Duration base_rtt;
  [[nodiscard]] std::uint64_t bdp() const {  // bytes
    return static_cast<std::uint64_t>(static_cast<unsigned __int128>(rate.bps()) *
                                      static_cast<std::uint64_t>(base_rtt.ns()) / 8'000'000'000u);
  }
};

}  // namespace brdma::models
