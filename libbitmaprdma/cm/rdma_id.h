// cm/rdma_id.h - the state of one identifier, and the table of them.
#pragma once

#include <map>
#include <optional>
#include <set>

#include "cm/connection.h"
#include "cm/rdma_types.h"

namespace brdma::cm {

enum class IdState : std::uint8_t {
  kIdle,
  kBound,
  kAddressResolved,
  kRouteResolved,
  kListening,
  kConnecting,  // active: REQ is out; after the answer: kResponded
  kResponded,   // active: REP received, waits for the program's confirmation
  kRequested,   // passive: waits for accept or reject
  kAccepted,    // passive: REP is out
  kConnected,
  kDisconnected  // or refused, or given up: can only be destroyed
};

struct RdmaId {
  IdNumber number = 0;
  std::uint64_t user = 0;  // the program's pointer; of a child 0 until it is accepted
  ChannelNumber channel = 0;
  wire::PortSpace space = wire::PortSpace::kTcp;
  QpType type = QpType::kRc;  // kUd: a datagram service
  XrcRole xrc = XrcRole::kNone;
  [[nodiscard]] bool is_datagram() const { return type == QpType::kUd; }
  IdState state = IdState::kIdle;
  SocketAddress local, remote;
  bool has_port = false;
  PortOptions port_options;
  std::optional<LocalDevice> device;
  bool address_lost = false, device_lost = false;  // reported to the program
  std::optional<CommId> connection;                // of a datagram service: the request, sent or received
  std::uint32_t backlog = 0, waiting = 0;          // of a listener: unfetched requests
  std::optional<IdNumber> listener;                // of a child, until it is fetched
  std::uint32_t events_reported = 0;
  std::uint8_t ack_timeout = 0;  // Config::ack_timeout, or the program's or the peer's value
  std::uint8_t traffic_class = 0;
  // PSNs of the queue pairs, from both sides' parameters.
  Psn send_psn, receive_psn;
  std::uint32_t remote_qpn = 0;
  PathMtu path_mtu = PathMtu::k1024;
  std::uint8_t responder_resources = 0, initiator_depth = 0;
  std::uint8_t retry_count = 7, rnr_retry_count = 7;
};

// Destination of its messages. The scope is the device's interface, if one of the addresses needs it.
[[nodiscard]] inline Endpoints endpoints_of(const RdmaId& id) {
  const bool scoped = id.local.is_link_local() || id.remote.is_link_local();
  return {id.local.address, id.remote.address, scoped ? id.device->ifindex : 0};
}

class IdTable {
 public:
  static constexpr IdNumber kIdsMax = 65'536;  // librdmacm indexes an array by them

  // Null: all numbers are in use.
  RdmaId* add() {
    IdNumber number = next_;
    if (!free_.empty()) {
      number = *free_.begin();
      free_.erase(free_.begin());
    } else if (next_ < kIdsMax) {
      ++next_;
    } else {
      return nullptr;
    }
    RdmaId& id = ids_[number];
    id.number = number;
    return &id;
  }
  void remove(IdNumber number) {
    if (ids_.erase(number) != 0) free_.insert(number);
  }
  [[nodiscard]] RdmaId* find(IdNumber number) {
    const auto found = ids_.find(number);
    return found == ids_.end() ? nullptr : &found->second;
  }
  [[nodiscard]] std::map<IdNumber, RdmaId>& all() { return ids_; }

 private:
  std::map<IdNumber, RdmaId> ids_;
  std::set<IdNumber> free_;  // of those below next_
  IdNumber next_ = 0;
};

}  // namespace brdma::cm
