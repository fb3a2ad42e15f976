// cm/events.h - what happens to connections, for the application: events that wait to be polled.
#pragma once

#include <deque>
#include <optional>
#include <utility>
#include <variant>

#include "cm/connection.h"
#include "wire/cm/cm_messages.h"

namespace brdma::cm {

struct Event {
  enum class Kind : std::uint8_t {
    kRequest,       // CmReq: a new connection `id`, for the listener of its service id
    kReply,         // CmRep: accepted; ready() is awaited
    kReady,         // accept() was confirmed
    kRejected,      // CmRej
    kUnreachable,   // nobody answered
    kDisconnected,  // by either side
    kTimeWaitExit
  };
  Kind kind{};
  CommId id = 0;
  Endpoints endpoints;
  std::variant<std::monostate, wire::CmReq, wire::CmRep, wire::CmRej> message;
};

class EventQueue {
 public:
  // A connection that the application has destroyed makes no events.
  void notify(const Connection& connection, Event::Kind kind) {
    if (connection.owned) events_.push_back({kind, connection.id, connection.endpoints, {}});
  }
  template <class Message>
  void notify(const Connection& connection, Event::Kind kind, const Message& message) {
    if (connection.owned) events_.push_back({kind, connection.id, connection.endpoints, message});
  }
  [[nodiscard]] std::optional<Event> poll() {
    if (events_.empty()) return std::nullopt;
    Event event = std::move(events_.front());
    events_.pop_front();
    return event;
  }
  // Drops the connection's events.
  void forget(CommId id) {
    std::erase_if(events_, [id](const Event& event) { return event.id == id; });
  }

 private:
  std::deque<Event> events_;
};

}  // namespace brdma::cm
