// cm/connection.h - the connection manager's state of one connection, and the table of all.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "base/ip_address.h"
#include "base/secret_random.h"
#include "base/units.h"
#include "wire/cm/mad.h"

namespace brdma::cm {

using CommId = std::uint32_t;

struct Endpoints {
  IpAddress local, remote;
  std::uint32_t scope = 0;  // interface index of link-local addresses; 0 with others
  friend bool operator==(const Endpoints&, const Endpoints&) = default;
};

enum class ConnectionState : std::uint8_t {
  kReqSent,
  kRepReceived,
  kReqReceived,
  kRepSent,
  kEstablished,
  kDreqSent,
  kRejected,  // by us; remembered, to repeat it for a repeated REQ
  kTimeWait
};

struct Connection {
  CommId id = 0;
  CommId remote_id = 0;  // 0: not known yet
  ConnectionState state = ConnectionState::kReqSent;
  bool owned = true;   // the application has not destroyed it
  bool waits = false;  // in its listener's backlog (cm/listeners.h)
  Endpoints endpoints;
  std::uint64_t transaction = 0;
  std::uint64_t service_id = 0;  // passive: destination of the request
  std::uint32_t local_qpn = 0, remote_qpn = 0;
  std::uint64_t local_guid = 0, remote_guid = 0;
  // The message that is resent until it is answered, or when the peer asks again.
  std::array<std::byte, wire::kMadSize> last_sent{};
  Duration wait;  // until the next resend
  unsigned tries_left = 0;
  std::optional<Instant> deadline;  // set by the table
};

class ConnectionTable {
 public:
  // Ids begin with `id_prefix`; the rest is drawn from `random`, which outlives the table: known ids reveal no others.
  // References stay valid until the connection is removed.
  ConnectionTable(std::uint16_t id_prefix, std::size_t connections_max, SecretRandom& random);

  // Null: the table is full.
  Connection* add(const Endpoints& endpoints);
  void remove(Connection& connection);
  [[nodiscard]] Connection* find(CommId id);
  // From now on find_remote() knows it by the peer's id.
  void set_remote_id(Connection& connection, CommId remote_id);
  [[nodiscard]] Connection* find_remote(const IpAddress& remote, CommId remote_id);
  // Likewise by the queue pair at the other end, while the connection is in use.
  struct RemoteQp {
    IpAddress remote;  // a request from another address means another queue pair
    std::uint64_t guid = 0;
    std::uint32_t qpn = 0;
    friend auto operator<=>(const RemoteQp&, const RemoteQp&) = default;
  };
  void set_remote_qp(Connection& connection, std::uint64_t guid, std::uint32_t qpn);
  [[nodiscard]] Connection* find_remote_qp(const RemoteQp& qp);

  void set_deadline(Connection& connection, std::optional<Instant> deadline);
  [[nodiscard]] std::optional<Instant> first_deadline() const;
  // One whose deadline has passed; its deadline is cleared. Null: none.
  [[nodiscard]] Connection* take_due(Instant now);

  [[nodiscard]] std::size_t size() const { return connections_.size(); }

 private:
  std::uint32_t prefix_;
  std::size_t max_;
  SecretRandom& random_;
  std::unordered_map<CommId, Connection> connections_;
  std::map<std::pair<IpAddress, CommId>, CommId> by_remote_;
  std::map<RemoteQp, CommId> by_remote_qp_;
  std::set<std::pair<Instant, CommId>> deadlines_;
};

}  // namespace brdma::cm
