// cm/lookup.h - service id resolution (IBTA 12.11): who wants to send datagrams to a service asks for its queue pair.
// SIDR_REQ, said again until SIDR_REP comes; an answer is remembered for a while, for requests that come again.
// Driven as cm/agent.h is; errors and thread-safety as there.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <variant>

#include "base/result.h"
#include "base/secret_random.h"
#include "cm/config.h"
#include "cm/connection.h"
#include "cm/outbox.h"
#include "cm/resend.h"
#include "wire/cm/cm_messages.h"

namespace brdma::cm {

struct LookupEvent {
  enum class Kind : std::uint8_t {
    kRequest,     // CmSidrReq: answer() is awaited
    kReply,       // CmSidrRep, whatever its status; the id means nothing any more
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

  // Requests beyond `backlog` that wait for an answer are left to be asked again.
  Status listen(std::uint64_t service_id, std::uint32_t backlog);
  void stop_listening(std::uint64_t service_id);

  Result<CommId, Status> ask(const Endpoints& endpoints, wire::CmSidrReq req, Instant now);
  // `rep`: status, QPN, Q_Key and private data.
  Status answer(CommId id, wire::CmSidrRep rep, Instant now);
  // A question is not asked any more; one that waits for an answer is rejected.
  void destroy(CommId id, Instant now);

  // The end of it all: answers of late leave several times, because nobody will be here to give them again.
  void send_final_acks(Instant now);

  void handle(const Endpoints& endpoints, std::uint64_t transaction, const wire::CmSidrReq& req);
  void handle(const Endpoints& endpoints, std::uint64_t transaction, const wire::CmSidrRep& rep);
  void handle_timeout(Instant now);
  [[nodiscard]] std::optional<Instant> next_timeout() const { return table_.first_deadline(); }
  [[nodiscard]] std::optional<LookupEvent> poll_event();
  [[nodiscard]] const Counters& counters() const { return counters_; }

 private:
  struct Listener {
    std::uint32_t backlog = 0, waiting = 0;
  };
  void refuse(const Endpoints& endpoints, std::uint64_t transaction, const wire::CmSidrReq& req);

  Config config_;
  Outbox& outbox_;
  SecretRandom random_;
  Counters counters_;
  ConnectionTable table_;  // of states kReqSent, kReqReceived and kTimeWait: not answered, to be answered, answered
  Resender resender_{config_, table_, outbox_, counters_};
  std::map<std::uint64_t, Listener> listeners_;
  std::deque<LookupEvent> events_;
};

}  // namespace brdma::cm
