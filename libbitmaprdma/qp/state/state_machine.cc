// The queue pair's state machine (IBTA 10.3.1) and the attributes of each move (table 92 of the verbs chapter):
// required ones and optional ones. Anything else is the caller's mistake: EINVAL, and nothing has changed.
#include "qp/state/state_machine.h"

#include <cerrno>
#include <span>

#include "qp/state/limits.h"

namespace brdma {
namespace {

// Bits of enum ibv_qp_attr_mask that have no member in QpAttributes.
constexpr std::uint32_t kQpAttrSqdNotify = 4, kQpAttrPathMigState = 262144;

struct Move {
  QpState from, to;
  std::uint32_t required, optional;
};

constexpr std::uint32_t kWhileSending = kQpAttrCurrentState | kQpAttrAccess | kQpAttrMinRnrTimer | kQpAttrPathMigState;

// Every move except those to RESET and ERR, which are always allowed and take nothing; the queue pair itself moves to
// SQE.
constexpr Move kRcMoves[] = {
    {QpState::kReset, QpState::kInit, kQpAttrPkeyIndex | kQpAttrPort | kQpAttrAccess, 0},
    {QpState::kInit, QpState::kInit, 0, kQpAttrPkeyIndex | kQpAttrPort | kQpAttrAccess},
    {QpState::kInit, QpState::kRtr,
     kQpAttrAv | kQpAttrPathMtu | kQpAttrDestQpn | kQpAttrRqPsn | kQpAttrMaxDestRdAtomic | kQpAttrMinRnrTimer,
     kQpAttrAccess | kQpAttrPkeyIndex},
    {QpState::kRtr, QpState::kRts,
     kQpAttrTimeout | kQpAttrRetryCount | kQpAttrRnrRetry | kQpAttrSqPsn | kQpAttrMaxRdAtomic, kWhileSending},
    {QpState::kRts, QpState::kRts, 0, kWhileSending},
    {QpState::kRts, QpState::kSqd, 0, kQpAttrSqdNotify},
    {QpState::kSqd, QpState::kRts, 0, kWhileSending},
    {QpState::kSqd, QpState::kSqd, 0,
     kQpAttrPort | kQpAttrAv | kQpAttrTimeout | kQpAttrRetryCount | kQpAttrRnrRetry | kQpAttrMaxRdAtomic |
         kQpAttrMaxDestRdAtomic | kQpAttrAccess | kQpAttrPkeyIndex | kQpAttrMinRnrTimer | kQpAttrPathMigState},
};

constexpr std::uint32_t kUcWhileSending = kQpAttrCurrentState | kQpAttrAccess | kQpAttrPathMigState;

constexpr Move kUcMoves[] = {
    {QpState::kReset, QpState::kInit, kQpAttrPkeyIndex | kQpAttrPort | kQpAttrAccess, 0},
    {QpState::kInit, QpState::kInit, 0, kQpAttrPkeyIndex | kQpAttrPort | kQpAttrAccess},
    {QpState::kInit, QpState::kRtr, kQpAttrAv | kQpAttrPathMtu | kQpAttrDestQpn | kQpAttrRqPsn,
     kQpAttrAccess | kQpAttrPkeyIndex},
    {QpState::kRtr, QpState::kRts, kQpAttrSqPsn, kUcWhileSending},
    {QpState::kRts, QpState::kRts, 0, kUcWhileSending},
    {QpState::kRts, QpState::kSqd, 0, kQpAttrSqdNotify},
    {QpState::kSqd, QpState::kRts, 0, kUcWhileSending},
    {QpState::kSqd, QpState::kSqd, 0, kQpAttrAv | kQpAttrAccess | kQpAttrPkeyIndex | kQpAttrPathMigState},
    {QpState::kSqe, QpState::kRts, 0, kQpAttrCurrentState | kQpAttrAccess},
};

constexpr Move kUdMoves[] = {
    {QpState::kReset, QpState::kInit, kQpAttrPkeyIndex | kQpAttrPort | kQpAttrQkey, 0},
    {QpState::kInit, QpState::kInit, 0, kQpAttrPkeyIndex | kQpAttrPort | kQpAttrQkey},
    {QpState::kInit, QpState::kRtr, 0, kQpAttrPkeyIndex | kQpAttrQkey},
    {QpState::kRtr, QpState::kRts, kQpAttrSqPsn, kQpAttrCurrentState | kQpAttrQkey},
    {QpState::kRts, QpState::kRts, 0, kQpAttrCurrentState | kQpAttrQkey},
    {QpState::kRts, QpState::kSqd, 0, kQpAttrSqdNotify},
    {QpState::kSqd, QpState::kRts, 0, kQpAttrCurrentState | kQpAttrQkey},
    {QpState::kSqd, QpState::kSqd, 0, kQpAttrPkeyIndex | kQpAttrQkey},
    {QpState::kSqe, QpState::kRts, 0, kQpAttrCurrentState | kQpAttrQkey},
};

// IBTA annex A14: the sending half's attributes, and the receiving half's. libibverbs' programs (rdma-core's tests) set
// those of RC on both.
constexpr std::uint32_t kOfReceiver = kQpAttrMaxDestRdAtomic | kQpAttrMinRnrTimer,
                        kOfSender = kQpAttrRetryCount | kQpAttrRnrRetry | kQpAttrMaxRdAtomic;

// Attributes that half of a connection need not be given.
std::uint32_t not_needed(XrcRole role) {
  if (role == XrcRole::kInitiator) return kOfReceiver;
  return role == XrcRole::kTarget ? kOfSender : 0;
}

std::span<const Move> moves_of(QpType type) {
  if (type == QpType::kUc) return kUcMoves;
  if (type == QpType::kUd) return kUdMoves;
  return kRcMoves;
}

bool move_allowed(const qp::Identity& id, QpState from, QpState to, std::uint32_t given) {
  if (to == QpState::kReset || to == QpState::kErr) return given == 0;
  for (const Move& move : moves_of(id.type)) {
    if (move.from != from || move.to != to) continue;
    const std::uint32_t required = move.required & ~not_needed(id.xrc);
    return (given & required) == required && (given & ~(move.required | move.optional)) == 0;
  }
  return false;
}

constexpr std::uint32_t code(PathMtu mtu) { return static_cast<std::uint32_t>(mtu); }

// Both ends of a path speak the same family.
bool can_be_path(const IpAddress& local, const IpAddress& peer) {
  return !local.is_zero() && !peer.is_zero() && local.is_v4() == peer.is_v4();
}

// Are the values of the attributes in `mask` possible?
bool values_valid(const QpAttributes& a, std::uint32_t mask) {
  // Including persistent memory, though no region has that right: programs (rdma-core's tests) set it on any device.
  constexpr std::uint32_t kAccessKnown = kAccessLocalWrite | kAccessRemoteWrite | kAccessRemoteRead |
                                         kAccessRemoteAtomic | kAccessMwBind | kAccessFlushGlobal |
                                         kAccessFlushPersistent;
  const struct {
    std::uint32_t attribute, value, least, most;
  } ranges[] = {
      {kQpAttrPkeyIndex, a.pkey_index, 0, 0},
      {kQpAttrPort, a.port, 1, 1},
      {kQpAttrPathMtu, code(a.path_mtu), code(PathMtu::k256), code(PathMtu::k4096)},
      {kQpAttrDestQpn, a.destination_qpn, 0, 0xFF'FFFF},
      {kQpAttrTimeout, a.timeout, 0, 31},
      {kQpAttrRetryCount, a.retry_count, 0, 7},
      {kQpAttrRnrRetry, a.rnr_retry, 0, 7},
      {kQpAttrMinRnrTimer, a.min_rnr_timer, 0, 31},
      {kQpAttrMaxRdAtomic, a.max_rd_atomic, 0, qp::kRdAtomicMax},
      {kQpAttrMaxDestRdAtomic, a.max_dest_rd_atomic, 0, qp::kRdAtomicMax},
  };
  const auto given = [mask](std::uint32_t bit) { return (mask & bit) != 0; };
  for (const auto& [attribute, value, least, most] : ranges) {
    if (given(attribute) && (value < least || value > most)) return false;
  }
  if (given(kQpAttrAccess) && (a.access & ~kAccessKnown) != 0) return false;
  return !given(kQpAttrAv) || can_be_path(a.local_address, a.peer_address);
}

}  // namespace

Status QueuePair::StateMachine::modify(const QpAttributes& attributes, std::uint32_t mask, Instant now) const {
  pair_.count_here();
  const QpState from = pair_.identity_.state;
  const QpState to = (mask & kQpAttrState) != 0 ? attributes.state : from;
  if ((mask & kQpAttrCurrentState) != 0 && attributes.current_state != from) return Status{EINVAL};
  if (!move_allowed(pair_.identity_, from, to, mask & ~kQpAttrState)) return Status{EINVAL};
  if (!values_valid(attributes, mask)) return Status{EINVAL};
  apply(attributes, mask);
  if (to != from || to == QpState::kReset) enter(to, mask, now);
  return Status::success();
}

void QueuePair::StateMachine::apply(const QpAttributes& from, std::uint32_t mask) const {
  QpAttributes& to = pair_.identity_.attributes;
  const auto given = [mask](std::uint32_t bit) { return (mask & bit) != 0; };
  if (given(kQpAttrAccess)) to.access = from.access;
  if (given(kQpAttrPkeyIndex)) to.pkey_index = from.pkey_index;
  if (given(kQpAttrPort)) to.port = from.port;
  if (given(kQpAttrAv)) {
    to.local_address = from.local_address;
    to.peer_address = from.peer_address;
    to.sgid_index = from.sgid_index;
    to.traffic_class = from.traffic_class;
    to.hop_limit = from.hop_limit;
    to.flow_label = from.flow_label;
    pair_.received_flow = pair_.sent_flow_ = wire::IcrcFlow{};  // they belong to the old addresses
  }
  if (given(kQpAttrQkey)) to.qkey = from.qkey;
  if (given(kQpAttrPathMtu)) to.path_mtu = from.path_mtu;
  if (given(kQpAttrDestQpn)) to.destination_qpn = from.destination_qpn;
  if (given(kQpAttrRqPsn)) to.receive_psn = from.receive_psn;
  if (given(kQpAttrSqPsn)) to.send_psn = from.send_psn;
  if (given(kQpAttrTimeout)) to.timeout = from.timeout;
  if (given(kQpAttrRetryCount)) to.retry_count = from.retry_count;
  if (given(kQpAttrRnrRetry)) to.rnr_retry = from.rnr_retry;
  if (given(kQpAttrMinRnrTimer)) to.min_rnr_timer = from.min_rnr_timer;
  if (given(kQpAttrMaxRdAtomic)) to.max_rd_atomic = from.max_rd_atomic;
  if (given(kQpAttrMaxDestRdAtomic)) to.max_dest_rd_atomic = from.max_dest_rd_atomic;
}

void QueuePair::StateMachine::enter(QpState state, std::uint32_t mask, Instant now) const {
  const QpState from = pair_.identity_.state;
  switch (state) {
    case QpState::kErr:
      enter_error(now);
      return;
    case QpState::kReset:
      set_state(state, now);
      enter_reset();
      return;
    case QpState::kRtr:
      start_receiving();
      break;
    case QpState::kRts:
      if (from == QpState::kRtr) start_sending();
      break;
    case QpState::kSqd:
      pair_.drain_wanted_ = (mask & kQpAttrSqdNotify) != 0;
      break;
    default:
      break;
  }
  set_state(state, now);
  note_drained();
}

void QueuePair::StateMachine::start_receiving() const {
  const Psn first = pair_.identity_.attributes.receive_psn;
  if (pair_.unreliable_) return pair_.unreliable_->receiver.start(first);
  pair_.responder_.start(first);
  pair_.standard_port_.forget();
  pair_.negotiator().begin();
}

void QueuePair::StateMachine::start_sending() const {
  const Psn first = pair_.identity_.attributes.send_psn;
  pair_.unreliable_ ? pair_.unreliable_->sender.start(first) : pair_.requester_.start(first);
}

void QueuePair::StateMachine::set_state(QpState state, Instant now) const {
  const bool received = pair_.identity_.can_receive();
  pair_.environment_.trace(
      now, pair_.identity_.qpn,
      trace::QpStateChanged{static_cast<std::uint8_t>(pair_.identity_.state), static_cast<std::uint8_t>(state)});
  pair_.environment_.note(now, pair_.identity_.qpn, trace::EventType::kQpState,
                          static_cast<std::uint64_t>(pair_.identity_.state), static_cast<std::uint64_t>(state));
  pair_.identity_.state = state;
  pair_.identity_.attributes.state = pair_.identity_.attributes.current_state = state;
  const bool receives = pair_.identity_.can_receive();
  if (receives && !received) ++pair_.environment_.active_qps;
  if (!receives && received) --pair_.environment_.active_qps;
}

// Both queues complete as flushed, in order. Nothing is sent any more.
void QueuePair::StateMachine::enter_error(Instant now) const {
  if (pair_.identity_.state == QpState::kErr) return;
  set_state(QpState::kErr, now);
  pair_.negotiation_ = qp::Negotiation{};
  if (pair_.local_) pair_.local_->darken();
  fail_sends(now);
  fail_receives(now);
  if (pair_.identity_.srq != nullptr && pair_.identity_.xrc == XrcRole::kNone)
    pair_.events_.raise(qp::kEventLastWqeReached);
}

// UC and UD: a work request failed here. The receiving half is not affected.
void QueuePair::StateMachine::enter_send_error(Instant now) const {
  set_state(QpState::kSqe, now);
  fail_sends(now);
}

void QueuePair::StateMachine::enter_reset() const {
  pair_.negotiator().reset();
  if (pair_.unreliable_) {
    pair_.unreliable_->reset();
  } else {
    pair_.requester_.reset();
    pair_.responder_.reset();
  }
  pair_.identity_.send_cq->purge(pair_.identity_.qpn);
  pair_.identity_.receive_cq->purge(pair_.identity_.qpn);
  forget_peer(pair_.identity_);
  pair_.events_.clear();
  pair_.order_.none_first();
  pair_.drain_wanted_ = false;
}

void QueuePair::StateMachine::fail_sends(Instant now) const {
  pair_.unreliable_ ? pair_.unreliable_->sender.flush(now) : pair_.requester_.flush(now);
}
void QueuePair::StateMachine::fail_receives(Instant now) const {
  pair_.unreliable_ ? pair_.unreliable_->receiver.flush(now) : pair_.responder_.flush(now);
}

void QueuePair::StateMachine::carry_out(const qp::Outcome& outcome, Instant now) const {
  const qp::Identity& id = pair_.identity_;
  if (outcome.async_event >= 0) pair_.events_.raise(outcome.async_event);
  if (outcome.sends_fail && id.can_send()) enter_send_error(now);
  if (outcome.wants_local && id.local_state == LocalState::kNotAsked) pair_.negotiator().want_local();
  if (outcome.to_error) enter_error(now);
  if (pair_.drain_wanted_) note_drained();
}

void QueuePair::StateMachine::note_drained() const {
  if (!pair_.drain_wanted_ || pair_.identity_.state != QpState::kSqd || pair_.draining()) return;
  pair_.drain_wanted_ = false;
  pair_.events_.raise(qp::kEventSqDrained);
}

Status QueuePair::modify(const QpAttributes& attributes, std::uint32_t mask, Instant now) {
  return StateMachine{*this}.modify(attributes, mask, now);
}

void QueuePair::do_carry_out(const qp::Outcome& outcome, Instant now) { StateMachine{*this}.carry_out(outcome, now); }

bool QueuePair::draining() const {
  if (identity_.state != QpState::kSqd) return false;
  return unreliable_ ? !unreliable_->sender.idle() : !requester_.idle();
}

}  // namespace brdma
