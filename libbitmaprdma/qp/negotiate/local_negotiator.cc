// Two queue pairs of one host find out, with their CAPS, whether each can read the other's process. References are used
// when both can, and both know it: each reports that it fetches, and that it has received the other's report. This
// begins with the first large message of either: other queue pairs keep no state.
#include "qp/negotiate/local_negotiator.h"

#include <array>

namespace brdma::qp {
namespace {

constexpr unsigned kExaminedMost = 4;  // claims: forged CAPS must not keep us busy

bool same(const LocalClaim& a, const LocalClaim& b) {
  return a.pid == b.pid && a.pid_namespace == b.pid_namespace && a.beacon == b.beacon && a.nonce == b.nonce;
}

}  // namespace

void LocalNegotiator::begin() const {
  end();
  if (env_.config.local_memory == nullptr || !env_.config.transfer.local) return;
  id_.local_state = LocalState::kNotAsked;
}

void LocalNegotiator::end() const {
  id_.local = nullptr;
  id_.local_state = LocalState::kOff;
  local_.reset();
}

void LocalNegotiator::find_out() const {
  if (id_.local_state != LocalState::kNotAsked) return;
  LocalMemory* const memory = env_.config.local_memory;
  if (!memory->is_here(id_.attributes.peer_address)) {
    id_.local_state = LocalState::kOtherHost;
    return;
  }
  id_.local_state = LocalState::kNotReported;
  SecretRandom& random = env_.nonces.beacons;
  local_ = std::make_unique<LocalPath>(env_.pools.beacons, memory->self(), std::array{random.next(), random.next()});
  id_.local = local_.get();
}

void LocalNegotiator::fill(wire::Caps& caps) const {
  if (!local_) return;
  caps.capabilities |= wire::kCapabilityLocal;
  caps.local = local_->own;
  caps.local_fetches = local_->fetches;
  caps.local_confirmed = local_->peer_fetches;
}

// The peer's report counts once its claim has been verified: its nonce is known to nobody else.
LocalNegotiator::Follows LocalNegotiator::on_caps(const wire::Caps& caps, std::uint16_t source_port) const {
  if ((caps.capabilities & wire::kCapabilityLocal) == 0) return Follows::kNothing;
  find_out();
  if (!local_) return Follows::kNothing;
  LocalPath& local = *local_;
  const unsigned before = local.steps();
  if (!local.fetches) examine(caps.local, source_port);
  if (!local.fetches || !same(caps.local, local.peer) || local.agreed()) return Follows::kNothing;
  local.peer_fetches = local.peer_fetches || caps.local_fetches;
  local.peer_knows = local.peer_knows || caps.local_confirmed;
  if (local.agreed()) {
    env_.count(Counter::kLocalQps);
    return Follows::kNothing;
  }
  // However many CAPS a process without a core has missed: its new report is answered, a repeated one is not.
  return local.steps() != before ? Follows::kNewCaps : Follows::kCaps;
}

void LocalNegotiator::examine(const LocalClaim& claim, std::uint16_t source_port) const {
  LocalPath& local = *local_;
  if (local.examined == kExaminedMost) return;
  ++local.examined;
  local.peer = claim;
  id_.local_state = env_.config.local_memory->examine(claim, source_port);
  local.fetches = id_.local_state == LocalState::kFetches;
}

}  // namespace brdma::qp
