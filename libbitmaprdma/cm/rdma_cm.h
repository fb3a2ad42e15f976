// cm/rdma_cm.h - RDMA-CM with the kernel's interface: identifiers are bound, resolved, listened on, connected and
// destroyed, and have events. One per process; sans-I/O like the connection manager below it, with a host (RdmaHost)
// for ports, routes and devices. Its parts are in cm/rdma/.
//
// Driven as cm/agent.h is: handle_mad(), handle_timeout() at next_timeout(), then poll_send() until it is empty.
// Errors: errno values as rdma_*(3) name them; then nothing has changed. Not thread-safe.
#pragma once

#include <optional>

#include "cm/agent.h"
#include "cm/lookup.h"
#include "cm/rdma/connection_service.h"
#include "cm/rdma/datagram_service.h"
#include "cm/rdma/memberships.h"
#include "cm/rdma_host.h"
#include "cm/rdma_id.h"

namespace brdma::cm {

// The answer to QUERY_ROUTE.
struct RouteInfo {
  std::optional<LocalDevice> device;
  SocketAddress local, remote;
  bool resolved = false;
  std::uint8_t packet_life_time = 0;  // 4.096 us * 2^n
};

class RdmaCm {
 public:
  // `host` outlives it.
  RdmaCm(const Config& config, RdmaHost& host);
  RdmaCm(const RdmaCm&) = delete;
  RdmaCm& operator=(const RdmaCm&) = delete;

  // --- identifiers ---
  // `type`, `xrc`: for kIb; the other port spaces have one each.
  Result<IdNumber, Status> create(ChannelNumber channel, std::uint64_t user,
                                  wire::PortSpace space = wire::PortSpace::kTcp, QpType type = QpType::kRc,
                                  XrcRole xrc = XrcRole::kNone);
  // Returns how many of its events were fetched, or will be by readers that have taken the count for them
  // (RdmaHost::take_back_events): the program must acknowledge all of these. The others are gone.
  Result<std::uint32_t, Status> destroy(IdNumber id, Instant now);
  Status bind(IdNumber id, const SocketAddress& address);
  Status resolve_address(IdNumber id, const std::optional<SocketAddress>& source, const SocketAddress& destination);
  Status resolve_route(IdNumber id);
  Result<RouteInfo, Status> query(IdNumber id);
  // `backlog`: of unfetched requests; 0: as many as the kernel allows. Again: another backlog; requests that wait
  // count.
  Status listen(IdNumber id, std::uint32_t backlog);
  Status connect(IdNumber id, const ConnectParameters& parameters, const wire::CmEce& ece, Instant now);
  // Of a request; `user` becomes the child's.
  Status accept(IdNumber id, std::uint64_t user, const ConnectParameters& parameters, const wire::CmEce& ece,
                Instant now);
  // Of kConnectResponse: the queue pair is up.
  Status confirm(IdNumber id);
  Status reject(IdNumber id, std::uint8_t reason, ConstBytes private_data, Instant now);
  Status disconnect(IdNumber id, Instant now);
  // The program reports that data has come. EISCONN: already known; EINVAL: it has not accepted.
  Status established(IdNumber id);
  [[nodiscard]] bool is_connected(IdNumber id);  // confirmed, and not ended
  Result<QueuePairSetting, Status> queue_pair_setting(IdNumber id, QpState state);
  Status set_port_options(IdNumber id, const PortOptions& options);
  [[nodiscard]] std::optional<PortOptions> port_options(IdNumber id);
  Status set_ack_timeout(IdNumber id, std::uint8_t code);
  Status set_traffic_class(IdNumber id, std::uint8_t traffic_class);
  [[nodiscard]] std::optional<ChannelNumber> channel_of(IdNumber id);
  // Moves it to another channel, with its waiting events. Returns as destroy().
  Result<std::uint32_t, Status> migrate(IdNumber id, ChannelNumber to);

  // --- multicast, of datagram services ---
  [[nodiscard]] Memberships& multicast() { return memberships_; }

  // --- devices ---
  // Its addresses have changed: kAddressChange, once, for identifiers whose address is gone, until that is back.
  void addresses_changed(std::uint64_t device_guid);
  // It is gone: kDeviceRemoval, once, for identifiers bound to it.
  void device_removed(std::uint64_t device_guid);

  // --- channels ---
  [[nodiscard]] std::optional<RdmaEvent> fetch_event(ChannelNumber channel);
  // One of the identifier's events has come within the last millisecond, and waits: a reader may be on its way.
  [[nodiscard]] bool has_fresh_event(IdNumber id, Instant now);
  // An event of the program's own behind those that wait: kUser or kInternal. EINVAL: another kind, or a request that
  // is not accepted yet.
  Status write_event(IdNumber id, RdmaEventKind kind, std::int32_t status, std::uint64_t argument);
  // Destroys what is on it.
  void close_channel(ChannelNumber channel, Instant now);
  void destroy_all(Instant now);

  // --- the network ---
  void handle_mad(const Endpoints& endpoints, wire::MadBytes mad, Instant now);
  void handle_timeout(Instant now);
  [[nodiscard]] std::optional<Instant> next_timeout() const;
  bool poll_send(OutgoingMad& out) { return outbox_.poll(out); }
  // The holder of our ports has lost them: takes all again.
  void restore_ports() { ports_.restore(); }

  [[nodiscard]] Counters counters() const {
    Counters sum = agent_.counters();
    return sum += lookup_.counters();
  }
  [[nodiscard]] std::size_t ids() { return ids_.all().size(); }
  [[nodiscard]] std::size_t connections() const { return agent_.connections(); }

 private:
  void take_events(Instant now);

  RdmaHost& host_;
  SecretRandom random_;
  Outbox outbox_;
  Agent agent_;
  Lookup lookup_;
  std::uint8_t ack_timeout_;
  IdTable ids_;
  AddressResolver addresses_;
  EventChannels channels_;
  Ports ports_;
  AcceptQueue accept_queue_;
  ConnectionService connections_;
  DatagramService datagrams_;
  Memberships memberships_;
};

}  // namespace brdma::cm
