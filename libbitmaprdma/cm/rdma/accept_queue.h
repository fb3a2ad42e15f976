// cm/rdma/accept_queue.h - a request becomes a child of its listener, which waits until the program has fetched it. A
// listener has as many that wait as its backlog says.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cm/rdma/event_channels.h"
#include "cm/rdma/ports.h"

namespace brdma::cm {

class AcceptQueue {
 public:
  // `ack_timeout`: of children whose peer names none.
  AcceptQueue(RdmaHost& host, IdTable& ids, Ports& ports, EventChannels& channels, std::uint8_t ack_timeout)
      : host_(host), ids_(ids), ports_(ports), channels_(channels), ack_timeout_(ack_timeout) {}

  enum class Refusal : std::uint8_t { kBadAddress, kNobody, kNoRoom };
  // `cm_address`: the first 36 bytes of a request's private data.
  [[nodiscard]] Result<RdmaId*, Refusal> make_child(const Endpoints& endpoints, std::uint64_t service_id,
                                                    const std::byte* cm_address);
  // Reports the new child to the listener; it waits. `event`: its parameters.
  void push(const RdmaId& child, const RdmaEvent& event) { channels_.queue_request(child, event); }

 private:
  RdmaHost& host_;
  IdTable& ids_;
  Ports& ports_;
  EventChannels& channels_;
  std::uint8_t ack_timeout_;
};

}  // namespace brdma::cm
