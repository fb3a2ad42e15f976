// brdmad/live_connections.h - the connections of each process, read off the messages that pass. When a process is
// gone, nobody is left to end them, or to repeat the DREQ that was its last: one is said for each, as the kernel does.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "cm/connection.h"
#include "wire/cm_messages.h"

namespace brdma::daemon {

class LiveConnections {
 public:
  // A message that a process was given, or said. Of what the network says
  // only that counts which answers a process, from where it was asked: whoever invents messages makes no entries, ends
  // none, and nobody is sent a DREQ who had no part in a connection.
  void received(const cm::Endpoints& endpoints, const wire::CmMad& mad);
  void sent(const cm::Endpoints& endpoints, const wire::CmMad& mad);

  struct Farewell {
    cm::Endpoints endpoints;
    wire::CmMad mad;
  };
  // What is left of the process with this prefix: forgotten here.
  [[nodiscard]] std::vector<Farewell> take(std::uint16_t prefix);
  [[nodiscard]] std::size_t size() const { return connections_.size(); }

 private:
  struct Connection {
    cm::Endpoints endpoints;
    std::uint64_t transaction = 0;
    std::uint32_t remote_id = 0, remote_qpn = 0;  // 0: our REQ is not answered yet
  };
  void remember(std::uint32_t id, const Connection& connection);
  void forget(std::uint32_t id, const cm::Endpoints& endpoints);
  struct Request {  // a REQ that waits for its REP
    cm::Endpoints endpoints;
    std::uint32_t remote_id = 0, qpn = 0;
  };
  std::map<std::uint32_t, Connection> connections_;  // by our id
  std::deque<Request> requests_;
};

}  // namespace brdma::daemon
