#include "connections/stopped_peers.h"

namespace brdma::daemon {

std::optional<wire::StoppedReply> StoppedPeers::reply(const wire::StoppedQuery& query, Clock::time_point now) {
  constexpr std::uint32_t kSlotMask = io::kSlotCount - 1;
  constexpr Duration kClocksDiffer = 1_s;  // and a wall clock may be set a little
  ++counters_.queries;
  const Lease& lease = look(query.peer_qpn & kSlotMask, now);
  if (!lease.stopped || lease.age + kClocksDiffer < 1_ms * std::int64_t{query.silent_ms}) return std::nullopt;
  if (now >= limited_until_) {
    limited_until_ = now + kLookFor;
    replies_ = 0;
  }
  if (replies_ >= kRepliesMax) {
    ++counters_.limited;
    return std::nullopt;
  }
  ++replies_;
  ++counters_.replies;
  return wire::StoppedReply{.peer_qpn = query.peer_qpn, .nonce = query.nonce};
}

const StoppedPeers::Lease& StoppedPeers::look(std::uint32_t slot, Clock::time_point now) {
  Looked& looked = looked_[slot];
  if (now >= looked.until) looked = {.until = now + kLookFor, .lease = look_ ? look_(slot) : Lease{}};
  return looked.lease;
}

}  // namespace brdma::daemon
