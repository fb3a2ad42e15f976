// New packets: which of their writers has its turn. A message that begins (message_start.h) continues packet by packet.
#include "qp/send/local_operation.h"
#include "qp/send/requester_impl.h"
#include "qp/transmit/data_packets.h"
#include "qp/transmit/middle_runs.h"
#include "qp/transmit/request_packets.h"
#include "qp/transmit/single_request.h"
#include "qp/transmit/small_runs.h"

namespace brdma::qp {
namespace {

using Impl = Requester::Impl;

[[gnu::always_inline]] inline Runs runs(Impl& me) {
  return Runs{{me.env, me.id, me.fault, me.scoreboard, me.path.congestion, me.admission, me.timers, me.rnr,
               me.path.several, me.losses.judge}};
}

[[gnu::always_inline]] inline DataPackets data_packets(Impl& me) {
  return DataPackets{{me.env, me.id, me.queue, me.fault, me.messages, me.scoreboard, me.segments, me.path.congestion,
                      me.admission, me.timers, me.rnr, me.path.several.get(), me.losses.judge.get()}};
}

[[gnu::always_inline]] inline RequestPackets request_packets(Impl& me) {
  return RequestPackets{{me.env, me.id, me.queue, me.fault, me.messages, me.scoreboard, me.path.rtt, me.admission,
                         me.responses, me.timers, response_pace(me.path.signals), me.path.several.get(),
                         me.losses.judge.get()}};
}

}  // namespace

bool Requester::Impl::ready_to_send_new(Instant now) { return message_start().ready(now); }

bool Requester::Impl::transmit_small(PayloadCursor& cursor, TransmitBatch& batch, Instant now) {
  return SmallRuns{{runs(*this), queue, messages, segments, next}}.transmit(cursor, batch, now);
}

bool Requester::Impl::transmit_middle(const Message& message, PayloadCursor& cursor, TransmitBatch& batch,
                                      Instant now) {
  return MiddleRuns{{runs(*this), queue}}.transmit(message, cursor, batch, now);
}

// Flattened: most turns are this one function.
[[gnu::flatten]] bool Requester::Impl::transmit_single(TransmitBatch& batch, std::size_t room, Instant now) {
  return SingleRequest{{runs(*this), queue, messages, segments, losses.recovery, path.signals, next}}.transmit(
      batch, room, now);
}

bool Requester::Impl::transmit_next(Message& message, PayloadCursor& cursor, TransmitBatch& batch, Instant now) {
  if (message.answered()) return request_packets(*this).transmit(message, cursor, batch, now);
  return data_packets(*this).transmit(message, cursor, batch, now);
}

bool Requester::Impl::poll_new(TransmitBatch& batch, Instant now) {
  if (queue.next() == queue.tail() && messages.all_left(scoreboard.next())) return false;
  PayloadCursor cursor(env.memory, id.pd, 0);
  bool added = false;
  while (true) {
    if (transmit_small(cursor, batch, now)) {
      added = true;
      if (queue.next() == queue.tail()) break;
    }
    if (!ready_to_send_new(now)) break;
    if (messages.all_left(scoreboard.next())) {
      if (is_local(queue[queue.next()].opcode)) [[unlikely]] {
        if (!LocalOperations{{env, id, queue, fault}}.execute(now)) break;
        continue;
      }
      message_start().begin();
    }
    Message& message = messages.back();
    if (fault.is_set_at(message.wqe)) break;
    if (message.packets > 2 && transmit_middle(message, cursor, batch, now)) {
      added = true;
      continue;
    }
    if (!transmit_next(message, cursor, batch, now)) break;
    added = true;
  }
  env.note_length(now, id.qpn, trace::WindowSide::kSend, scoreboard);
  return added;
}

}  // namespace brdma::qp
