// cm/rdma/datagram_service.h - identifiers of datagram services (RDMA_PS_UDP, RDMA_PS_IB with UD): no connection is
// made. A sender asks for the queue pair of a port (cm/lookup.h) and gets its number, its Q_Key and its address; the
// other side accepts or refuses the request. Errors are those of RdmaCm's calls.
#pragma once

#include <unordered_map>

#include "cm/lookup.h"
#include "cm/rdma/accept_queue.h"

namespace brdma::cm {

class DatagramService {
 public:
  struct Parts {
    Lookup& lookup;
    IdTable& ids;
    EventChannels& channels;
    AcceptQueue& accept_queue;
  };
  explicit DatagramService(const Parts& parts) : parts_(parts) {}

  Status ask(RdmaId& id, const ConnectParameters& parameters, Instant now);
  Status answer(RdmaId& id, const ConnectParameters& parameters, Instant now);
  Status refuse(RdmaId& id, ConstBytes private_data, Instant now);
  // The identifier's question or request ends.
  void destroy(const RdmaId& id, Instant now);
  // Of the lookup: become the program's.
  void take_events(Instant now);
  [[nodiscard]] static Result<QueuePairSetting, Status> setting(QpState state);

 private:
  // The request was answered.
  void finish(RdmaId& id, IdState state);
  void on_question(const LookupEvent& event, Instant now);
  void on_answer(const LookupEvent& event);

  Parts parts_;
  std::unordered_map<CommId, IdNumber> by_question_;
};

}  // namespace brdma::cm
