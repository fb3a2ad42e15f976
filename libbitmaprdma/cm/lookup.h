// cm/lookup.h - service id resolution (IBTA 12.11): a sender of datagrams asks for the queue pair of a service.
// SIDR_REQ is resent until SIDR_REP comes; an answer is kept for a while, for repeated requests. Driven as cm/agent.h;
// errors and thread-safety as there.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <variant>

#include "base/result.h"
#include "base/secret_random.h"
#include "cm/config.h"
#include "cm/connection.h"
#include "cm/listeners.h"
#include "cm/outbox.h"
#include "cm/resend.h"
#include "wire/cm/cm_messages.h"

namespace brdma::cm {

struct LookupEvent {
  enum class Kind : std::uint8_t {
    kRequest,     // CmSidrReq: answer() is awaited
    kReply,       // CmSidrRep, with any status; the id is invalid from now on
    kUnreachable  // nobody answered; likewise
  };
  Kind kind{};
  CommId id = 0;
  Endpoints endpoints;
  std::variant<std::monostate, wire::CmSidrReq, wire::CmSidrRep> message;
};

// Of a SIDR_REP.
namespace sidr_status {
inline constexpr std::uint8_t kValid = 0, kUnsupported = 1, kRejected = 2, kNoQp = 3;
}

class Lookup {
 public:
  Lookup(const Config& config, Outbox& outbox);
  Lookup(const Lookup&) = delete;
  Lookup& operator=(const Lookup&) = delete;

  // Unanswered requests beyond `backlog` are ignored; the peer resends them. Listeners as in cm/agent.h.
  Status listen(std::uint64_t service_id, std::uint32_t backlog);
  void stop_listening(std::uint64_t service_id) { listeners_.stop(service_id); }

  Result<CommId, Status> ask(const Endpoints& endpoints, wire::CmSidrReq req, Instant now);
  // `rep`: status, QPN, Q_Key and private data.
  Status answer(CommId id, wire::CmSidrRep rep, Instant now);
  // Stops asking; an unanswered request is rejected.
  void destroy(CommId id, Instant now);

  // At the end of the process: recent answers leave several times, because no resend will be answered.
  void send_final_acks(Instant now);

  void handle(const Endpoints& endpoints, std::uint64_t transaction, const wire::CmSidrReq& req);
  void handle(const Endpoints& endpoints, std::uint64_t transaction, const wire::CmSidrRep& rep);
  void handle_timeout(Instant now);
  [[nodiscard]] std::optional<Instant> next_timeout() const { return table_.first_deadline(); }
  [[nodiscard]] std::optional<LookupEvent> poll_event();
  [[nodiscard]] const Counters& counters() const { return counters_; }

 private:
  void refuse(const Endpoints& endpoints, std::uint64_t transaction, const wire::CmSidrReq& req);

  Config config_;
  Outbox& outbox_;
  SecretRandom random_;
  Counters counters_;
  ConnectionTable table_;  // of states kReqSent, kReqReceived and kTimeWait: sent, to be answered, answered
  Resender resender_{config_, table_, outbox_, counters_};
  Listeners listeners_;
  std::deque<LookupEvent> events_;
};

}  // namespace brdma::cm
