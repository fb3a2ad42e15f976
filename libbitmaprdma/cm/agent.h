// cm/agent.h - the InfiniBand connection manager (IBTA chapter 12) of one process: makes and ends connections between
// queue pairs by messages that are resent until they are answered. Sans-I/O: messages and time are arguments; outgoing
// messages are in the outbox, events are polled.
//
//   handle(...)*  handle_timeout(now) when next_timeout() has passed  connect()/accept()/...
//   then the outbox and poll_event() until empty, and a timer at next_timeout().
//
//            active                                  passive
//   connect() -> kReqSent                            kRequest event, kReqReceived
//   kReply event, kRepReceived                       accept() -> kRepSent
//   ready() -> kEstablished                          kReady event, or established() -> kEstablished
//   either: disconnect() -> kDreqSent -> kDisconnected event, kTimeWait -> kTimeWaitExit event
//
// A connection is identified by its communication id until destroy(), or until the event kRejected, kUnreachable or
// kTimeWaitExit; then the id is invalid.
// Errors of calls: ENOENT no such id; EINVAL not in this state; ENOMEM too many connections. Then nothing has changed.
// Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>

#include "base/result.h"
#include "base/secret_random.h"
#include "cm/config.h"
#include "cm/connection.h"
#include "cm/demultiplexer.h"
#include "cm/events.h"
#include "cm/listeners.h"
#include "cm/outbox.h"
#include "cm/resend.h"
#include "wire/cm/cm_messages.h"

namespace brdma::cm {

class Agent {
 public:
  Agent(const Config& config, Outbox& outbox);
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  // From now on requests for `service_id` make events while fewer than `backlog` wait for taken(), accept() or
  // reject(). Others are refused (kNoResources), as are those for another transport. EADDRINUSE: there is a listener
  // already.
  Status listen(std::uint64_t service_id, std::uint32_t backlog, std::uint8_t transport = wire::CmReq{}.transport);
  // The application has received the request.
  void taken(CommId id);
  // Requests that wait then count in the backlog of a later listener.
  void stop_listening(std::uint64_t service_id) { listeners_.stop(service_id); }

  // `req`, `rep`: the application's values; ids, GIDs and the manager's own timeouts are filled in.
  Result<CommId, Status> connect(const Endpoints& endpoints, wire::CmReq req, Instant now);
  Status ready(CommId id);
  Status accept(CommId id, wire::CmRep rep, Instant now);
  // A request or a reply. `private_data`: at most 148 bytes, EINVAL beyond.
  Status reject(CommId id, std::uint16_t reason, ConstBytes private_data, Instant now);
  // Data came on the queue pair: so the peer has our REP, even if its RTU was lost. Makes the kReady event.
  Status established(CommId id);
  Status disconnect(CommId id, Instant now);
  // Sends the peer the message that the state demands; the connection makes no more events and ends by itself.
  void destroy(CommId id, Instant now);

  // Ignores SIDR messages.
  void handle(const Endpoints& endpoints, const wire::CmMad& mad, Instant now);
  void handle_timeout(Instant now);
  [[nodiscard]] std::optional<Instant> next_timeout() const { return table_.first_deadline(); }
  [[nodiscard]] std::optional<Event> poll_event() { return events_.poll(); }

  [[nodiscard]] const Counters& counters() const { return counters_; }
  [[nodiscard]] std::size_t connections() const { return table_.size(); }
  [[nodiscard]] std::optional<ConnectionState> state(CommId id);

 private:
  // agent_messages.cc
  void on(const Received& from, const wire::CmReq& req);
  void on(const Received& from, const wire::CmRep& rep);
  void on(const Received& from, const wire::CmRtu& rtu);
  void on(const Received& from, const wire::CmRej& rej);
  void on(const Received& from, const wire::CmMra& mra);
  void on(const Received& from, const wire::CmDreq& dreq);
  void on(const Received& from, const wire::CmDrep& drep);
  void on(const Received& from, const wire::CmLap& lap);
  template <class Other>
  void on(const Received& from, const Other& message);
  void on_repeated(Connection& connection);
  [[nodiscard]] std::optional<std::uint16_t> refusal(const wire::CmReq& req);
  void examine_stale(const Connection& old);

  // agent.cc
  void send(const Connection& connection, const wire::CmMessage& message);
  void send_rejection(Connection& connection, std::uint16_t reason, ConstBytes private_data, Instant now);
  void begin_disconnect(Connection& connection, Instant now);
  void begin_time_wait(Connection& connection, Instant now);
  void end(Connection& connection, Event::Kind kind);
  void give_up(Connection& connection, Instant now);

  Config config_;
  Outbox& outbox_;
  SecretRandom random_;
  Counters counters_;
  ConnectionTable table_;
  Resender resender_{config_, table_, outbox_, counters_};
  Demultiplexer demultiplexer_{table_, counters_};
  Listeners listeners_;
  EventQueue events_;
};

}  // namespace brdma::cm
