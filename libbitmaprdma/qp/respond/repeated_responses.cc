#include "qp/respond/repeated_responses.h"

#include <optional>

#include "recovery/retransmit_request.h"
#include "wire/headers.h"

namespace brdma::qp {
namespace {

ResponseLog& made(std::unique_ptr<ResponseLog>& log, const Identity& identity) {
  if (!log) log = std::make_unique<ResponseLog>(identity.attributes.max_dest_rd_atomic);
  return *log;
}

Response repeated(Response::Kind kind, Psn psn) {
  Response response;
  response.kind = kind;
  response.bitmap = response.replay = response.unasked = true;
  response.psn = psn;
  return response;
}

}  // namespace

void log_response(std::unique_ptr<ResponseLog>& log, const Identity& identity, const Response& response, bool is_read,
                  std::uint32_t mtu, Instant since) {
  if (!response.bitmap || !identity.recovery->edn || response.by_reference) return;
  made(log, identity)
      .answered({.first = response.psn,
                 .packets = response_packets(response.bytes_left, mtu),
                 .bytes = response.bytes_left,
                 .rkey = response.rkey,
                 .address = response.address,
                 .message = response.message,
                 .packet_index = response.packet_index,
                 .is_read = is_read,
                 .since = since});
}

std::uint64_t RepeatedResponses::on_report(const wire::Edn& edn, Instant now) const {
  Environment& env = parts_.env;
  const std::int32_t ahead = distance(edn.first, parts_.window.base());
  if (!parts_.serving || (edn.responses && ahead >= 0)) {  // of a request that has not come
    env.count(Counter::kEdnStale);
    return 0;
  }
  if (edn.acknowledgement) {
    repeat_acknowledgement(edn, now);
    return 0;
  }
  made(parts_.log, parts_.identity);
  const auto named = static_cast<std::uint32_t>(distance(edn.last, edn.first)) + 1;
  const std::uint32_t looked_at = std::min({named, static_cast<std::uint32_t>(-ahead), kNamedMost});
  if (looked_at < named) env.count(Counter::kEdnPacketsUnsent, named - looked_at);
  Repeated all;
  for (std::uint32_t done = 0; done < looked_at;) {
    const std::uint32_t run = repeat(edn, done, looked_at, all, now);
    done += std::max(run, 1u);
  }
  if (!all.known) env.count(Counter::kEdnResponses);
  return all.bytes;
}

// From packet `place` of the reported range, at most up to `end`: the packets that are resent together. Returns how
// many were looked at; 0: nothing is known of that one.
std::uint32_t RepeatedResponses::repeat(const wire::Edn& edn, std::uint32_t place, std::uint32_t end, Repeated& all,
                                        Instant now) const {
  const Psn psn = edn.first + place;
  const SentResponse* const answered = parts_.log->find(psn);
  if (answered == nullptr) return repeat_atomic(edn, place, all, now);
  all.known = true;
  const auto offset = static_cast<std::uint32_t>(distance(psn, answered->first));
  const std::uint32_t most = std::min(end - place, answered->packets - offset);
  std::uint32_t run = 0;
  while (run < most && may_leave_again(edn, place + run, answered->since, now)) ++run;
  const std::uint32_t judged = run < most ? run + 1 : run;
  if (run == 0) return judged;
  if (answered->is_read && (parts_.identity.attributes.access & kAccessRemoteRead) == 0) {
    parts_.env.count(Counter::kEdnPacketsGone, run);
    return judged;
  }
  if (!parts_.resources.room_for_replay()) {  // the requester will re-request
    parts_.env.count(Counter::kEdnPacketsPending, run);
    return judged;
  }
  Response response = repeated(Response::Kind::kRead, psn);
  response.msn = parts_.msn;
  response.rkey = answered->rkey;
  response.address = answered->address + std::uint64_t{offset} * parts_.mtu;
  response.bytes_left = std::min(answered->bytes - offset * parts_.mtu, run * parts_.mtu);
  response.message = answered->message;
  response.packet_index = (answered->packet_index + offset) & Psn::kMask;
  parts_.resources.push_first(response);
  all.bytes += response.bytes_left;
  return judged;
}

std::uint32_t RepeatedResponses::repeat_atomic(const wire::Edn& edn, std::uint32_t place, Repeated& all,
                                               Instant now) const {
  const auto* const result = parts_.resources.find_atomic(edn.first + place);
  if (result == nullptr || !parts_.bitmap) return 0;
  all.known = true;
  if (!may_leave_again(edn, place, Instant{}, now)) return 0;
  if (!parts_.resources.room_for_replay()) {
    parts_.env.count(Counter::kEdnPacketsPending);
    return 1;
  }
  Response response = repeated(Response::Kind::kAtomic, result->psn);
  response.msn = result->msn;
  response.original = result->original;
  parts_.resources.push_first(response);
  return 1;
}

bool RepeatedResponses::may_leave_again(const wire::Edn& edn, std::uint32_t place, Instant since, Instant now) const {
  const Psn psn = edn.first + place;
  if (parts_.resources.will_response(psn, 1, parts_.mtu)) {
    parts_.env.count(Counter::kEdnPacketsPending);
    return false;
  }
  DroppedResponse dropped{.psn = psn, .first = place == 0, .transmitted = {}, .full = edn.drain > Duration{}};
  if (edn.timestamp) dropped.transmitted = wire::instant_of(*edn.timestamp, now);
  const Duration quiet = parts_.identity.recovery->resend_interval_min;
  if (parts_.log->judge(dropped, since, quiet, now) == recovery::RequestVerdict::kResend) return true;
  parts_.env.count(Counter::kEdnPacketsRecent);
  return false;
}

// Instead of a dropped acknowledgement a new one leaves, which covers it. Not if a later one has left, nor if the
// report is of one never sent.
void RepeatedResponses::repeat_acknowledgement(const wire::Edn& edn, Instant now) const {
  const bitmap::ReceiveWindow& window = parts_.window;
  const std::int32_t beyond = distance(edn.first, window.empty() ? window.base() : window.highest());
  const std::int32_t behind = distance(edn.last, parts_.ack.reported() - 1);  // a standard ACK: the PSN before the base
  if (!parts_.established || beyond > 0 || behind < 0) return parts_.env.count(Counter::kEdnStale);
  parts_.env.count(Counter::kEdnAcks);
  parts_.ack.force(now);
}

}  // namespace brdma::qp
