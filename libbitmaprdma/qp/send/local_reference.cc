// Local transfer by reference: the peer, a process of the same host, fetches the data from memory; packets carry its
// location (docs/local.md). Such a message is cut into packets of up to kFetchBytesMax, each a message of the table. In
// the other direction: READ responses with references to our data.
#include <algorithm>

#include "qp/receive/fetch_local.h"
#include "qp/send/requester_impl.h"
#include "qp/state/local_path.h"

namespace brdma::qp {
namespace {

bool may_send_by_reference(const Environment& env, std::uint32_t bytes) {
  const TransferConfig& config = env.config.transfer;
  return config.local && bytes >= std::max(config.local_threshold_bytes, 1u);
}

}  // namespace

bool Requester::Impl::worth_a_reference(const SendWqe& wqe) const {
  return may_send_by_reference(env, wqe.length) && !wqe.inlined;
}

// The rest of a message already cut leaves by reference, too.
bool Requester::Impl::sends_by_reference(const SendWqe& wqe) const {
  if (read_cut != 0) return true;
  return id.local->agreed() && id.bitmap_agreed && worth_a_reference(wqe);
}

std::uint32_t Requester::Impl::referable() const {
  const std::uint64_t number = queue.next();
  if (!sends_by_reference(queue[number])) return 0;
  std::uint32_t bytes = 0, pieces = 0, skipped = read_cut;
  for (const Sge& sge : queue.sges(number)) {
    if (skipped >= sge.length) {
      skipped -= sge.length;
      continue;
    }
    bytes += std::min(sge.length - skipped, kFetchBytesMax - bytes);
    skipped = 0;
    if (++pieces == wire::LocalReference::kPiecesMax || bytes == kFetchBytesMax) break;
  }
  return read_cut == 0 && bytes < pieces * kFetchPieceBytesMin ? 0 : bytes;
}

void Requester::Impl::begin_by_reference(Message& message, const SendWqe& wqe, std::uint32_t bytes) {
  std::uint32_t pieces = 0, from = read_cut;
  const std::uint32_t end = read_cut + bytes;
  std::uint32_t at = 0;
  for (const Sge& sge : queue.sges(message.wqe)) {
    if (at + sge.length > from && at < end && sge.length > 0) ++pieces;
    at += sge.length;
  }
  message.packets = 1;
  message.offset = read_cut;
  message.by_reference = bytes;
  message.length = static_cast<std::uint32_t>(wire::reference_size(pieces));
  message.last_of_wqe = end == wqe.length;
  read_cut = message.last_of_wqe ? 0 : end;
}

// A READ may switch between the two from chunk to chunk.
bool Requester::Impl::next_read_is_by_reference() const {
  if (id.local == nullptr) [[likely]]
    return false;
  return id.local->agreed() && id.bitmap_agreed && may_send_by_reference(env, queue[queue.next()].length);
}

std::span<const Slice> Requester::Impl::ReferenceBuffer::make(std::uint64_t key, std::span<const Slice> data) {
  std::array<LocalPiece, wire::LocalReference::kPiecesMax> pieces;
  std::size_t count = 0;
  for (const Slice& slice : data) {
    pieces[count++] = {reinterpret_cast<std::uintptr_t>(slice.data), static_cast<std::uint32_t>(slice.size)};
  }
  slice_ = {bytes_.data(), wire::emit_reference(key, {pieces.data(), count}, bytes_.data())};
  return {&slice_, 1};
}

// The peer could not fetch this message's references: because the memory is gone?
bool Requester::Impl::has_references(const Message& message) const {
  env.memory.be_careful();
  PayloadCursor cursor(env.memory, id.pd, 0);
  cursor.seek(queue, message.wqe, message.offset);
  return cursor.take(message.by_reference);
}

// False: the response is not used. If the peer is gone it may come again, until its time runs out.
bool Requester::Impl::fetch_response(const wire::Packet& packet, const Message& message) {
  const auto reference = admitted(id, packet.payload);
  if (!reference || reference->bytes != message.by_reference) {
    env.drop(DropReason::kBadDescription);
    return false;
  }
  PayloadCursor cursor(env.memory, id.pd, kAccessLocalWrite);
  cursor.seek(queue, message.wqe, message.offset);
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
