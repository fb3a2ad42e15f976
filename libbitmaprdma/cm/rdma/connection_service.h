// cm/rdma/connection_service.h - identifiers with a connection (RDMA_PS_TCP, RDMA_PS_IB with RC and UC): their calls
// become the connection manager's (cm/agent.h), its events the program's. Errors are those of RdmaCm's calls.
#pragma once

#include <unordered_map>

#include "base/secret_random.h"
#include "cm/agent.h"
#include "cm/rdma/accept_queue.h"

namespace brdma::cm {

class ConnectionService {
 public:
  struct Parts {
    Agent& agent;
    IdTable& ids;
    EventChannels& channels;
    AcceptQueue& accept_queue;
    SecretRandom& random;  // first PSNs
  };
  explicit ConnectionService(const Parts& parts) : parts_(parts) {}

  Status connect(RdmaId& id, const ConnectParameters& parameters, const wire::CmEce& ece, Instant now);
  Status accept(RdmaId& id, const ConnectParameters& parameters, const wire::CmEce& ece, Instant now);
  Status confirm(RdmaId& id);
  // `reason` 0: the application's.
  Status reject(RdmaId& id, std::uint8_t reason, ConstBytes private_data, Instant now);
  Status established(const RdmaId& id);
  [[nodiscard]] bool is_connected(const RdmaId& id);
  // The identifier's connection ends.
  void destroy(const RdmaId& id, Instant now);
  // Of the connection manager: become the program's.
  void take_events(Instant now);
  [[nodiscard]] static Result<QueuePairSetting, Status> setting(const RdmaId& id, QpState state);

 private:
  [[nodiscard]] RdmaId* id_of(CommId connection);
  // The connection manager has forgotten the connection, or will.
  void forget_connection(RdmaId& id);
  void on_request(const Event& event, Instant now);
  void on_event(RdmaId& id, const Event& event);
  void on_reply(RdmaId& id, const wire::CmRep& rep);
  void on_rejected(RdmaId& id, const wire::CmRej& rej);
  void on_unreachable(RdmaId& id);

  Parts parts_;
  std::unordered_map<CommId, IdNumber> by_connection_;
};

}  // namespace brdma::cm
