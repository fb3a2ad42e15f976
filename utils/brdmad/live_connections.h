// brdmad/live_connections.h - the connections of each process, read off the messages that pass. When a process is
// gone, nobody is left to end them, or to repeat the DREQ that was its last: one is said for each, as the kernel does.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "cm/connection.h"
#include "connection_table.h"
#include "wire/cm/cm_messages.h"

namespace brdma::daemon {

class LiveConnections {
 public:
  // `table`: what an earlier worker wrote is in it; outlives this. Null: kept nowhere else.
  explicit LiveConnections(ConnectionTable* table = nullptr);

  // A message that a process was given, or said. Of what the network says only that counts which answers a process,
  // from where it was asked: whoever invents messages makes no entries, ends none, and nobody is sent a DREQ who had no
  // part in a connection.
  void received(const cm::Endpoints& endpoints, const wire::CmMad& mad);
  void sent(std::uint32_t pid, const cm::Endpoints& endpoints, const wire::CmMad& mad);

  struct Farewell {
    cm::Endpoints endpoints;
    wire::CmMad mad;
  };
  // What is left of the process with this prefix: forgotten here.
  [[nodiscard]] std::vector<Farewell> take(std::uint16_t prefix);
  [[nodiscard]] bool has(std::uint16_t prefix) const { return first_of(prefix) != connections_.end(); }
  // The prefixes that have connections, each with its process.
  [[nodiscard]] std::map<std::uint16_t, std::uint32_t> processes() const;
  [[nodiscard]] std::size_t size() const { return connections_.size(); }

 private:
  using Connections = std::map<std::uint32_t, ConnectionRecord>;  // by our id
  [[nodiscard]] Connections::const_iterator first_of(std::uint16_t prefix) const;
  void remember(const ConnectionRecord& connection);
  struct Ids {
    std::uint32_t ours = 0, theirs = 0;
  };
  void forget(const Ids& ids, const cm::Endpoints& endpoints);
  void write_row(const ConnectionRecord& connection);
  void clear_row(std::uint32_t id);

  struct Request {  // a REQ that waits for its REP
    cm::Endpoints endpoints;
    std::uint32_t remote_id = 0, qpn = 0;
  };
  Connections connections_;
  ConnectionTable* table_;
  std::map<std::uint32_t, std::uint32_t> rows_;  // by our id
  std::vector<std::uint32_t> free_rows_;         // below rows_used
  std::deque<Request> requests_;
};

}  // namespace brdma::daemon
