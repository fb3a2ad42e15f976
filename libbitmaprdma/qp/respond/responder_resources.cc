#include "qp/respond/responder_resources.h"

namespace brdma::qp {

void ResponderResources::reset(std::uint32_t outstanding_max) {
  outstanding_max_ = outstanding_max;
  queue_.clear();
  if (auto* const results = atomics_.if_made()) results->clear();
}

bool ResponderResources::will_response(Psn psn, std::uint32_t packets, std::uint32_t mtu) const {
  for (std::size_t i = 0; i < queue_.size(); ++i) {
    const Response& response = queue_[i];
    if (response.kind == Response::Kind::kNak) continue;
    const std::int32_t offset = distance(psn, response.psn);
    const std::uint32_t left = response.kind == Response::Kind::kRead && !response.by_reference
                                   ? response_packets(response.bytes_left, mtu)
                                   : 1;
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
  Ring<AtomicResult>& results = atomics_.made();
  if (results.size() == atomics_max()) results.pop_front();
  results.push_back({psn, msn, original});
}

const ResponderResources::AtomicResult* ResponderResources::find_atomic(Psn psn) const {
  // Newest first: after 2^24 packets an old result may have the same PSN.
  for (std::size_t i = atomics_->size(); i-- > 0;) {
    if ((*atomics_)[i].psn == psn) return &(*atomics_)[i];
  }
  return nullptr;
}

}  // namespace brdma::qp
