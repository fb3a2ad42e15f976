// qp/respond/resend_responses.cc - a switch reports a dropped response (spec 5: sender). Responses are resent from
// memory, before waiting ones, with all checks of the first time; acknowledgements and feedback are sent again. Handles
// reports about its own queue pair only; each is compared with the transmissions (response_log.h).
#include <algorithm>

#include "qp/receive/responder_impl.h"

namespace brdma::qp {
namespace {

// As after an EDN about requests (handle_feedback.cc): for so many quiet times the peer may request without knowing.
constexpr std::int64_t kQuietTimes = 4;
// One report covers a run of drops; a longer one is forged, or leaves the rest to the requester.
constexpr std::uint32_t kNamedMost = 1024;

}  // namespace

void Responder::Impl::make_response_log() {
  if (!response_log) response_log = std::make_unique<ResponseLog>(identity.attributes.max_dest_rd_atomic);
}

void Responder::Impl::log_response(const Response& response, bool is_read) {
  if (!response.bitmap || !recovery().edn || response.by_reference) return;  // the last is unknown: the peer requests
  make_response_log();
  response_log->answered({.first = response.psn,
                          .packets = response_packets(response.bytes_left, mtu),
                          .bytes = response.bytes_left,
                          .rkey = response.rkey,
                          .address = response.address,
                          .message = response.message,
                          .packet_index = response.packet_index,
                          .is_read = is_read,
                          .since = last_call});
}

std::uint64_t Responder::Impl::handle_edn(const wire::Edn& edn, Instant now) {
  last_call = now;
  const std::int32_t ahead = distance(edn.first, base());
  if (halted || !started || (edn.responses && ahead >= 0)) {  // of a request that has not come
    env.count(Counter::kEdnStale);
    return 0;
  }
  if (edn.acknowledgement) {
    resend_responses(edn, now);
    return 0;
  }
  make_response_log();
  const auto named = static_cast<std::uint32_t>(distance(edn.last, edn.first)) + 1;
  const std::uint32_t looked_at = std::min({named, static_cast<std::uint32_t>(-ahead), kNamedMost});
  if (looked_at < named) env.count(Counter::kEdnPacketsUnsent, named - looked_at);
  ResentResponse all;
  for (std::uint32_t done = 0; done < looked_at;) {
    const std::uint32_t run = response_again(edn, done, looked_at, all, now);
    done += std::max(run, 1u);
  }
  if (!all.known) env.count(Counter::kEdnResponses);
  return all.bytes;
}

// From packet `place` of the reported range, at most up to `end`: the packets that are resent together. Returns how
// many were looked at; 0: nothing is known of that one.
std::uint32_t Responder::Impl::response_again(const wire::Edn& edn, std::uint32_t place, std::uint32_t end,
                                              ResentResponse& all, Instant now) {
  const Psn psn = edn.first + place;
  const SentResponse* const answered = response_log->find(psn);
  if (answered == nullptr) return atomic_again(edn, place, all, now);
  all.known = true;
  const auto offset = static_cast<std::uint32_t>(distance(psn, answered->first));
  const std::uint32_t most = std::min(end - place, answered->packets - offset);
  std::uint32_t run = 0;
  while (run < most && may_leave_again(edn, place + run, answered->since, now)) ++run;
  const std::uint32_t judged = run < most ? run + 1 : run;
  if (run == 0) return judged;
  if (answered->is_read && (identity.attributes.access & kAccessRemoteRead) == 0) {
    env.count(Counter::kEdnPacketsGone, run);
    return judged;
  }
  if (!resources.room_for_replay()) {  // the requester will re-request
    env.count(Counter::kEdnPacketsPending, run);
    return judged;
  }
  Response response;
  response.kind = Response::Kind::kRead;
  response.bitmap = response.replay = response.unasked = true;
  response.psn = psn;
  response.msn = msn;
  response.rkey = answered->rkey;
  response.address = answered->address + std::uint64_t{offset} * mtu;
  response.bytes_left = std::min(answered->bytes - offset * mtu, run * mtu);
  response.message = answered->message;
  response.packet_index = (answered->packet_index + offset) & Psn::kMask;
  resources.push_first(response);
  all.bytes += response.bytes_left;
  return judged;
}

std::uint32_t Responder::Impl::atomic_again(const wire::Edn& edn, std::uint32_t place, ResentResponse& all,
                                            Instant now) {
  const auto* const result = resources.find_atomic(edn.first + place);
  if (result == nullptr || !speaks_bitmap()) return 0;
  all.known = true;
  if (!may_leave_again(edn, place, Instant{}, now)) return 0;
  if (!resources.room_for_replay()) {
    env.count(Counter::kEdnPacketsPending);
    return 1;
  }
  Response response;
  response.kind = Response::Kind::kAtomic;
  response.bitmap = response.replay = response.unasked = true;
  response.psn = result->psn;
  response.msn = result->msn;
  response.original = result->original;
  resources.push_first(response);
  return 1;
}

bool Responder::Impl::may_leave_again(const wire::Edn& edn, std::uint32_t place, Instant since, Instant now) const {
  const Psn psn = edn.first + place;
  if (resources.will_response(psn, 1, mtu)) {
    env.count(Counter::kEdnPacketsPending);
    return false;
  }
  DroppedResponse dropped{.psn = psn, .first = place == 0, .transmitted = {}, .full = edn.drain > Duration{}};
  if (edn.timestamp) dropped.transmitted = wire::instant_of(*edn.timestamp, now);
  if (response_log->judge(dropped, since, recovery().resend_interval_min, now) == recovery::RequestVerdict::kResend)
    return true;
  env.count(Counter::kEdnPacketsRecent);
  return false;
}

// The peer re-requests a missing response. It has not seen yet the one just resent after a switch's report.
bool Responder::Impl::just_sent_again(Psn psn, std::uint32_t count, Instant now) const {
  if (!response_log) return false;
  const Duration quiet = std::max(recovery().resend_interval_min, feedback_rtt.smoothed());
  if (!response_log->resent_unasked(psn, count, now - quiet * kQuietTimes)) return false;
  env.count(Counter::kReplaysEdn);
  return true;
}

void Responder::Impl::note_sent_again(const Response& response, Instant now) {
  if (response.unasked) env.count(Counter::kRetransmittedEdn);
  if (response_log) response_log->sent_again(response.psn, response.unasked, now);
}

// Instead of a dropped acknowledgement a new one leaves, which covers it. Not if a later one has left, nor if the
// report is of one never sent.
void Responder::Impl::resend_responses(const wire::Edn& edn, Instant now) {
  const std::int32_t beyond = distance(edn.first, window.empty() ? base() : window.highest());
  const std::int32_t behind = distance(edn.last, ack.reported() - 1);  // a standard ACK has the PSN before the base
  if (!established || beyond > 0 || behind < 0) return env.count(Counter::kEdnStale);
  env.count(Counter::kEdnAcks);
  ack.force(now);
}

// Resent data may have carried an acknowledgement: it carries the present one.
void Responder::Impl::repeat_with_data() {
  if (established && !halted) ack.repeat_with_data();
}

}  // namespace brdma::qp
