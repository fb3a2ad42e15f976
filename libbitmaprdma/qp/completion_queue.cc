#include "qp/completion_queue.h"

#include <algorithm>
#include <cerrno>

namespace brdma {

CompletionQueue::Push CompletionQueue::push(const Completion& completion, bool solicited) {
  if (overrun_ || ring_.size() >= entries_) {
    const bool first = !overrun_;
    overrun_ = true;
    return first ? Push::kOverrun
                 : Push::kQuiet;  // told once; all that follows is lost, or one between others would be
  }
  ring_.push_back(completion);
  const bool wakes = armed_ == Armed::kAny || (armed_ == Armed::kSolicited && solicited);
  if (!wakes) return Push::kQuiet;
  armed_ = Armed::kNo;
  return Push::kNotify;
}

std::size_t CompletionQueue::poll(std::span<Completion> out) {
  const std::size_t count = std::min(out.size(), ring_.size());
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = ring_.front();
    ring_.pop_front();
  }
  return count;
}

void CompletionQueue::arm(bool solicited_only) {
  // Asking for any completion contains asking for the solicited ones: an arm is only ever widened.
  if (armed_ != Armed::kAny) armed_ = solicited_only ? Armed::kSolicited : Armed::kAny;
}

Status CompletionQueue::resize(std::uint32_t entries) {
  if (entries == 0 || entries < ring_.size()) return Status{EINVAL};
  ring_.reserve(entries);
  entries_ = entries;
  return Status::success();
}

void CompletionQueue::purge(std::uint32_t qp_num) {
  for (std::size_t left = ring_.size(); left > 0; --left) {
    const Completion completion = ring_.front();
    ring_.pop_front();
    if (completion.qp_num != qp_num) ring_.push_back(completion);
  }
}

}  // namespace brdma
