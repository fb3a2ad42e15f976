#include "cm/lookup.h"

#include <algorithm>
#include <cerrno>

namespace brdma::cm {

Lookup::Lookup(const Config& config, Outbox& outbox)
    : config_(config),
      outbox_(outbox),
      random_(config.seed, "service lookup"),
      table_(config.id_prefix, config.connections_max, random_) {}

Status Lookup::listen(std::uint64_t service_id, std::uint32_t backlog) {
  return listeners_.listen(service_id, backlog);
}

Result<CommId, Status> Lookup::ask(const Endpoints& endpoints, wire::CmSidrReq req, Instant now) {
  Connection* const question = table_.add(endpoints);
  if (question == nullptr) return Status{ENOMEM};
  question->state = ConnectionState::kReqSent;
  question->transaction = random_.next();
  req.request_id = question->id;
  resender_.send(*question, req, now);
  return question->id;
}

Status Lookup::answer(CommId id, wire::CmSidrRep rep, Instant now) {
  Connection* const request = table_.find(id);
  if (request == nullptr) return Status{ENOENT};
  if (request->state != ConnectionState::kReqReceived) return Status{EINVAL};
  rep.request_id = request->remote_id;
  rep.service_id = request->service_id;
  wire::emit_cm({.transaction = request->transaction, .message = rep}, request->last_sent);
  outbox_.push(request->endpoints, request->last_sent);
  listeners_.leave(*request);
  request->state = ConnectionState::kTimeWait;
  table_.set_deadline(*request, now + config_.time_wait);
  return Status::success();
}

void Lookup::destroy(CommId id, Instant now) {
  Connection* const connection = table_.find(id);
  if (connection == nullptr) return;
  std::erase_if(events_, [id](const LookupEvent& event) { return event.id == id; });
  if (connection->state == ConnectionState::kReqReceived) {
    (void)answer(id, {.status = sidr_status::kRejected}, now);
  } else if (connection->state == ConnectionState::kReqSent) {
    table_.remove(*connection);
  }
}

void Lookup::send_final_acks(Instant now) {
  constexpr int kCopies = 3;
  while (Connection* const connection = table_.take_due(now + config_.time_wait)) {
    if (connection->state != ConnectionState::kTimeWait) continue;
    for (int i = 0; i < kCopies; ++i) outbox_.push(connection->endpoints, connection->last_sent);
  }
}

void Lookup::refuse(const Endpoints& endpoints, std::uint64_t transaction, const wire::CmSidrReq& req) {
  const wire::CmSidrRep rep{
      .request_id = req.request_id, .status = sidr_status::kUnsupported, .service_id = req.service_id};
  outbox_.push(endpoints, wire::CmMad{.transaction = transaction, .message = rep});
}

void Lookup::handle(const Endpoints& endpoints, std::uint64_t transaction, const wire::CmSidrReq& req) {
  const Connection* const known = table_.find_remote(endpoints.remote, req.request_id);
  if (known != nullptr && known->transaction == transaction) {
    ++counters_.duplicates;
    if (known->state == ConnectionState::kTimeWait) outbox_.push(known->endpoints, known->last_sent);
    return;
  }
  if (req.request_id == 0) {
    ++counters_.unexpected;
    return;
  }
  const Listeners::Admission admission = listeners_.admission(req.service_id);
  if (admission == Listeners::Admission::kNobody) return refuse(endpoints, transaction, req);
  Connection* const request = admission == Listeners::Admission::kAdmitted ? table_.add(endpoints) : nullptr;
  if (request == nullptr) {
    ++counters_.backlog_full;
    return;
  }
  request->state = ConnectionState::kReqReceived;
  request->transaction = transaction;
  request->service_id = req.service_id;
  table_.set_remote_id(*request, req.request_id);
  listeners_.enter(*request);
  ++counters_.requests;
  events_.push_back({LookupEvent::Kind::kRequest, request->id, endpoints, req});
}

void Lookup::handle(const Endpoints& endpoints, std::uint64_t transaction, const wire::CmSidrRep& rep) {
  Connection* const question = table_.find(rep.request_id);
  if (question == nullptr || question->state != ConnectionState::kReqSent || question->transaction != transaction) {
    ++counters_.unknown;
    return;
  }
  if (!(question->endpoints == endpoints)) {
    ++counters_.wrong_address;
    return;
  }
  events_.push_back({LookupEvent::Kind::kReply, question->id, endpoints, rep});
  table_.remove(*question);
}

void Lookup::handle_timeout(Instant now) {
  while (Connection* const connection = table_.take_due(now)) {
    if (connection->state == ConnectionState::kTimeWait) {
      table_.remove(*connection);
    } else if (!resender_.send_again(*connection, now)) {
      ++counters_.timeouts;
      events_.push_back({LookupEvent::Kind::kUnreachable, connection->id, connection->endpoints, {}});
      table_.remove(*connection);
    }
  }
}

std::optional<LookupEvent> Lookup::poll_event() {
  if (events_.empty()) return std::nullopt;
  LookupEvent event = std::move(events_.front());
  events_.pop_front();
  return event;
}

}  // namespace brdma::cm
