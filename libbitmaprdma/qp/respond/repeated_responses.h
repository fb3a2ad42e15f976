// qp/respond/repeated_responses.h - private: a switch reports a dropped response (design DN-10). Responses are resent
// from memory, before waiting ones, with all checks of the first time; acknowledgements and feedback are sent again.
// Reports about the own queue pair only; each is compared with the transmissions (response_log.h).
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>

#include "base/psn.h"
#include "base/units.h"
#include "bitmap/receive_window.h"
#include "qp/acknowledge/acknowledgement_schedule.h"
#include "qp/respond/responder_resources.h"
#include "qp/respond/response_log.h"
#include "qp/state/environment.h"
#include "qp/state/identity.h"
#include "wire/edn.h"

namespace brdma::qp {

// A READ, ATOMIC WRITE or FLUSH was executed: what its response is made of is kept in the log, which is made with the
// first one. Not of standard requests, and not by reference, since what the response will be is not known: of those the
// peer requests what is missing.
void log_response(std::unique_ptr<ResponseLog>& log, const Identity& identity, const Response& response, bool is_read,
                  std::uint32_t mtu, Instant since);

// A response leaves again, for whatever reason. `log`: null: there is none.
inline void on_left_again(Environment& env, ResponseLog* log, const Response& response, Instant now) {
  if (response.unasked) env.count(Counter::kRetransmittedEdn);
  if (log != nullptr) log->sent_again(response.psn, response.unasked, now);
}

// A view of the responder's parts, made where it is needed.
class RepeatedResponses {
 public:
  struct Parts {
    Environment& env;
    const Identity& identity;
    const bitmap::ReceiveWindow& window;
    ResponderResources& resources;
    std::unique_ptr<ResponseLog>& log;  // null: no response yet
    AcknowledgementSchedule& ack;
    Duration round_trip;  // of feedback
    std::uint32_t mtu;
    std::uint32_t msn;
    bool bitmap;       // the peer reads bitmap-mode packets
    bool serving;      // connected, and not ended by an error
    bool established;  // a request has come
  };
  explicit RepeatedResponses(const Parts& parts) : parts_(parts) {}

  // A switch has dropped responses or acknowledgements. Returns how many bytes leave again.
  std::uint64_t on_report(const wire::Edn& edn, Instant now) const;

  // The peer re-requests missing responses. It has not seen yet those just resent after a switch's report.
  [[nodiscard]] bool have_just_left(Psn first, std::uint32_t count, Instant now) const {
    if (!parts_.log) return false;
    const Duration quiet = std::max(parts_.identity.recovery->resend_interval_min, parts_.round_trip);
    if (!parts_.log->resent_unasked(first, count, now - quiet * kQuietTimes)) return false;
    parts_.env.count(Counter::kReplaysEdn);
    return true;
  }

 private:
  // As after an EDN about requests (loss/reported_losses.cc): for so many quiet times the peer may request without
  // knowing.
  static constexpr std::int64_t kQuietTimes = 4;
  // One report covers a run of drops; a longer one is forged, or leaves the rest to the requester.
  static constexpr std::uint32_t kNamedMost = 1024;

  // The result of one report so far.
  struct Repeated {
    bool known = false;  // one of the responses, at least
    std::uint64_t bytes = 0;
  };
  void repeat_acknowledgement(const wire::Edn& edn, Instant now) const;
  std::uint32_t repeat(const wire::Edn& edn, std::uint32_t place, std::uint32_t end, Repeated& all, Instant now) const;
  std::uint32_t repeat_atomic(const wire::Edn& edn, std::uint32_t place, Repeated& all, Instant now) const;
  [[nodiscard]] bool may_leave_again(const wire::Edn& edn, std::uint32_t place, Instant since, Instant now) const;

  Parts parts_;
};

}  // namespace brdma::qp
