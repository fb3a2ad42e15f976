// trace/events.h - typed events, named in the past tense, without text. Their only text form is made in trace/text.cc.
#pragma once

#include <cstdint>
#include <variant>

#include "base/psn.h"
#include "base/units.h"
#include "trace/drop_reason.h"

namespace brdma::trace {

// The five entry states of design BR-6 by value: trace must not depend on bitmap.
enum class Entry : std::uint8_t { kSentUnacked, kSuspectedLost, kRetransmitPending, kRetransmittedUnacked, kAcked };

struct PacketSent {
  std::uint8_t opcode;
  Psn psn;
  std::uint32_t bytes;
  bool retransmission;
};
struct PacketReceived {
  std::uint8_t opcode;
  Psn psn;
  std::uint32_t bytes;
};
struct PacketDropped {
  DropReason reason;
  std::uint8_t opcode;
  Psn psn;
};
struct GapSeen {
  Psn start;
  std::uint32_t length;
};
struct GapPromoted {
  Psn start;
  std::uint32_t length;
  std::uint8_t cause;
};  // recovery::LossCause
struct GapClosed {
  Psn start;
  Psn base;
};
struct FfmSent {
  Psn start;
  std::uint32_t length;
  Psn highest;
  std::uint16_t gaps;
};
struct FfmReceived {
  Psn start;
  std::uint32_t length;
  std::uint16_t gaps;
};
struct EntryMoved {
  Psn psn;
  Entry from;
  Entry to;
};
struct AckSent {
  Psn base;
  Psn highest;
  std::uint8_t syndrome;
};
struct AckReceived {
  Psn base;
  Psn highest;
  std::uint8_t syndrome;
};
struct BitmapModeAgreed {
  std::uint32_t peer_window;
};
struct TimeoutFired {
  bool probe;
  Psn base;
};
// The send window's base has not moved for long, though packets up to `arrived_end` have arrived.
struct SendStalled {
  Psn base;
  Psn arrived_end;
};
struct CompletionMade {
  std::uint64_t wr_id;
  std::uint32_t status;
  bool receive;
};
struct OperationRegistered {
  std::uint32_t operation;
  std::uint32_t packets;
};
struct OperationCompleted {
  std::uint32_t operation;
  bool last;  // of its transfer
};
struct QpStateChanged {
  std::uint8_t from;
  std::uint8_t to;
};
struct PathDown {
  std::uint8_t path;
};
struct PathUp {
  std::uint8_t path;
};

using Event = std::variant<PacketSent, PacketReceived, PacketDropped, GapSeen, GapPromoted, GapClosed, FfmSent,
                           FfmReceived, EntryMoved, AckSent, AckReceived, BitmapModeAgreed, TimeoutFired, SendStalled,
                           CompletionMade, QpStateChanged, OperationRegistered, OperationCompleted, PathDown, PathUp>;

// Set from outside; null = off. One call per event, on the engine's thread.
class Sink {
 public:
  virtual ~Sink() = default;
  virtual void record(Instant when, std::uint32_t qpn, const Event& event) = 0;
};

}  // namespace brdma::trace
