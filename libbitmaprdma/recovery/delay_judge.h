// recovery/delay_judge.h - which packets have waited too long for their acknowledgement (design WT-4, WT-5): T and
// delta, mean and deviation of the last N send delays, and the walk that names, once in k, packets that have waited T +
// delta.
//
// Late is not lost. A cause that delays all packets alike (a growing queue, a process without a core) makes each wait
// longer than those before it. Alone, WT-5 would resend the whole window. So T + delta holds for packets sent
// before an acknowledged one. If there is none, all are late: those wait for `silent_wait`, twice as long each time
// that the same packets have left again, and only kSilentMax of them are named until an acknowledgement comes; timeouts
// do the rest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/units.h"
#include "recovery/delay_statistics.h"
#include "recovery/send_log.h"

namespace brdma::recovery {

class DelayJudge {
 public:
  static constexpr std::uint32_t kSilentMax = 64;

  explicit DelayJudge(std::size_t samples) : delays_(samples) {}  // N

  void sent(std::uint64_t sequence, Instant now) { log_.sent(sequence, now); }
  // A packet is newly acknowledged. For a retransmitted one the acknowledged transmission is unknown (Karn).
  void delivered(Instant sent, bool sent_again, Instant now) {
    end_silence();
    if (sent_again) return;
    delays_.add(now - sent);
    note_arrived(sent);
  }
  // An acknowledgement came, caused by a packet sent at `echo`.
  void on_echo(std::optional<Instant> echo) {
    end_silence();
    if (echo) note_arrived(*echo);
  }
  // T + delta. Nothing: no delay sample yet.
  [[nodiscard]] std::optional<Duration> wait() const {
    if (delays_.size() == 0) return std::nullopt;
    return delays_.mean() + delays_.deviation();
  }
  [[nodiscard]] const DelayStatistics& delays() const { return delays_; }

  // open(sequence, sent): that transmission is not acknowledged, and is the latest of its packet.
  template <class Open>
  void trim(const Open& open) {
    log_.trim(open);
  }

  struct Limits {
    Duration interval;     // k
    Duration silent_wait;  // T + delta if that is longer
  };
  // When the next walk may name a packet. Nothing: none is in flight, or no delay sample yet.
  [[nodiscard]] std::optional<Instant> walk_at(const Limits& limits) const;
  // Calls overdue(sequence) for packets that have waited too long, each transmission once.
  template <class Open, class Overdue>
  void walk(const Limits& limits, Instant now, const Open& open, const Overdue& overdue) {
    walked_ = now;
    const auto is_due = [&](Instant sent) { return now >= due(sent, limits); };
    log_.walk(is_due, open, [&](std::uint64_t sequence, Instant sent) {
      if (!passed(sent) && !name_in_silence(sent, now)) return false;
      overdue(sequence);
      return true;
    });
  }

  void forget_flight() { log_.clear(); }
  [[nodiscard]] std::size_t logged_runs() const { return log_.runs(); }
  [[nodiscard]] std::size_t allocated_bytes() const { return delays_.allocated_bytes() + log_.allocated_bytes(); }

 private:
  static constexpr std::uint32_t kSilentDoublings = 10;
  void end_silence() { silent_ = silent_rounds_ = 0; }
  void note_arrived(Instant sent) {
    if (!newest_ || sent > *newest_) newest_ = sent;
  }
  [[nodiscard]] bool passed(Instant sent) const { return newest_ && sent < *newest_; }
  // False: enough of them.
  bool name_in_silence(Instant sent, Instant now);
  [[nodiscard]] Instant due(Instant sent, const Limits& limits) const;

  SendLog log_;
  DelayStatistics delays_;
  std::optional<Instant> newest_;  // send time of the most recently sent acknowledged packet
  std::optional<Instant> walked_;
  std::uint32_t silent_ = 0;  // named since the last acknowledgement
  // The same packets were named so often since then; the last time began at round_began_.
  std::uint32_t silent_rounds_ = 0;
  Instant round_began_;
};

}  // namespace brdma::recovery
