#include "qp/read/request_copies.h"

#include "qp/send/packet_builder.h"
#include "wire/read_copy.h"

namespace brdma::qp {

using bitmap::EntryState;

Message* RequestCopies::last() const {
  MessageTable& messages = parts_.messages;
  const Identity& id = parts_.id;
  if (parts_.responses.copies_left() == 0 || !id.bitmap_agreed || !id.peer_knows_copies || messages.size() < 2)
    return nullptr;
  if (messages.back().kind != MessageKind::kRead) return nullptr;  // a longer packet could not follow in one batch
  Message& last = messages[messages.size() - 2];
  if (last.kind != MessageKind::kRead || last.request_received || last.copied) return nullptr;
  const bitmap::SendEntry& entry = parts_.scoreboard.entry(last.first);
  const bool sent_once = entry.state == EntryState::kSentUnacked && entry.transmissions == 1;
  return last.first >= parts_.scoreboard.base() && sent_once ? &last : nullptr;
}

bool RequestCopies::copy_last(const wire::Packet& next, TransmitBatch& batch, Instant now) const {
  Message* const last = this->last();
  if (last == nullptr) return true;
  wire::Packet copy;
  PacketBuilder{parts_.id, parts_.queue, parts_.scoreboard}.request(copy, *last, last->first, last->packets, true, now);
  wire::mark_copy(copy);
  const std::size_t bytes = TransmitBatch::packet_bytes(copy, 0);
  if (!batch.fits(bytes, 0, copy.bitmap)) return false;
  if (parts_.paths != nullptr) [[unlikely]]
    parts_.paths->put_fields(copy, batch.path(), last->packets, true, now);
  batch.add(copy, {}, 0);
  last->copied = true;
  parts_.responses.on_copied();
  parts_.env.count(Counter::kReadsCopied);
  trace_sent(parts_.env, parts_.id, copy, bytes, true, now);
  return batch.fits(TransmitBatch::packet_bytes(next, 0), 0, next.bitmap);
}

}  // namespace brdma::qp
