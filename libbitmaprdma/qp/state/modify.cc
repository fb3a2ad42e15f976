// The queue pair's state machine (IBTA 10.3.1) and the attributes of each move (table 92 of the verbs chapter):
// required ones and optional ones. Anything else is the caller's mistake: EINVAL, and nothing has changed.
#include <cerrno>
#include <span>

#include "qp/state/limits.h"
#include "qp/state/queue_pair.h"

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

std::span<const Move> moves_of(QpType type) {
  if (type == QpType::kUc) return kUcMoves;
  if (type == QpType::kUd) return kUdMoves;
  return kRcMoves;
}

bool move_allowed(QpType type, QpState from, QpState to, std::uint32_t given) {
  if (to == QpState::kReset || to == QpState::kErr) return given == 0;
  for (const Move& move : moves_of(type)) {
    if (move.from != from || move.to != to) continue;
    return (given & move.required) == move.required && (given & ~(move.required | move.optional)) == 0;
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

Status QueuePair::modify(const QpAttributes& attributes, std::uint32_t mask, Instant now) {
  count_here();
  const QpState from = identity_.state;
  const QpState to = (mask & kQpAttrState) != 0 ? attributes.state : from;
  if ((mask & kQpAttrCurrentState) != 0 && attributes.current_state != from) return Status{EINVAL};
  if (!move_allowed(identity_.type, from, to, mask & ~kQpAttrState)) return Status{EINVAL};
  if (!values_valid(attributes, mask)) return Status{EINVAL};
  apply(attributes, mask);
  if (to != from || to == QpState::kReset) enter(to, mask, now);
  return Status::success();
}

void QueuePair::apply(const QpAttributes& from, std::uint32_t mask) {
  QpAttributes& to = identity_.attributes;
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
    received_flow = sent_flow_ = wire::IcrcFlow{};  // they belong to the old addresses
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

void QueuePair::enter(QpState state, std::uint32_t mask, Instant now) {
  const QpState from = identity_.state;
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
      drain_wanted_ = (mask & kQpAttrSqdNotify) != 0;
      break;
    default:
      break;
  }
  set_state(state, now);
  note_drained();
}

void QueuePair::start_receiving() {
  const Psn first = identity_.attributes.receive_psn;
  if (unreliable_) return unreliable_->receiver.start(first);
  responder_.start(first);
  begin_negotiation();
}

void QueuePair::start_sending() {
  const Psn first = identity_.attributes.send_psn;
  unreliable_ ? unreliable_->sender.start(first) : requester_.start(first);
}

void QueuePair::set_state(QpState state, Instant now) {
  const bool received = identity_.can_receive();
  environment_.trace(
      now, identity_.qpn,
      trace::QpStateChanged{static_cast<std::uint8_t>(identity_.state), static_cast<std::uint8_t>(state)});
  environment_.note(now, identity_.qpn, trace::EventType::kQpState, static_cast<std::uint64_t>(identity_.state),
                    static_cast<std::uint64_t>(state));
  identity_.state = state;
  identity_.attributes.state = identity_.attributes.current_state = state;
  const bool receives = identity_.can_receive();
  if (receives && !received) ++environment_.active_qps;
  if (!receives && received) --environment_.active_qps;
}

// Both queues complete as flushed, in order. Nothing is sent any more.
void QueuePair::enter_error(Instant now) {
  if (identity_.state == QpState::kErr) return;
  set_state(QpState::kErr, now);
  negotiation_ = Negotiation{};
  if (local_) local_->darken();
  fail_sends(now);
  fail_receives(now);
  if (identity_.srq != nullptr) raise(qp::kEventLastWqeReached);
}

// UC and UD: a work request failed here. The receiving half is not affected.
void QueuePair::enter_send_error(Instant now) {
  set_state(QpState::kSqe, now);
  fail_sends(now);
}

void QueuePair::enter_reset() {
  negotiation_ = Negotiation{};
  end_local();
  if (unreliable_) {
    unreliable_->reset();
  } else {
    requester_.reset();
    responder_.reset();
  }
  identity_.send_cq->purge(identity_.qpn);
  identity_.receive_cq->purge(identity_.qpn);
  identity_.bitmap_agreed = identity_.peer_reads_piggybacks = false;
  identity_.own_token = identity_.peer_token = 0;
  identity_.sending_paths = identity_.receiving_paths = 1;
  identity_.peer_window = 0;
  identity_.peer_credit = {};
  async_events_ = 0;
  drain_wanted_ = requests_first_ = control_first_ = false;
}

void QueuePair::raise(int async_event) { async_events_ |= 1u << async_event; }

bool QueuePair::draining() const {
  if (identity_.state != QpState::kSqd) return false;
  return unreliable_ ? !unreliable_->sender.idle() : !requester_.idle();
}

void QueuePair::note_drained() {
  if (!drain_wanted_ || identity_.state != QpState::kSqd || draining()) return;
  drain_wanted_ = false;
  raise(qp::kEventSqDrained);
}

}  // namespace brdma
