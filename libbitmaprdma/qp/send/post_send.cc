// Posting: the request is checked and copied; nothing is looked up in memory tables yet (a bad key is a completion with
// an error, not a failed post).
#include <cerrno>
#include <limits>

#include "qp/send/requester_impl.h"
#include "qp/state/limits.h"

namespace brdma::qp {
namespace {

bool known(WorkOpcode opcode) {
  return opcode <= WorkOpcode::kSendWithInvalidate || opcode == WorkOpcode::kFlush ||
         opcode == WorkOpcode::kAtomicWrite;
}
bool is_atomic(WorkOpcode opcode) {
  return opcode == WorkOpcode::kAtomicCmpSwap || opcode == WorkOpcode::kAtomicFetchAdd;
}
bool is_confirmed(WorkOpcode opcode) { return opcode == WorkOpcode::kFlush || opcode == WorkOpcode::kAtomicWrite; }
// WRITEs and SENDs: a scatter list to send needs no further check.
bool only_sends(WorkOpcode opcode) { return opcode <= WorkOpcode::kSendWithImm; }
bool has_result(WorkOpcode opcode) { return opcode == WorkOpcode::kRdmaRead || is_atomic(opcode); }
bool has_response(WorkOpcode opcode) { return has_result(opcode) || is_confirmed(opcode); }
bool is_inline(const SendRequest& request) { return (request.flags & kSendInline) != 0; }

// is_valid() for the common case: a WRITE or SEND from one piece of memory.
bool plainly_valid(const SendRequest& request) {
  return only_sends(request.opcode) && (request.flags & ~(kSendFence | kSendSignaled | kSendSolicited)) == 0 &&
         request.sges.size() == 1 && request.sges.front().length <= kMessageBytesMax;
}

constexpr std::uint32_t kAtomicBytes = 8;

// An ATOMIC WRITE has 8 bytes to send and an aligned place for them (IBTA 1.5, oA19-28), a FLUSH has none to send.
bool confirmed_valid(const SendRequest& request, std::uint32_t length) {
  if (request.opcode == WorkOpcode::kAtomicWrite)
    return length == kAtomicBytes && request.remote_address % kAtomicBytes == 0;
  const auto placement = request.swap & 0xFF, selectivity = request.swap >> 8;
  constexpr std::uint64_t kPlacements = wire::kFlushGlobal | wire::kFlushPersistent;
  return length == 0 && placement != 0 && (placement & ~kPlacements) == 0 && selectivity <= wire::kFlushRegion &&
         request.compare_or_add <= std::numeric_limits<std::uint32_t>::max();
}

// The scatter list. `length`: of all its entries.
bool list_valid(const Identity& id, const SendRequest& request, std::uint32_t& length) {
  // The count before anything is read: a wild one leads out of the caller's list. Inline data is copied now, so the
  // number of entries does not matter for it.
  if (request.sges.size() > (is_inline(request) ? kSgesMax : id.capabilities.send_sge_max)) return false;
  std::uint64_t sum = 0;
  for (const Sge& sge : request.sges) sum += sge.length;
  if (sum > kMessageBytesMax) return false;
  length = static_cast<std::uint32_t>(sum);
  return true;
}

// An atomic's result has one place, of 8 bytes at least. `length`: of the list, then of the result.
bool atomic_valid(const SendRequest& request, std::uint32_t& length) {
  if (request.sges.size() != 1 || length < kAtomicBytes) return false;
  length = kAtomicBytes;
  return true;
}

// An XRC target has no send queue; an initiator's request names an SRQ, of 24 bits.
bool xrc_valid(const Identity& id, const SendRequest& request) {
  return id.xrc == XrcRole::kNone || (id.xrc == XrcRole::kInitiator && request.remote_qpn <= 0xFF'FFFF);
}

// `length`: of the whole message.
bool is_valid(const Identity& id, const SendRequest& request, std::uint32_t& length) {
  if (!xrc_valid(id, request)) return false;
  constexpr std::uint32_t kFlags = kSendFence | kSendSignaled | kSendSolicited | kSendInline;
  const WorkOpcode opcode = request.opcode;
  if (!known(opcode) || (request.flags & ~kFlags) != 0) return false;
  const bool inlined = is_inline(request);
  // Nothing to send or to place: local operations have neither.
  if (is_local(opcode)) return !inlined && request.sges.empty();
  if (!list_valid(id, request, length)) return false;
  if (only_sends(opcode) && !inlined) [[likely]]
    return true;
  if (has_response(opcode) && id.attributes.max_rd_atomic == 0) return false;
  if (is_confirmed(opcode) && !confirmed_valid(request, length)) return false;
  // READs and atomics have nothing to copy.
  if (inlined) return !has_result(opcode) && length <= id.capabilities.inline_bytes_max;
  return !is_atomic(opcode) || atomic_valid(request, length);
}

}  // namespace

Status Requester::post_send(std::span<const SendRequest> requests, std::size_t& posted) {
  Impl& me = impl();
  std::uint32_t length = 0;
  for (posted = 0; posted < requests.size(); ++posted) {
    const SendRequest& request = requests[posted];
    if (plainly_valid(request) && me.id.xrc == XrcRole::kNone) [[likely]] {
      length = request.sges.front().length;
    } else if (!is_valid(me.id, request, length)) {
      return Status{EINVAL};
    }
    if (me.queue.full()) return Status{ENOMEM};
    if (!me.queue.push(request, length)) return Status{EFAULT};
  }
  return Status::success();
}

Status Requester::check_send(std::span<const SendRequest> requests) const {
  std::uint32_t length = 0;
  for (const SendRequest& request : requests) {
    if (!is_valid(impl_->id, request, length)) return Status{EINVAL};
  }
  return requests.size() > impl_->queue.room() ? Status{ENOMEM} : Status::success();
}

}  // namespace brdma::qp
