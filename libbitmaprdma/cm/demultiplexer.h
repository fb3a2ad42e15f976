// cm/demultiplexer.h - from a peer's message to its connection. The message must come from the connection's peer, to
// our address, and name the same connection; others are counted and belong to none.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cm/config.h"
#include "cm/connection.h"
#include "wire/cm/cm_messages.h"

namespace brdma::cm {

// Origin of a message.
struct Received {
  const Endpoints& endpoints;
  std::uint64_t transaction;
  Instant now;
};

class Demultiplexer {
 public:
  // Both outlive it.
  Demultiplexer(ConnectionTable& table, Counters& counters) : table_(table), counters_(counters) {}

  // By our id. All messages of a connection have the transaction of its REQ, except those that begin a transaction.
  // Null: none.
  template <class Message>
  [[nodiscard]] Connection* addressee(const Received& from, const Message& message) {
    constexpr bool kBegins = std::is_same_v<Message, wire::CmDreq> || std::is_same_v<Message, wire::CmLap>;
    return find(from, message.remote_comm_id, message.local_comm_id, kBegins);
  }
  // Of a REJ, which may name only one of the ids. Null: none.
  [[nodiscard]] Connection* rejected(const Received& from, const wire::CmRej& rej);

 private:
  [[nodiscard]] Connection* find(const Received& from, CommId ours, CommId theirs, bool begins);
  // `connection` if it is with the message's sender, else null; counted.
  [[nodiscard]] Connection* of_sender(const Received& from, Connection* connection);

  ConnectionTable& table_;
  Counters& counters_;
};

}  // namespace brdma::cm
