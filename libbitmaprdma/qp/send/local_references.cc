#include "qp/send/local_references.h"

#include <algorithm>

#include "qp/execute/fetch_local.h"
#include "qp/queues/payload_cursor.h"

namespace brdma::qp {

bool LocalReferences::peer_fetches() const { return parts_.id.local->agreed() && parts_.id.bitmap_agreed; }

// The rest of a message already cut leaves by reference, too.
std::uint32_t LocalReferences::bytes_of_next() const {
  const SendQueue& queue = parts_.queue;
  const std::uint64_t number = queue.next();
  if (parts_.cut == 0 && !(peer_fetches() && is_worth_one(queue[number]))) return 0;
  std::uint32_t bytes = 0, pieces = 0, skipped = parts_.cut;
  for (const Sge& sge : queue.sges(number)) {
    if (skipped >= sge.length) {
      skipped -= sge.length;
      continue;
    }
    bytes += std::min(sge.length - skipped, kFetchBytesMax - bytes);
    skipped = 0;
    if (++pieces == wire::LocalReference::kPiecesMax || bytes == kFetchBytesMax) break;
  }
  return parts_.cut == 0 && bytes < pieces * kFetchPieceBytesMin ? 0 : bytes;
}

void LocalReferences::begin(Message& message, const SendWqe& wqe, std::uint32_t bytes) const {
  const std::uint32_t from = parts_.cut, end = from + bytes;
  std::uint32_t pieces = 0;
  std::uint32_t at = 0;
  for (const Sge& sge : parts_.queue.sges(message.wqe)) {
    if (at + sge.length > from && at < end && sge.length > 0) ++pieces;
    at += sge.length;
  }
  message.packets = 1;
  message.offset = from;
  message.by_reference = bytes;
  message.length = static_cast<std::uint32_t>(wire::reference_size(pieces));
  message.last_of_wqe = end == wqe.length;
  parts_.cut = message.last_of_wqe ? 0 : end;
}

std::span<const Slice> ReferenceBuffer::make(std::uint64_t key, std::span<const Slice> data) {
  std::array<LocalPiece, wire::LocalReference::kPiecesMax> pieces;
  std::size_t count = 0;
  for (const Slice& slice : data) {
    pieces[count++] = {reinterpret_cast<std::uintptr_t>(slice.data), static_cast<std::uint32_t>(slice.size)};
  }
  slice_ = {bytes_.data(), wire::emit_reference(key, {pieces.data(), count}, bytes_.data())};
  return {&slice_, 1};
}

bool LocalReferences::are_there(const Message& message) const {
  parts_.env.memory.be_careful();
  PayloadCursor cursor(parts_.env.memory, parts_.id.pd, 0);
  cursor.seek(parts_.queue, message.wqe, message.offset);
  return cursor.take(message.by_reference);
}

bool LocalReferences::fetch_response(const wire::Packet& packet, const Message& message, SendFault& fault) const {
  Environment& env = parts_.env;
  const Identity& id = parts_.id;
  const auto reference = admitted(id, packet.payload);
  if (!reference || reference->bytes != message.by_reference) {
    env.drop(DropReason::kBadDescription);
    return false;
  }
  PayloadCursor cursor(env.memory, id.pd, kAccessLocalWrite);
  cursor.seek(parts_.queue, message.wqe, message.offset);
  if (!cursor.take(message.by_reference)) {
    env.drop(DropReason::kFault);
    fault.set(message.wqe, CompletionStatus::kLocalProtectionError);
    return false;
  }
  switch (fetch(env, id, *reference, cursor.slices())) {
    case FetchResult::kDone:
      return true;
    case FetchResult::kGone:
      env.drop(DropReason::kFetchFailed);
      return false;
    case FetchResult::kFault:
      env.drop(DropReason::kFetchFailed);
      env.count(Counter::kFetchFaults);
      fault.set(message.wqe, all_writable(cursor.slices()) ? CompletionStatus::kRemoteOperationError
                                                           : CompletionStatus::kLocalProtectionError);
      return false;
  }
  return false;
}

}  // namespace brdma::qp
