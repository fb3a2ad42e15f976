// cm/rdma_host.h - interface of RDMA-CM to its machine, and for wake-ups. Called from within RdmaCm's own functions:
// must not call back.
#pragma once

#include "cm/rdma_types.h"

namespace brdma::cm {

class RdmaHost {
 public:
  virtual ~RdmaHost() = default;
  // Makes a port this process's own, across all processes; 0: any free one. EADDRINUSE, EACCES.
  virtual Result<std::uint16_t, Status> take_port(wire::PortSpace space, const SocketAddress& address,
                                                  const PortOptions& options) = 0;
  // From now on requests for it come here. EADDRINUSE: there is another listener.
  virtual Status listen_port(wire::PortSpace space, const SocketAddress& address) = 0;
  // `listening`: it was listened on (others of this process may have the port too).
  virtual void release_port(wire::PortSpace space, const SocketAddress& address, bool listening) = 0;
  // True once after the holder of this process's ports has forgotten them: restore_ports() is due.
  virtual bool lost_ports() { return false; }
  // The source address of packets to `destination`. ENETUNREACH, EHOSTUNREACH.
  virtual Result<IpAddress, Status> source_for(const SocketAddress& destination) = 0;
  // Empty: no device has this address. `scope`: of a link-local one, which other interfaces may have too; 0: any.
  virtual std::optional<LocalDevice> device_of(const IpAddress& local, std::uint32_t scope) = 0;
  // The channel has one event more.
  virtual void event_added(ChannelNumber channel) = 0;
  // Up to `count` of those that were not fetched are to go. Returns how many may: readers that have taken the count of
  // the others are about to fetch them.
  virtual std::uint32_t take_back_events(ChannelNumber channel, std::uint32_t count) = 0;
};

}  // namespace brdma::cm
