#include "qp/loss/refusals.h"

#include <algorithm>

#include "wire/headers.h"

namespace brdma::qp {

Refusals::Rnr Refusals::on_not_ready(std::uint8_t syndrome, Sequence at, Instant now) const {
  const Identity& id = parts_.id;
  if (parts_.rnr.waiting()) return Rnr::kRepeated;
  parts_.env.count(Counter::kReceivedRnr);
  if (parts_.rnr.on_nak(at, id.attributes.rnr_retry, id.bitmap_agreed, now + rnr_wait(syndrome))) return Rnr::kWaits;
  parts_.env.count(Counter::kRnrRetryExceeded);
  parts_.env.note(now, id.qpn, trace::EventType::kRnrRetryExceeded, parts_.scoreboard.psn_of(at).value());
  return Rnr::kTooMany;
}

void Refusals::on_sequence_nak(Sequence at, Instant now) const {
  parts_.env.count(Counter::kPacketSeqErr);
  if (parts_.rnr.waiting()) return;
  const RecoveryConfig& recovery = *parts_.id.recovery;
  const bool repeated = parts_.loss && parts_.loss->gone_back_to == at;
  const Duration since = now - parts_.scoreboard.sent_at(at, now);
  if (repeated && since < std::max(recovery.resend_interval_min, parts_.rtt.smoothed())) return;
  if (parts_.packets.retransmit_range(at, parts_.scoreboard.next(), Counter::kRetransmittedNak, now) != 0)
    parts_.packets.repairing().gone_back_to = at;
}

CompletionStatus Refusals::status(std::uint8_t syndrome, Sequence at) const {
  if (syndrome == wire::kSyndromeNakInvalidRequest) return CompletionStatus::kRemoteInvalidRequest;
  if (syndrome == wire::kSyndromeNakRemoteAccess) return CompletionStatus::kRemoteAccessError;
  if (syndrome > wire::kSyndromeNakRemoteOperation) return CompletionStatus::kBadResponse;  // not for RC, or reserved
  const Message& message = parts_.packets.message_of(at);
  const bool ours = message.by_reference != 0 && !message.answered() && !parts_.references.are_there(message);
  return ours ? CompletionStatus::kLocalProtectionError : CompletionStatus::kRemoteOperationError;
}

bool Refusals::refuses_rest(std::uint8_t syndrome, Sequence at) const {
  const bool nak = (syndrome & wire::kSyndromeKindMask) == wire::kSyndromeNakSequence;
  return nak && syndrome != wire::kSyndromeNakSequence && parts_.packets.message_of(at).answered() &&
         !parts_.scoreboard.is_acked(at);
}

}  // namespace brdma::qp
