#include "completions/completion_rings.h"

#include <algorithm>
#include <array>

namespace brdma::provider {

std::size_t CompletionRings::poll_several(std::span<Completion> out, std::span<Instant> times) {
  const std::uint32_t count = count_.load(std::memory_order_acquire);
  std::uint32_t at = next_.load(std::memory_order_relaxed);
  std::size_t got = 0;
  for (std::uint32_t i = 0; i < count && got < out.size(); ++i, ++at) {
    const Ring& ring = (*this)[at % count];
    got += ring.context->poll_cq(ring.engine, out.subspan(got), times.empty() ? times : times.subspan(got));
  }
  next_.store(at, std::memory_order_relaxed);
  return got;
}

CompletionQueue* CompletionRings::in(std::size_t shard) const {
  for (std::size_t i = 0; i < size(); ++i) {
    if ((*this)[i].shard == shard) return (*this)[i].engine;
  }
  return nullptr;
}

void CompletionRings::add(const Ring& ring) {
  const std::uint32_t count = count_.load();
  {
    const std::lock_guard held(arming_);
    if (count == 1) more_ = std::make_unique<Ring[]>(kShardsMax - 1);
    (count == 0 ? first_ : more_[count - 1]) = ring;
    count_.store(count + 1, std::memory_order_release);
  }
  arm_all(NotifyOf::kNothing);  // at least as much as before
}

// The first to fire clears the common arming. Other rings are still armed then, maybe for more than the next request.
void CompletionRings::arm_all(NotifyOf wanted) {
  const std::lock_guard held(arming_);
  std::array<Ring, kShardsMax> rings;
  const std::size_t count = size();
  for (std::size_t i = 0; i < count; ++i) rings[i] = (*this)[i];
  std::sort(rings.begin(), rings.begin() + count, [](const Ring& a, const Ring& b) { return a.shard < b.shard; });
  std::array<Context::NotifiedQueue, kShardsMax> queues;
  std::transform(rings.begin(), rings.begin() + count, queues.begin(), [](const Ring& ring) {
    return Context::NotifiedQueue{ring.context, ring.engine};
  });
  Context::request_notify(std::span(queues).first(count), [&] {
    armed_ = std::max(armed_.load(), wanted);
    return armed_.load();
  });
}

}  // namespace brdma::provider
