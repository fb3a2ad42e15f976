// Data that the peer, a process of the same host, fetches from memory: packets say where it is (docs/local.md). A
// message that is sent so is cut into packets of up to kFetchBytesMax, each a message of the table. And the other way
// round: answers to READs that say where our data is.
#include <algorithm>

#include "qp/fetch.h"
#include "qp/local_path.h"
#include "qp/requester_impl.h"

namespace brdma::qp {
namespace {

bool may_describe(const Environment& env, std::uint32_t bytes) {
  const TransferConfig& config = env.config.transfer;
  return config.local && bytes >= std::max(config.local_threshold_bytes, 1u);
}

}  // namespace

bool Requester::Impl::worth_describing(const SendWqe& wqe) const {
  return may_describe(env, wqe.length) && !wqe.inlined;
}

// Of what is cut already the rest goes the same way.
bool Requester::Impl::describes(const SendWqe& wqe) const {
  if (read_cut != 0) return true;
  return id.local->agreed() && id.bitmap_agreed && worth_describing(wqe);
}

std::uint32_t Requester::Impl::describable() const {
  const std::uint64_t number = queue.next();
  if (!describes(queue[number])) return 0;
  std::uint32_t bytes = 0, pieces = 0, skipped = read_cut;
  for (const Sge& sge : queue.sges(number)) {
    if (skipped >= sge.length) {
      skipped -= sge.length;
      continue;
    }
    bytes += std::min(sge.length - skipped, kFetchBytesMax - bytes);
    skipped = 0;
    if (++pieces == wire::Description::kPiecesMax || bytes == kFetchBytesMax) break;
  }
  return read_cut == 0 && bytes < pieces * kFetchPieceBytesMin ? 0 : bytes;
}

void Requester::Impl::begin_described(Message& message, const SendWqe& wqe, std::uint32_t bytes) {
  std::uint32_t pieces = 0, from = read_cut;
  const std::uint32_t end = read_cut + bytes;
  std::uint32_t at = 0;
  for (const Sge& sge : queue.sges(message.wqe)) {
    if (at + sge.length > from && at < end && sge.length > 0) ++pieces;
    at += sge.length;
  }
  message.packets = 1;
  message.offset = read_cut;
  message.described = bytes;
  message.length = static_cast<std::uint32_t>(wire::description_size(pieces));
  message.last_of_wqe = end == wqe.length;
  read_cut = message.last_of_wqe ? 0 : end;
}

// A READ may change from one to the other between its chunks.
bool Requester::Impl::next_read_is_described() const {
  if (id.local == nullptr) [[likely]]
    return false;
  return id.local->agreed() && id.bitmap_agreed && may_describe(env, queue[queue.next()].length);
}

std::span<const Slice> Requester::Impl::DescriptionBuffer::describe(std::uint64_t key, std::span<const Slice> data) {
  std::array<LocalPiece, wire::Description::kPiecesMax> pieces;
  std::size_t count = 0;
  for (const Slice& slice : data) {
    pieces[count++] = {reinterpret_cast<std::uintptr_t>(slice.data), static_cast<std::uint32_t>(slice.size)};
  }
  slice_ = {bytes_.data(), wire::emit_description(key, {pieces.data(), count}, bytes_.data())};
  return {&slice_, 1};
}

// The peer could not fetch what this message described: because it is not there?
bool Requester::Impl::has_described(const Message& message) const {
  env.memory.be_careful();
  PayloadCursor cursor(env.memory, id.pd, 0);
  cursor.seek(queue, message.wqe, message.offset);
  return cursor.take(message.described);
}

// False: the answer is not used. Where the peer is gone it may come again, and the time for it runs out.
bool Requester::Impl::fetch_answer(const wire::Packet& packet, const Message& message) {
  const auto description = admitted(id, packet.payload);
  if (!description || description->bytes != message.described) {
    env.drop(DropReason::kBadDescription);
    return false;
  }
  PayloadCursor cursor(env.memory, id.pd, kAccessLocalWrite);
  cursor.seek(queue, message.wqe, message.offset);
  if (!cursor.take(message.described)) {
    env.drop(DropReason::kFault);
    break_locally(message.wqe, CompletionStatus::kLocalProtectionError);
    return false;
  }
  switch (fetch(env, id, *description, cursor.slices())) {
    case FetchResult::kDone:
      return true;
    case FetchResult::kGone:
      env.drop(DropReason::kFetchFailed);
      return false;
    case FetchResult::kFault:
      env.drop(DropReason::kFetchFailed);
      env.count(Counter::kFetchFaults);
      break_locally(message.wqe, all_writable(cursor.slices()) ? CompletionStatus::kRemoteOperationError
                                                               : CompletionStatus::kLocalProtectionError);
      return false;
  }
  return false;
}

}  // namespace brdma::qp
