// recovery/delay_judge.h - which packets have waited too long for their acknowledgement (spec 3: retransmission): T and
// delta, mean and deviation of the last N send delays, and the walk that names, once in k, what has waited T + delta.
//
// Late is not lost. What a peer or the network does to all packets alike (a queue that grows, a process without a core)
// makes each wait longer than those before it, and the spec's rule alone would send the whole window again. So T +
// delta holds for packets of which something sent after them has been acknowledged. Where nothing has, all are late:
// those wait for `silent_wait`, and only kSilentMax of them are named until something is heard; timeouts do the rest.
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
  // A packet is newly acknowledged. Of one that was sent again nobody knows which transmission this answers (Karn).
  void delivered(Instant sent, bool sent_again, Instant now) {
    if (sent_again) return;
    delays_.add(now - sent);
    note_arrived(sent);
  }
  // An acknowledgement came, caused by a packet that left at `echo`.
  void heard(std::optional<Instant> echo) {
    silent_ = 0;
    if (echo) note_arrived(*echo);
  }
  // T + delta. Nothing: no delay is known yet.
  [[nodiscard]] std::optional<Duration> wait() const {
    if (delays_.size() == 0) return std::nullopt;
    return delays_.mean() + delays_.deviation();
  }
  [[nodiscard]] const DelayStatistics& delays() const { return delays_; }

  // open(sequence, sent): that transmission is not acknowledged, and is the newest of its packet.
  template <class Open>
  void trim(const Open& open) {
    log_.trim(open);
  }

  struct Limits {
    Duration interval;     // k
    Duration silent_wait;  // T + delta if that is longer
  };
  // When the next walk may name something. Nothing: nothing is under way, or no delay is known.
  [[nodiscard]] std::optional<Instant> walk_at(const Limits& limits) const;
  // Calls overdue(sequence) for what has waited too long, each transmission once.
  template <class Open, class Overdue>
  void walk(const Limits& limits, Instant now, const Open& open, const Overdue& overdue) {
    walked_ = now;
    const auto is_due = [&](Instant sent) { return now >= due(sent, limits); };
    log_.walk(is_due, open, [&](std::uint64_t sequence, Instant sent) {
      if (!passed(sent) && ++silent_ > kSilentMax) return false;
      overdue(sequence);
      return true;
    });
  }

  void forget_flight() { log_.clear(); }
  [[nodiscard]] std::size_t logged_runs() const { return log_.runs(); }
  [[nodiscard]] std::size_t allocated_bytes() const { return delays_.allocated_bytes() + log_.allocated_bytes(); }

 private:
  void note_arrived(Instant sent) {
    if (!newest_ || sent > *newest_) newest_ = sent;
  }
  [[nodiscard]] bool passed(Instant sent) const { return newest_ && sent < *newest_; }
  [[nodiscard]] Instant due(Instant sent, const Limits& limits) const;

  SendLog log_;
  DelayStatistics delays_;
  std::optional<Instant> newest_;  // of what has been acknowledged, when the last to leave left
  std::optional<Instant> walked_;
  std::uint32_t silent_ = 0;  // named since something was heard
};

}  // namespace brdma::recovery
