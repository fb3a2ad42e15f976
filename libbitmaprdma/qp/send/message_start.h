// qp/send/message_start.h - private: which message begins next, and may it, or the next packet of one that has begun? A
// message begins when fence, READ limits, window and credit allow its first packet. The order of work requests is the
// order on the wire. A READ is cut into chunks here, and a WRITE or SEND by reference into packets
// (local_references.h).
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/units.h"
#include "congestion/delay_window.h"
#include "qp/loss/scoreboard.h"
#include "qp/queues/message_table.h"
#include "qp/queues/payload_cursor.h"
#include "qp/queues/send_queue.h"
#include "qp/queues/work_completer.h"
#include "qp/read/response_admission.h"
#include "qp/read/response_pacing.h"
#include "qp/send/admission.h"
#include "qp/send/congestion_state.h"
#include "qp/send/local_references.h"
#include "qp/send/segments.h"
#include "qp/state/environment.h"
#include "qp/state/identity.h"
#include "qp/state/limits.h"
#include "qp/timers/receiver_not_ready.h"
#include "recovery/rtt_estimator.h"

namespace brdma::qp {

// What the next message gets.
struct NextMessage {
  std::uint32_t msn = 0, rsn = 0;
  std::uint32_t cut = 0;     // bytes of the work request at queue.next() that are in messages already
  bool wants_local = false;  // a large message has begun, and nothing is known of the peer's process

  void restart() { msn = rsn = 0; }
  void forget_flight() { cut = 0; }
  // A message on the wire, which consumes a receive or not, has begun.
  void pass(bool consumes_receive) {
    msn = (msn + 1) & Psn::kMask;
    if (consumes_receive) rsn = (rsn + 1) & Psn::kMask;
  }
};

[[nodiscard]] inline MessageKind message_kind(WorkOpcode opcode) {
  switch (opcode) {
    case WorkOpcode::kRdmaWrite:
    case WorkOpcode::kRdmaWriteWithImm:
      return MessageKind::kWrite;
    case WorkOpcode::kRdmaRead:
      return MessageKind::kRead;
    case WorkOpcode::kAtomicCmpSwap:
    case WorkOpcode::kAtomicFetchAdd:
      return MessageKind::kAtomic;
    case WorkOpcode::kAtomicWrite:
    case WorkOpcode::kFlush:
      return MessageKind::kConfirmed;
    default:
      return MessageKind::kSend;
  }
}

// How a READ is cut: the bytes of the one at queue.next() that the next READ request asks for. A view of the
// requester's parts, made where it is needed.
class ReadChunks {
 public:
  struct Parts {
    Environment& env;
    const Identity& id;
    const SendQueue& queue;
    const recovery::RttEstimator& rtt;
    const ResponseAdmission& responses;
    ResponsePace* pace;  // nullptr: responses are not paced
    const NextMessage& next;
  };
  explicit ReadChunks(const Parts& parts) : parts_(parts) {}

  // `by_reference`: the peer's memory is read (LocalReferences::next_read).
  [[nodiscard]] std::uint32_t next_bytes(bool by_reference) const;

 private:
  Parts parts_;
};

// A view of the requester's parts, made where it is needed. Inlined there: each packet is asked for here.
class MessageStart {
 public:
  struct Parts {
    Environment& env;
    const Identity& id;
    SendQueue& queue;
    SendFault& fault;
    MessageTable& messages;
    const Scoreboard& scoreboard;
    const Segments& segments;
    const recovery::RttEstimator& rtt;
    const congestion::DelayWindow& congestion;  // of requests
    Admission& admission;
    ResponseAdmission& responses;
    const ReceiverNotReady& rnr;
    const std::unique_ptr<CongestionState>& signals;  // null: there is none
    NextMessage& next;
  };
  [[gnu::always_inline]] explicit MessageStart(const Parts& parts) : parts_(parts) {}

  // May the next new packet leave, or the local operation that is next be executed?
  [[nodiscard, gnu::always_inline]] bool ready(Instant now) const;
  // Precondition: ready(), and all packets of begun messages have left. Adds the message; with a fault of its memory,
  // too.
  [[gnu::always_inline]] void begin() const;

  // --- the next packet ---
  // Is it a READ request, or another answered one? Without retransmissions.
  [[nodiscard]] bool next_is_answered() const {
    if (!all_left()) return parts_.messages.back().answered();
    const SendQueue& queue = parts_.queue;
    return queue.next() != queue.tail() && is_answered(message_kind(queue[queue.next()].opcode));
  }
  // It belongs to a large command: others go first (device/transmit.cc).
  [[nodiscard, gnu::always_inline]] bool next_is_large() const;
  // All posted requests wait for their turn, and the next is not of a large command; else next_is_large() decides.
  [[nodiscard, gnu::always_inline]] bool begins_small() const {
    const SendQueue& queue = parts_.queue;
    if (!parts_.messages.empty() || parts_.scoreboard.pending() != 0 || queue.next() == queue.tail()) return false;
    const std::uint32_t threshold = parts_.env.config.transfer.threshold_bytes;
    return threshold == 0 || queue[queue.next()].length < threshold;
  }

 private:
  static std::uint32_t packets_of(std::uint32_t bytes, std::uint32_t mtu) {
    return bytes == 0 ? 1 : (bytes + mtu - 1) / mtu;
  }
  [[nodiscard, gnu::always_inline]] bool all_left() const { return parts_.messages.all_left(parts_.scoreboard.next()); }
  [[nodiscard, gnu::always_inline]] LocalReferences references() const {
    return LocalReferences{{parts_.env, parts_.id, parts_.queue, parts_.next.cut}};
  }
  [[nodiscard, gnu::always_inline]] bool admits(std::uint32_t entries, std::uint32_t payload, bool answered) const;
  [[nodiscard, gnu::always_inline]] bool continues() const;  // may the next packet of the begun message leave?
  [[nodiscard, gnu::always_inline]] bool may_begin(const SendWqe& wqe, Instant now) const;
  [[nodiscard, gnu::always_inline]] bool admits_first(const SendWqe& wqe) const;  // its packet
  [[nodiscard, gnu::always_inline]] std::uint32_t chunk_bytes() const {
    return ReadChunks{
        {parts_.env, parts_.id, parts_.queue, parts_.rtt, parts_.responses, response_pace(parts_.signals), parts_.next}}
        .next_bytes(references().next_read());
  }
  [[gnu::always_inline]] void cut_read(Message& message, const SendWqe& wqe) const;

  Parts parts_;
};

inline bool MessageStart::admits(std::uint32_t entries, std::uint32_t payload, bool answered) const {
  const SendLimits limits{parts_.env, parts_.id, parts_.scoreboard, parts_.congestion, parts_.admission};
  const Limit found = limits.limit(entries, payload, answered);
  if (parts_.admission.note(found)) parts_.env.count(Counter::kCreditStalls);
  return found == Limit::kNone;
}

inline bool MessageStart::ready(Instant now) const {
  if (!parts_.rnr.may_leave(parts_.scoreboard.next())) return false;
  if (!all_left()) return continues();
  const SendQueue& queue = parts_.queue;
  if (queue.next() == queue.tail() || parts_.fault.is_set()) return false;
  if (parts_.id.state != QpState::kRts && parts_.next.cut == 0) return false;  // SQD: only messages in progress
  const SendWqe& wqe = queue[queue.next()];
  if (!may_begin(wqe, now)) return false;
  if (is_local(wqe.opcode)) [[unlikely]]
    return true;
  return admits_first(wqe);
}

inline bool MessageStart::continues() const {
  const Message& message = parts_.messages.back();
  const Sequence next = parts_.scoreboard.next();
  if (parts_.fault.is_set_at(message.wqe)) return false;
  if (message.answered()) return admits(message.packets, 0, true);
  if (!parts_.segments.may_leave(message, next)) return false;
  return admits(1, message.payload_at(next, parts_.id.mtu()), false);
}

inline bool MessageStart::admits_first(const SendWqe& wqe) const {
  const std::uint32_t mtu = parts_.id.mtu();
  switch (message_kind(wqe.opcode)) {
    case MessageKind::kRead:
      return admits(references().next_read() ? 1 : packets_of(chunk_bytes(), mtu), 0, true);
    case MessageKind::kAtomic:
    case MessageKind::kConfirmed:
      return admits(1, 0, true);
    default:
      if (references().next_bytes() != 0) [[unlikely]]
        return parts_.scoreboard.flight().packets < kFetchesInFlight && admits(1, wire::kReferenceSizeMax, false);
      if (parts_.segments.full() && Segments::packets_of_each(wqe, parts_.env.config.transfer, parts_.id) != 0)
        return false;
      return admits(1, std::min(wqe.length, mtu), false);
  }
}

inline bool MessageStart::may_begin(const SendWqe& wqe, Instant now) const {
  ResponseAdmission& responses = parts_.responses;
  if ((wqe.flags & kSendFence) != 0 && parts_.next.cut == 0 && responses.messages() > 0) return false;
  const MessageKind kind = message_kind(wqe.opcode);
  if (!is_answered(kind)) return true;
  if (responses.messages() >= parts_.id.attributes.max_rd_atomic) return false;
  if (kind != MessageKind::kRead) return true;
  if (ResponsePace* const pace = response_pace(parts_.signals); pace != nullptr && pace->rate.allowance(now) == 0)
      [[unlikely]]
    return false;
  if (references().next_read()) [[unlikely]]
    return responses.messages() < kFetchesInFlight;
  return responses.admits_read(chunk_bytes(), parts_.id, parts_.env.credit_share());
}

inline void MessageStart::begin() const {
  SendQueue& queue = parts_.queue;
  NextMessage& next = parts_.next;
  const Identity& id = parts_.id;
  const std::uint64_t number = queue.next();
  const SendWqe& wqe = queue[number];
  Message& message = parts_.messages.push_back({.first = parts_.scoreboard.next(),
                                                .wqe = number,
                                                .length = wqe.length,
                                                .msn = next.msn,
                                                .rsn = next.rsn,
                                                .kind = message_kind(wqe.opcode)});
  if (id.local_state == LocalState::kNotAsked && references().is_worth_one(wqe)) next.wants_local = true;
  if (message.kind == MessageKind::kRead) cut_read(message, wqe);
  if (message.kind == MessageKind::kConfirmed) message.length = 0;  // of its response
  if (!message.answered()) {
    if (const std::uint32_t bytes = references().next_bytes(); bytes != 0) [[unlikely]]
      references().begin(message, wqe, bytes);
  }
  message.packets = message.kind == MessageKind::kAtomic ? 1 : packets_of(message.length, id.mtu());
  if (message.last_of_wqe || message.kind == MessageKind::kRead)  // else on the wire a part of one message
    next.pass(message.kind == MessageKind::kSend || wqe.opcode == WorkOpcode::kRdmaWriteWithImm);
  if (message.answered()) {
    parts_.responses.on_requested(message.packets, message.length);
  } else if (message.by_reference == 0) {
    message.segment_packets = Segments::packets_of_each(wqe, parts_.env.config.transfer, id);
  }
  message.first_operation = parts_.segments.next_number();
  if (message.last_of_wqe) queue.begin_next();
}

inline void MessageStart::cut_read(Message& message, const SendWqe& wqe) const {
  NextMessage& next = parts_.next;
  message.offset = next.cut;
  message.length = chunk_bytes();
  if (references().next_read()) [[unlikely]]
    message.by_reference = std::exchange(message.length, wire::reference_size(1));
  next.cut += message.by_reference != 0 ? message.by_reference : message.length;
  message.last_of_wqe = next.cut == wqe.length;
  if (message.last_of_wqe) next.cut = 0;
  if (!writable(parts_.env.memory, parts_.id.pd, parts_.queue, message.wqe))
    parts_.fault.set(message.wqe, CompletionStatus::kLocalProtectionError);
}

inline bool MessageStart::next_is_large() const {
  const TransferConfig& config = parts_.env.config.transfer;
  if (config.threshold_bytes == 0) return false;
  const SendQueue& queue = parts_.queue;
  if (parts_.scoreboard.pending() > 0) {
    const Message& message = parts_.messages.of(parts_.scoreboard.next_pending(parts_.scoreboard.base()));
    return Segments::is_large(queue[message.wqe], config);
  }
  if (!all_left()) return Segments::is_large(queue[parts_.messages.back().wqe], config);
  return queue.next() != queue.tail() && Segments::is_large(queue[queue.next()], config);
}

}  // namespace brdma::qp
