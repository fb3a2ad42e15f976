// What the tests of qp/timers/timer_actions.h do to a sender's parts, and see of them.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "qp/timers/timer_actions.h"
#include "support/sender_parts.h"

namespace brdma::qp {

using bitmap::EntryState;
using test::SenderParts;

inline constexpr std::uint64_t kWindow = 64 * 1024;                              // of congestion, at first
inline constexpr Duration kRetry = Duration::from_ns(std::int64_t{4096} << 16);  // four of the attribute: 268 ms

inline std::vector<Sequence> in_state(const SenderParts& parts, EntryState state) {
  std::vector<Sequence> found;
  for (Sequence at = parts.scoreboard.base(); at < parts.scoreboard.next(); ++at) {
    if (parts.scoreboard.state(at) == state) found.push_back(at);
  }
  return found;
}
inline std::vector<Sequence> pending(const SenderParts& parts) {
  return in_state(parts, EntryState::kRetransmitPending);
}
// Those that leave next, acknowledged ones included.
inline std::vector<Sequence> leaving(const SenderParts& parts) {
  std::vector<Sequence> found;
  const Scoreboard& board = parts.scoreboard;
  for (Sequence at = board.next_pending(board.base()); at < board.next(); at = board.next_pending(at + 1))
    found.push_back(at);
  return found;
}
inline std::vector<Sequence> suspected(const SenderParts& parts) { return in_state(parts, EntryState::kSuspectedLost); }
inline std::vector<Sequence> untouched(const SenderParts& parts) { return in_state(parts, EntryState::kSentUnacked); }

// Packets that have waited too long, as the inquiry about the path counts them.
inline std::uint32_t timed_out(const SenderParts& parts) {
  if (!parts.signals || !parts.signals->inquiry) return 0;
  WanConfig config;
  for (config.inquiry_timeouts = 1; parts.signals->inquiry->is_due(config, parts.now);) ++config.inquiry_timeouts;
  return config.inquiry_timeouts;
}
// Retransmissions that may exceed the congestion window.
inline unsigned granted(SenderParts& parts) {
  unsigned packets = 0;
  for (; parts.timers.has_grant(); ++packets) parts.timers.use_grant();
  return packets;
}
inline void retransmit(SenderParts& parts, Sequence sequence) {
  const SentPackets sent = parts.sent();
  EXPECT_TRUE(sent.retransmit(sequence, sent.message_of(sequence), Counter::kRetransmittedRequest, parts.now));
}
inline void follow_irn(SenderParts& parts) {
  parts.recovery.mode = RecoveryMode::kSelective;
  parts.judge = std::make_unique<SenderJudge>(parts.recovery);
  parts.judge->follow_irn({.low = 100_us, .high = 320_us});
}
inline void response(SenderParts& parts, Sequence sequence) {
  wire::Packet packet;
  packet.op = wire::RcOp::kReadResponseMiddle;
  packet.bth.psn = parts.scoreboard.psn_of(sequence);
  packet.bitmap = true;
  const Instant sent = parts.scoreboard.sent_at(sequence, parts.now);
  parts.responses.on_response(SenderParts::kMtu, true);
  parts.acknowledge(sequence);
  parts.sent().request_arrived(parts.sent().message_of(sequence));
  parts.gaps().on_response(packet, sequence, sent, parts.now);
}
// The peer has executed all requests before `boundary`.
inline void executed(SenderParts& parts, Sequence boundary) { parts.scoreboard.set_cumulative(boundary, parts.now); }

inline void time_out(SenderParts& parts) { parts.actions().fire_retransmission(parts.now); }
inline void probe(SenderParts& parts) { parts.actions().fire_probe(parts.now); }
inline void stall(SenderParts& parts) { parts.actions().fire_stall(parts.now); }

}  // namespace brdma::qp
