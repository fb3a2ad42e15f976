// cm/resend.h - a message that is resent until it is answered: shared by the connection manager and the service lookup,
// for a connection's `last_sent`.
#pragma once

#include <algorithm>

#include "cm/config.h"
#include "cm/connection.h"
#include "cm/outbox.h"

namespace brdma::cm {

struct Resender {
  const Config& config;
  ConnectionTable& table;
  Outbox& outbox;
  Counters& counters;

  // Sends `message` for the first time. Its deadline makes send_again() due.
  void send(Connection& connection, const wire::CmMessage& message, Instant now) const {
    wire::emit_cm({.transaction = connection.transaction, .message = message}, connection.last_sent);
    connection.wait = config.resend_first;
    connection.tries_left = config.tries - 1;
    push(connection, now);
  }
  // False: all tries are used up.
  [[nodiscard]] bool send_again(Connection& connection, Instant now) const {
    if (connection.tries_left == 0) return false;
    --connection.tries_left;
    ++counters.resent;
    connection.wait = std::min(connection.wait * 2, config.resend_max);
    push(connection, now);
    return true;
  }

 private:
  void push(Connection& connection, Instant now) const {
    outbox.push(connection.endpoints, connection.last_sent);
    table.set_deadline(connection, now + connection.wait);
  }
};

}  // namespace brdma::cm
