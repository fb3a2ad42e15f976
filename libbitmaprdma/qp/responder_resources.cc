#include "qp/responder_resources.h"

#include <algorithm>

namespace brdma::qp {

void ResponderResources::reset(std::uint32_t outstanding_max) {
  constexpr std::size_t kAtLeast = 16;
  replays_max_ = std::max<std::size_t>(4 * kAtLeast, 8 * std::size_t{outstanding_max});
  answers_max_ = replays_max_ + 2 * std::size_t{outstanding_max} + kAtLeast;
  atomics_max_ = std::max<std::size_t>(kAtLeast, 2 * std::size_t{outstanding_max});
  queue_.clear();
  atomics_.clear();
  next_atomic_ = 0;
}

bool ResponderResources::will_answer(Psn psn, std::uint32_t packets, std::uint32_t mtu) const {
  for (std::size_t i = 0; i < queue_.size(); ++i) {
    const Response& answer = queue_[i];
    if (answer.kind == Response::Kind::kNak) continue;
    const std::int32_t offset = distance(psn, answer.psn);
    const std::uint32_t left = answer.kind == Response::Kind::kRead ? response_packets(answer.bytes_left, mtu) : 1;
    if (offset >= 0 && static_cast<std::uint32_t>(offset) + packets <= left) return true;
  }
  return false;
}

bool ResponderResources::has_nak(Psn psn) const {
  for (std::size_t i = 0; i < queue_.size(); ++i) {
    if (queue_[i].kind == Response::Kind::kNak && queue_[i].psn == psn) return true;
  }
  return false;
}

void ResponderResources::remember_atomic(Psn psn, std::uint64_t original, std::uint32_t msn) {
  const AtomicResult result{psn, msn, original};
  if (atomics_.size() < atomics_max_) {
    atomics_.push_back(result);
    return;
  }
  atomics_[next_atomic_] = result;
  next_atomic_ = (next_atomic_ + 1) % atomics_max_;
}

const ResponderResources::AtomicResult* ResponderResources::find_atomic(Psn psn) const {
  // Newest first: after 2^24 packets an old result may have the same PSN.
  for (std::size_t age = 1; age <= atomics_.size(); ++age) {
    const AtomicResult& result = atomics_[(next_atomic_ + atomics_.size() - age) % atomics_.size()];
    if (result.psn == psn) return &result;
  }
  return nullptr;
}

}  // namespace brdma::qp
