// brdmad/connections/live_connections.h - tracks the connections of each process by the messages that pass. When a
// process is gone, its connections are ended here, with a DREQ for each, as the kernel does. A last DREQ of the process
// is repeated, too.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "cm/connection.h"
#include "connections/connection_table.h"
#include "wire/cm/cm_messages.h"

namespace brdma::daemon {

class LiveConnections {
 public:
  // `table`: contains the entries of an earlier worker; outlives this. Null: nothing is stored.
  explicit LiveConnections(ConnectionTable* table = nullptr);

  // A message to a process, or from one. Of messages from the network, only answers to a process from the address it
  // had asked count. So forged messages make no entries and end none, and no DREQ goes to a host without a connection.
  void received(const cm::Endpoints& endpoints, const wire::CmMad& mad);
  void sent(std::uint32_t pid, const cm::Endpoints& endpoints, const wire::CmMad& mad);

  struct Farewell {
    cm::Endpoints endpoints;
    wire::CmMad mad;
  };
  // The remaining connections of the process with this prefix; they are removed here.
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
  void accepted(const cm::Endpoints& endpoints, std::uint64_t transaction, const wire::CmRep& rep);
  void rejected(const cm::Endpoints& endpoints, std::uint64_t transaction, const wire::CmRej& rej);
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
