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

// --- steps of poll_new() ---

[[gnu::always_inline]] inline bool all_begun(const Impl& me) { return me.queue.next() == me.queue.tail(); }
[[gnu::always_inline]] inline bool all_left(const Impl& me) { return me.messages.all_left(me.scoreboard.next()); }

// The next packets of the message that began last. True: some were added.
[[gnu::always_inline]] inline bool continue_message(Impl& me, PayloadCursor& cursor, TransmitBatch& batch,
                                                    Instant now) {
  Message& message = me.messages.back();
  if (me.fault.is_set_at(message.wqe)) return false;
  if (message.packets > 2 && me.transmit_middle(message, cursor, batch, now)) return true;
  return me.transmit_next(message, cursor, batch, now);
}

enum class Step : std::uint8_t {
  kAdded,     // packets
  kExecuted,  // a local operation, which has none
  kNothing,   // the next may not leave, does not fit or has failed
};

// Of the message that has begun; if all of it has left, the next work request begins.
[[gnu::always_inline]] inline Step take_step(Impl& me, PayloadCursor& cursor, TransmitBatch& batch, Instant now) {
  if (!me.ready_to_send_new(now)) return Step::kNothing;
  if (all_left(me)) {
    if (is_local(me.queue[me.queue.next()].opcode)) [[unlikely]] {
      const LocalOperations local{{me.env, me.id, me.queue, me.fault}};
      return local.execute(now) ? Step::kExecuted : Step::kNothing;
    }
    me.message_start().begin();
  }
  return continue_message(me, cursor, batch, now) ? Step::kAdded : Step::kNothing;
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
  if (all_begun(*this) && all_left(*this)) return false;
  PayloadCursor cursor(env.memory, id.pd, 0);
  bool added = false;
  while (true) {
    if (transmit_small(cursor, batch, now)) {
      added = true;
      if (all_begun(*this)) break;
    }
    const Step step = take_step(*this, cursor, batch, now);
    if (step == Step::kNothing) break;
    added = added || step == Step::kAdded;
  }
  env.note_length(now, id.qpn, trace::WindowSide::kSend, scoreboard);
  return added;
}

}  // namespace brdma::qp
