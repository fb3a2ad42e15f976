#include "qp/execute/fetch_local.h"

#include <algorithm>
#include <array>

#include "memory/copy.h"
#include "qp/state/limits.h"
#include "qp/state/local_path.h"

namespace brdma::qp {

std::optional<wire::LocalReference> admitted(const Identity& identity, ConstBytes payload) {
  if (identity.local == nullptr || !identity.local->fetches) return std::nullopt;
  auto reference = wire::parse_reference(payload);
  if (reference && reference->key != identity.local->peer_key()) return std::nullopt;
  return reference;
}

FetchResult fetch(Environment& environment, const Identity& identity, const wire::LocalReference& from,
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

bool LocalFetch::admits(const wire::Packet& packet) const {
  if (packet.op == wire::RcOp::kReadRequest) {
    const LocalPath* const local = parts_.identity.local;
    return local != nullptr && local->peer_fetches && packet.reth.length >= 1 &&
           packet.reth.length <= wire::LocalReference::kBytesMax;
  }
  return (wire::is_write(packet.op) || wire::is_send(packet.op)) &&
         admitted(parts_.identity, packet.payload).has_value();
}

Verdict LocalFetch::fetched(const wire::LocalReference& from, std::span<const Slice> to) const {
  switch (fetch(parts_.env, parts_.identity, from, to)) {
    case FetchResult::kDone:
      return Verdict::kDone;
    case FetchResult::kGone:
      return Verdict::kNotFetched;
    case FetchResult::kFault:
      break;
  }
  parts_.env.count(Counter::kFetchFaults);
  return Verdict::kOperationError;
}

Verdict LocalFetch::write(const wire::Packet& packet, const Place& place) const {
  const auto reference = admitted(parts_.identity, packet.payload);
  if (!reference) return Verdict::kNotFetched;  // no longer agreed
  std::byte* to = place.memory;
  if (to == nullptr) {
    const auto fault = parts_.env.memory.resolve(parts_.identity.accessor(), place.rkey, place.address,
                                                 reference->bytes, kAccessRemoteWrite, &to);
    if (fault != memory::Fault::kNone) return Verdict::kAccessError;
  }
  if (parts_.out_of_order != nullptr && parts_.out_of_order->early.any_placed()) [[unlikely]]
    return uncovered(packet.bth.psn, *reference, to);
  // The end last, as in copy_end_last(): after all data has been fetched without error.
  alignas(8) std::array<std::byte, 8> end;
  const std::size_t kept = std::min<std::size_t>(end.size(), reference->bytes), before = reference->bytes - kept;
  const std::array<Slice, 2> both{Slice{to, before}, Slice{end.data(), kept}};
  const std::span<const Slice> slices{before == 0 ? &both[1] : both.data(), before == 0 ? 1u : 2u};
  const Verdict verdict = fetched(*reference, slices);
  if (verdict == Verdict::kDone)
    return copy_end_last(to + before, ConstBytes{end.data(), kept}) ? verdict : Verdict::kAccessError;
  return verdict == Verdict::kOperationError && !all_writable(slices) ? Verdict::kAccessError : verdict;
}

// Packets of later PSNs may have been written here already: fetches piece by piece around them.
Verdict LocalFetch::uncovered(Psn psn, const wire::LocalReference& all, std::byte* to) const {
  std::array<std::byte, 1024> step;  // rarely used, and on the stack of whichever thread polls
  const std::size_t most = std::min<std::size_t>(step.size(), parts_.mtu);
  for (const LocalPiece& piece : all.pieces()) {
    for (std::uint32_t done = 0; done < piece.length;) {
      wire::LocalReference part;
      part.piece_count = 1;
      part.bytes = static_cast<std::uint32_t>(std::min<std::size_t>(piece.length - done, most));
      part.piece[0] = {piece.address + done, part.bytes};
      const Slice slice{step.data(), part.bytes};
      const Verdict verdict = fetched(part, {&slice, 1});
      if (verdict != Verdict::kDone) return verdict;
      const ConstBytes bytes{step.data(), part.bytes};
      if (!copy_uncovered(parts_.out_of_order, psn, to, bytes)) return Verdict::kAccessError;
      done += part.bytes;
      to += part.bytes;
    }
  }
  return Verdict::kDone;
}

Verdict LocalFetch::send(const wire::Packet& packet, const ReceiveQueue& receives, std::uint64_t offset,
                         memory::Fault& own_fault) const {
  own_fault = memory::Fault::kNone;
  const auto reference = admitted(parts_.identity, packet.payload);
  if (!reference) return Verdict::kNotFetched;
  std::array<Slice, kSgesMax> slices;
  std::size_t count = 0;
  own_fault = receives.resolve(parts_.env.memory, parts_.identity.pd, 0, offset, reference->bytes, slices, count);
  if (own_fault != memory::Fault::kNone) return Verdict::kOperationError;
  const std::span<const Slice> all{slices.data(), count};
  const Verdict verdict = fetched(*reference, all);
  if (verdict == Verdict::kOperationError && !all_writable(all)) own_fault = memory::Fault::kNotThere;
  return verdict;
}

}  // namespace brdma::qp
