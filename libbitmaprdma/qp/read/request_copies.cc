// qp/read/request_copies.cc - on a path that loses, a READ request leaves a second time with the next one. READs are
// executed in order: all requests behind a lost one wait for it, while nothing is in flight. A copy costs 78 bytes, a
// wait the data of a round trip. A responder that has the request drops the copy (docs/wire.md).
#include "qp/send/requester_impl.h"
#include "wire/read_copy.h"

namespace brdma::qp {

using bitmap::EntryState;

// Copies the READ before `next`, another READ request that is about to leave; each once. False: the copy does not fit
// into the batch any more.
bool Requester::Impl::copy_last_request(const wire::Packet& next, TransmitBatch& batch, Instant now) {
  if (responses.copies_left() == 0 || !id.bitmap_agreed || !id.peer_knows_copies || messages.size() < 2) return true;
  if (messages.back().kind != MessageKind::kRead) return true;  // a longer packet could not follow in one batch
  Message& last = messages[messages.size() - 2];
  if (last.kind != MessageKind::kRead || last.request_received || last.copied) return true;
  const bitmap::SendEntry& entry = scoreboard.entry(last.first);
  if (last.first < scoreboard.base() || entry.state != EntryState::kSentUnacked || entry.transmissions != 1)
    return true;
  wire::Packet copy;
  builder().request(copy, last, last.first, last.packets, true, now);
  wire::mark_copy(copy);
  const std::size_t bytes = TransmitBatch::packet_bytes(copy, 0);
  if (!batch.fits(bytes, 0, copy.bitmap)) return false;
  if (paths) [[unlikely]]
    paths->put_fields(copy, batch.path(), last.packets, true, now);
  batch.add(copy, {}, 0);
  last.copied = true;
  responses.on_copied();
  env.count(Counter::kReadsCopied);
  trace_sent(env, id, copy, bytes, true, now);
  return batch.fits(TransmitBatch::packet_bytes(next, 0), 0, next.bitmap);
}

}  // namespace brdma::qp
