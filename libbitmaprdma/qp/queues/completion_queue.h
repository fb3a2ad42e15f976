// qp/queues/completion_queue.h - a bounded queue of completions, with the arm-once notification of verbs.
// Overrun is the caller's sizing mistake, as in IBTA: the CQ goes into error, a notification reports it, nothing is
// overwritten, and no completion is taken any more. Everything up to the overrun can still be polled, without a hole. A
// program may choose overwriting instead (CqOptions::ignore_overrun).
// With moderation a notification waits for more completions, until deadline().
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/ring.h"
#include "base/units.h"
#include "bitmaprdma/types.h"

namespace brdma {

class CompletionQueue {
 public:
  enum class Push : std::uint8_t { kQuiet, kNotify, kOverrun };

  CompletionQueue(std::uint32_t entries, void* user, const CqOptions& options = {})
      : entries_(entries), user_(user), options_(options), ring_(entries), times_(options.stamped ? entries : 0) {
    (void)moderate(options.moderation);
  }
  // `solicited`: by the sender's solicited flag, or an error: fires a solicited-only arm too.
  Push push(const Completion& completion, bool solicited, Instant now) {
    if (!is_quiet()) return push_watched(completion, solicited, now);
    ring_.push_back(completion);
    if (solicited) [[unlikely]]
      up_to_solicited_ = ring_.size();
    return Push::kQuiet;
  }
  // A push has no side effect, whatever the completion.
  [[nodiscard]] bool is_quiet() const {
    return armed_ == Armed::kNo && !timed_ && !overrun_ && ring_.size() < entries_;
  }
  // Adds a completion that is not solicited, to be written by the caller. Precondition: is_quiet().
  Completion& add() { return ring_.add_back(); }
  // `times`: empty, or as long as `out`; receives the time of each (of a queue that keeps it).
  std::size_t poll(std::span<Completion> out, std::span<Instant> times = {});
  // True: a matching completion came since the last notification and waits to be polled, so it notifies at once and is
  // not armed. A program that polls, finds nothing, arms and sleeps misses no completion in between. One that arms when
  // it is woken and polls then is not woken twice for the same.
  [[nodiscard]] bool arm(bool solicited_only);
  void disarm() {
    armed_ = Armed::kNo;
    gathered_ = 0;
  }
  // From now on. True: enough completions wait for the notification that is made now.
  [[nodiscard]] bool moderate(const CqModeration& moderation);
  // When completions that wait for more have waited long enough; none: none wait.
  [[nodiscard]] std::optional<Instant> deadline() const {
    return armed_ == Armed::kNo || gathered_ == 0 ? std::nullopt : std::optional(first_ + options_.moderation.period);
  }
  [[nodiscard]] bool expire(Instant now);  // true: the deadline has passed, and a notification is made
  Status resize(std::uint32_t entries);
  // Removes the completions of a destroyed queue pair.
  void purge(std::uint32_t qp_num);
  [[nodiscard]] std::uint32_t capacity() const { return entries_; }
  [[nodiscard]] bool overwrites() const { return ring_.size() >= entries_ && options_.ignore_overrun; }  // at push()
  [[nodiscard]] std::size_t size() const { return ring_.size(); }
  [[nodiscard]] void* user() const { return user_; }
  std::uint32_t queue_pairs = 0;  // that use it: destroy returns EBUSY while > 0
  std::uint32_t in_flight =
      0;  // packets in flight of those whose requests complete here, as of the engine's last look at deadlines

 private:
  enum class Armed : std::uint8_t { kNo, kSolicited, kAny };
  Push push_watched(const Completion& completion, bool solicited, Instant now);
  void pop();
  void notify();
  // Completions for one notification.
  [[nodiscard]] std::uint32_t wanted() const { return options_.moderation.delays() ? options_.moderation.count : 1; }
  std::uint32_t entries_;
  void* user_;
  CqOptions options_;
  Armed armed_ = Armed::kNo;
  bool overrun_ = false;
  bool timed_ = false;          // the time of each push counts
  std::uint32_t gathered_ = 0;  // of an armed queue: completions for the next notification
  Instant first_;               // when the first of them came
  // How many of the oldest: up to the newest solicited one (0: none); up to the last one notified.
  std::size_t up_to_solicited_ = 0, up_to_notified_ = 0;
  Ring<Completion> ring_;
  Ring<Instant> times_;  // of each in ring_, where they are kept
};

}  // namespace brdma
