// Receiver of data by reference (docs/local.md): WRITEs and SENDs are executed only in order, so an early packet is
// held as its reference.
#include "qp/receive/fetch_local.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "memory/copy.h"
#include "qp/receive/responder_impl.h"
#include "qp/state/limits.h"
#include "qp/state/local_path.h"

namespace brdma::qp {

std::optional<wire::LocalReference> admitted(const Identity& identity, ConstBytes payload) {
  if (identity.local == nullptr || !identity.local->fetches) return std::nullopt;
  auto reference = wire::parse_reference(payload);
  if (reference && reference->key != identity.local->peer_key()) return std::nullopt;
  return reference;
}

FetchResult fetch(const Environment& environment, const Identity& identity, const wire::LocalReference& from,
                  std::span<const Slice> to) {
  const FetchResult result = environment.config.local_memory->fetch(identity.local->peer, from.pieces(), to);
  if (result != FetchResult::kDone) return result;
  environment.count(Counter::kFetches);
  environment.count(Counter::kFetchedBytes, from.bytes);
  return result;
}

bool all_writable(std::span<const Slice> slices) {
  return std::ranges::all_of(
      slices, [](const Slice& slice) { return memory::can_write(const_cast<void*>(slice.data), slice.size); });
}

// A packet that is not admitted is dropped before any effect: its sender is not the peer, or no peer of ours.
bool Responder::Impl::admits_reference(const wire::Packet& packet) const {
  if (packet.op == wire::RcOp::kReadRequest) {
    const LocalPath* const local = identity.local;
    return local != nullptr && local->peer_fetches && packet.reth.length >= 1 &&
           packet.reth.length <= wire::LocalReference::kBytesMax;
  }
  return (wire::is_write(packet.op) || wire::is_send(packet.op)) && admitted(identity, packet.payload).has_value();
}

Verdict Responder::Impl::verdict_of(FetchResult result) const {
  switch (result) {
    case FetchResult::kDone:
      return Verdict::kDone;
    case FetchResult::kGone:
      return Verdict::kNotFetched;
    case FetchResult::kFault:
      break;
  }
  env.count(Counter::kFetchFaults);
  return Verdict::kOperationError;
}

// `to`: the memory of the data of this packet, if known.
Verdict Responder::Impl::fetch_write(const wire::Packet& packet, std::byte* to) {
  const auto reference = admitted(identity, packet.payload);
  if (!reference) return Verdict::kNotFetched;  // no longer agreed
  if (to == nullptr) {
    const auto fault = env.memory.resolve(identity.accessor(), message.reth.rkey, message.reth.address + message.bytes,
                                          reference->bytes, kAccessRemoteWrite, &to);
    if (fault != memory::Fault::kNone) return Verdict::kAccessError;
  }
  if (out_of_order != nullptr && out_of_order->early.any_placed()) [[unlikely]]
    return fetch_uncovered(packet, *reference, to);
  // The end last, as in copy_end_last(): after all data has been fetched without error.
  alignas(8) std::array<std::byte, 8> end;
  const std::size_t kept = std::min<std::size_t>(end.size(), reference->bytes), before = reference->bytes - kept;
  const std::array<Slice, 2> both{Slice{to, before}, Slice{end.data(), kept}};
  const std::span<const Slice> slices{before == 0 ? &both[1] : both.data(), before == 0 ? 1u : 2u};
  const Verdict verdict = verdict_of(fetch(env, identity, *reference, slices));
  if (verdict == Verdict::kDone)
    return copy_end_last(to + before, ConstBytes{end.data(), kept}) ? verdict : Verdict::kAccessError;
  return verdict == Verdict::kOperationError && !all_writable(slices) ? Verdict::kAccessError : verdict;
}

// Packets of later PSNs may have been written here already: fetches piece by piece around them.
Verdict Responder::Impl::fetch_uncovered(const wire::Packet& packet, const wire::LocalReference& all, std::byte* to) {
  std::array<std::byte, 1024> step;  // rarely used, and on the stack of whichever thread polls
  const std::size_t most = std::min<std::size_t>(step.size(), mtu);
  for (const LocalPiece& piece : all.pieces()) {
    for (std::uint32_t done = 0; done < piece.length;) {
      wire::LocalReference part;
      part.piece_count = 1;
      part.bytes = static_cast<std::uint32_t>(std::min<std::size_t>(piece.length - done, most));
      part.piece[0] = {piece.address + done, part.bytes};
      const Slice slice{step.data(), part.bytes};
      const Verdict verdict = verdict_of(fetch(env, identity, part, {&slice, 1}));
      if (verdict != Verdict::kDone) return verdict;
      if (!copy_uncovered(out_of_order, packet.bth.psn, to, ConstBytes{step.data(), part.bytes}))
        return Verdict::kAccessError;
      done += part.bytes;
      to += part.bytes;
    }
  }
  return Verdict::kDone;
}

Verdict Responder::Impl::fetch_send(const wire::Packet& packet, memory::Fault& own_fault) {
  own_fault = memory::Fault::kNone;
  const auto reference = admitted(identity, packet.payload);
  if (!reference) return Verdict::kNotFetched;
  std::array<Slice, kSgesMax> slices;
  std::size_t count = 0;
  own_fault = receives.resolve(env.memory, identity.pd, 0, message.bytes, reference->bytes, slices, count);
  if (own_fault != memory::Fault::kNone) return Verdict::kOperationError;
  const std::span<const Slice> all{slices.data(), count};
  const Verdict verdict = verdict_of(fetch(env, identity, *reference, all));
  if (verdict == Verdict::kOperationError && !all_writable(all)) own_fault = memory::Fault::kNotThere;
  return verdict;
}

// A READ response by reference: one packet with the location of all data. Its key was looked up just now, as for data.
Responder::Impl::Sending Responder::Impl::send_by_reference(Response& response, TransmitBatch& batch, Instant now) {
  wire::Packet packet = response_packet(response, wire::RcOp::kReadResponseOnly, now);
  packet.bxth.operation = wire::Bxth::kByReference;
  const std::size_t size = wire::reference_size(1);
  if (!batch.fits(TransmitBatch::packet_bytes(packet, size), 1, true)) return Sending::kFull;
  std::byte* data = nullptr;
  const auto fault = env.memory.resolve(identity.accessor(), response.rkey, response.address, response.bytes_left,
                                        kAccessRemoteRead, &data);
  if (fault != memory::Fault::kNone) {
    refuse_read(response);
    return Sending::kMore;
  }
  if (identity.local == nullptr) return Sending::kStale;
  std::array<std::byte, wire::kReferenceSizeMax> bytes;
  const LocalPiece piece{reinterpret_cast<std::uintptr_t>(data), response.bytes_left};
  const Slice slice{bytes.data(), wire::emit_reference(identity.local->own_key(), {&piece, 1}, bytes.data())};
  fill_path_fields(packet, response, batch);
  batch.add(packet, {&slice, 1}, size);
  env.count(Counter::kByReference);
  count_response(packet, response, size, now);
  if (response.replay) note_sent_again(response, now);
  return Sending::kDone;
}

}  // namespace brdma::qp
