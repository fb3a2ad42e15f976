// cm/rdma_cm.h - RDMA-CM with the kernel's interface: identifiers are bound, resolved, listened on, connected and
// destroyed, and have events. One per process; sans-I/O like the connection manager below it, with a host (RdmaHost)
// for ports, routes and devices.
//
// Driven as cm/agent.h is: handle_mad(), handle_timeout() at next_timeout(), then poll_send() until it is empty.
// Errors: errno values as rdma_*(3) name them; then nothing has changed. Not thread-safe.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <unordered_map>

#include "cm/agent.h"
#include "cm/lookup.h"
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
  RdmaCm(const Config& config, RdmaHost& host);

  // --- identifiers ---
  // `type`: for kIb; the other port spaces have one each.
  Result<IdNumber, Status> create(ChannelNumber channel, std::uint64_t user,
                                  wire::PortSpace space = wire::PortSpace::kTcp, QpType type = QpType::kRc);
  // Returns how many of its events were fetched, or will be by readers that have taken the count for them
  // (RdmaHost::take_back_events): the program must acknowledge all of these. The others are gone.
  Result<std::uint32_t, Status> destroy(IdNumber id, Instant now);
  Status bind(IdNumber id, const SocketAddress& address);
  Status resolve_address(IdNumber id, const std::optional<SocketAddress>& source, const SocketAddress& destination);
  Status resolve_route(IdNumber id);
  Result<RouteInfo, Status> query(IdNumber id);
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

  // --- multicast, of datagram services (cm/rdma_multicast.cc) ---
  // Returns the membership's number; kMulticastJoin carries the destination. The program attaches the queue pair.
  Result<IdNumber, Status> join(IdNumber id, std::uint64_t user, const SocketAddress& group);
  [[nodiscard]] std::optional<IdNumber> member(IdNumber membership) const;  // its identifier
  Result<std::uint32_t, Status> leave(IdNumber membership);                 // returns as destroy()

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
  void restore_ports();

  [[nodiscard]] Counters counters() const {
    Counters sum = agent_.counters();
    return sum += lookup_.counters();
  }
  [[nodiscard]] std::size_t ids() { return ids_.all().size(); }
  [[nodiscard]] std::size_t connections() const { return agent_.connections(); }

 private:
  struct Membership {
    IdNumber id = 0;
    std::uint32_t events_reported = 0;
  };
  // --- rdma_datagram.cc ---
  Status ask(RdmaId& id, const ConnectParameters& parameters, Instant now);
  Status answer(RdmaId& id, const ConnectParameters& parameters, Instant now);
  Status refuse(RdmaId& id, ConstBytes private_data, Instant now);
  void take_lookup_events(Instant now);
  void on_question(const LookupEvent& event, Instant now);
  void on_answer(const LookupEvent& event);
  [[nodiscard]] static Result<QueuePairSetting, Status> datagram_setting(QpState state);
  // --- rdma_events.cc ---
  void take_events(Instant now);
  // Makes a child of the listener of that service. `cm_address`: the first 36 bytes of a request's private data.
  enum class Refusal : std::uint8_t { kBadAddress, kNobody, kNoRoom };
  Result<RdmaId*, Refusal> make_child(const Endpoints& endpoints, std::uint64_t service_id,
                                      const std::byte* cm_address);
  void queue_request(const RdmaId& child, RdmaEvent event);
  void on_request(const Event& event, Instant now);
  void on_reply(RdmaId& id, const wire::CmRep& rep);
  [[nodiscard]] RdmaId* listener_for(std::uint64_t service_id, const Endpoints& endpoints);
  [[nodiscard]] RdmaId* id_of(CommId connection);
  std::uint32_t drop_events(RdmaId& id, Instant now);
  void leave_to_readers(const RdmaId& id);
  // Takes the events that are `gone` out of the channel's queue, each by `take`. Answers how many stay, the first ones:
  // readers have taken the count for them.
  using Gone = std::function<bool(const RdmaEvent&)>;
  using Take = std::function<void(const RdmaEvent&)>;
  std::uint32_t take_back(ChannelNumber channel, const Gone& gone, const Take& take);
  void release_port(RdmaId& id);
  void notify(const RdmaId& id, RdmaEventKind kind, std::int32_t status = 0);
  void queue(ChannelNumber channel, const RdmaEvent& event);
  void bind_device(RdmaId& id);
  int resolve_ends(RdmaId& id, const SocketAddress& destination);
  int choose_source(RdmaId& id);
  Status listen_at_port(const RdmaId& id);
  SocketAddress bindable(const SocketAddress& address);

  RdmaHost& host_;
  SecretRandom random_;
  Outbox outbox_;
  Agent agent_;
  Lookup lookup_;
  std::uint8_t ack_timeout_;
  IdTable ids_;
  std::unordered_map<CommId, IdNumber> by_connection_, by_question_;
  std::multimap<std::uint64_t, IdNumber> listening_;  // by service id
  std::map<IdNumber, Membership> memberships_;
  IdNumber next_membership_ = 0;
  std::map<ChannelNumber, std::deque<RdmaEvent>> channels_;
  Instant heard_;  // when the network last brought something, or time passed
};

}  // namespace brdma::cm
