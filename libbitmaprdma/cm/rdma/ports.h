// cm/rdma/ports.h - ports that identifiers are bound to, and which of them listen. A port is the process's own across
// the host (cm/rdma_host.h); several addresses of one port share one service of the connection manager or the lookup.
#pragma once

#include <cstdint>
#include <map>

#include "cm/agent.h"
#include "cm/lookup.h"
#include "cm/rdma/addresses.h"
#include "cm/rdma_host.h"
#include "cm/rdma_id.h"

namespace brdma::cm {

class Ports {
 public:
  struct Parts {
    RdmaHost& host;
    AddressResolver& addresses;
    IdTable& ids;
    Agent& agent;
    Lookup& lookup;
  };
  explicit Ports(const Parts& parts) : parts_(parts) {}

  // Of an idle identifier. Errors of AddressResolver::check() and RdmaHost::take_port().
  Status bind(RdmaId& id, const SocketAddress& wanted);
  // Requests for its service are its own from now on. `backlog`: of unfetched ones; 0: kBacklogMax. Again: the backlog
  // changes, and requests that wait count in it. EINVAL: not bound. Errors of RdmaHost::listen_port().
  Status listen(RdmaId& id, std::uint32_t backlog);
  // The identifier ends: it is neither bound nor listens any more.
  void release(RdmaId& id);
  // The holder of our ports has lost them: takes all again.
  void restore();
  // A listener on this very address, else on all. Null: none.
  [[nodiscard]] RdmaId* listener_for(std::uint64_t service_id, const Endpoints& endpoints);

 private:
  Status listen_at_port(const RdmaId& id);

  Parts parts_;
  std::multimap<std::uint64_t, IdNumber> listening_;  // by service id
};

}  // namespace brdma::cm
