// Two queue pairs of one host find out, with their CAPS, whether each can read the other's process. References are used
// when both can, and both know it: each reports that it fetches, and that it has received the other's report. This
// begins with the first large message of either: other queue pairs keep no state.
#include "qp/state/queue_pair.h"

namespace brdma {
namespace {

constexpr unsigned kExaminedMost = 4;  // claims: forged CAPS must not keep us busy

bool same(const LocalClaim& a, const LocalClaim& b) {
  return a.pid == b.pid && a.pid_namespace == b.pid_namespace && a.beacon == b.beacon && a.nonce == b.nonce;
}

}  // namespace

void QueuePair::begin_local() {
  end_local();
  if (environment_.config.local_memory == nullptr || !environment_.config.transfer.local) return;
  identity_.local_state = LocalState::kNotAsked;
}

void QueuePair::want_local() {
  find_out_local();
  if (!local_) return;
  negotiation_.asked = 0;  // however long the agreement on bitmap mode took
  ask_again();
}

void QueuePair::find_out_local() {
  if (identity_.local_state != LocalState::kNotAsked) return;
  LocalMemory* const memory = environment_.config.local_memory;
  if (!memory->is_here(identity_.attributes.peer_address)) {
    identity_.local_state = LocalState::kOtherHost;
    return;
  }
  identity_.local_state = LocalState::kNotReported;
  SecretRandom& random = environment_.beacon_nonces;
  local_ =
      std::make_unique<qp::LocalPath>(environment_.beacons, memory->self(), std::array{random.next(), random.next()});
  identity_.local = local_.get();
}

void QueuePair::end_local() {
  identity_.local = nullptr;
  identity_.local_state = LocalState::kOff;
  local_.reset();
}

void QueuePair::fill_local_caps(wire::Caps& caps) const {
  if (!local_) return;
  caps.capabilities |= wire::kCapabilityLocal;
  caps.local = local_->own;
  caps.local_fetches = local_->fetches;
  caps.local_confirmed = local_->peer_fetches;
}

// The peer's report counts once its claim has been verified: its nonce is known to nobody else.
void QueuePair::on_local_caps(const wire::Caps& caps) {
  if ((caps.capabilities & wire::kCapabilityLocal) == 0) return;
  find_out_local();
  if (!local_) return;
  qp::LocalPath& local = *local_;
  const unsigned before = local.steps();
  if (!local.fetches) {
    if (local.examined == kExaminedMost) return;
    ++local.examined;
    local.peer = caps.local;
    identity_.local_state = environment_.config.local_memory->examine(caps.local, received_flow.source_port());
    local.fetches = identity_.local_state == LocalState::kFetches;
  }
  if (!local.fetches || !same(caps.local, local.peer)) return;
  if (local.agreed()) return;
  local.peer_fetches = local.peer_fetches || caps.local_fetches;
  local.peer_knows = local.peer_knows || caps.local_confirmed;
  if (local.agreed()) return environment_.count(Counter::kLocalQps);
  // However many CAPS a process without a core has missed: its new report is answered, a repeated one is not.
  if (local.steps() != before) negotiation_.asked = 0;
  ask_again();
}

}  // namespace brdma
