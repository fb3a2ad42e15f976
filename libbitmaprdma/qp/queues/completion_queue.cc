#include "qp/queues/completion_queue.h"

#include <algorithm>
#include <cerrno>

namespace brdma {
namespace {

// The first of those that the next notification is for: of an armed queue one that counts, else the first unpolled one,
// as what comes before the arming counts as soon as the queue is armed.
constexpr bool begins(bool armed, bool wakes, bool first_unpolled) { return armed ? wakes : first_unpolled; }

}  // namespace

CompletionQueue::Push CompletionQueue::push_watched(const Completion& completion, bool solicited, Instant now) {
  if (overrun_ || ring_.size() >= entries_) [[unlikely]] {
    if (!options_.ignore_overrun) {
      const bool first = !overrun_;
      overrun_ = true;
      return first ? Push::kOverrun : Push::kQuiet;  // reported once; all later ones are lost: no hole
    }
    pop();
  }
  ring_.push_back(completion);
  if (options_.stamped) times_.push_back(now);
  if (solicited) up_to_solicited_ = ring_.size();
  const bool wakes = armed_ == Armed::kAny || (armed_ == Armed::kSolicited && solicited);
  if (gathered_ == 0 && begins(armed_ != Armed::kNo, wakes, ring_.size() == up_to_notified_ + 1)) first_ = now;
  if (!wakes || ++gathered_ < wanted()) return Push::kQuiet;
  notify();
  return Push::kNotify;
}

void CompletionQueue::pop() {
  ring_.pop_front();
  if (options_.stamped) times_.pop_front();
  if ((up_to_solicited_ | up_to_notified_) == 0) [[likely]]
    return;
  if (up_to_solicited_ > 0) --up_to_solicited_;
  if (up_to_notified_ > 0) --up_to_notified_;
}

void CompletionQueue::notify() {
  disarm();
  up_to_notified_ = ring_.size();
}

std::size_t CompletionQueue::poll(std::span<Completion> out, std::span<Instant> times) {
  const std::size_t count = std::min(out.size(), ring_.size());
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = ring_.front();
    if (!times.empty() && options_.stamped) times[i] = times_.front();
    pop();
  }
  return count;
}

bool CompletionQueue::arm(bool solicited_only) {
  const std::size_t waiting = solicited_only ? up_to_solicited_ : ring_.size();
  const std::size_t fresh = waiting - std::min(waiting, up_to_notified_);
  if (fresh >= wanted()) {
    notify();
    return true;
  }
  gathered_ = std::max(gathered_, static_cast<std::uint32_t>(fresh));
  // An arm for any completion includes the solicited ones: an arm is only ever widened.
  if (armed_ != Armed::kAny) armed_ = solicited_only ? Armed::kSolicited : Armed::kAny;
  return false;
}

bool CompletionQueue::moderate(const CqModeration& moderation) {
  options_.moderation = moderation;
  timed_ = options_.stamped || moderation.delays();
  if (armed_ == Armed::kNo || gathered_ < wanted()) return false;
  notify();
  return true;
}

bool CompletionQueue::expire(Instant now) {
  const auto due = deadline();
  if (!due || *due > now) return false;
  notify();
  return true;
}

Status CompletionQueue::resize(std::uint32_t entries) {
  if (entries == 0 || entries < ring_.size()) return Status{EINVAL};
  ring_.reserve(entries);
  if (options_.stamped) times_.reserve(entries);
  entries_ = entries;
  return Status::success();
}

void CompletionQueue::purge(std::uint32_t qp_num) {
  const std::size_t all = ring_.size(), up_to_solicited = up_to_solicited_, up_to_notified = up_to_notified_;
  std::size_t solicited = 0, notified = 0;  // remaining ones
  for (std::size_t i = 0; i < all; ++i) {
    const Completion completion = ring_.front();
    const Instant made = options_.stamped ? times_.front() : Instant{};
    pop();
    if (completion.qp_num == qp_num) continue;
    ring_.push_back(completion);
    if (options_.stamped) times_.push_back(made);
    if (i < up_to_solicited) ++solicited;
    if (i < up_to_notified) ++notified;
  }
  up_to_solicited_ = solicited;
  up_to_notified_ = notified;
}

}  // namespace brdma
