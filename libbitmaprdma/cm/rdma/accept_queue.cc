#include "cm/rdma/accept_queue.h"

namespace brdma::cm {

Result<RdmaId*, AcceptQueue::Refusal> AcceptQueue::make_child(const Endpoints& endpoints, std::uint64_t service_id,
                                                              const std::byte* cm_address) {
  const auto address = wire::parse_cm_address(cm_address);
  if (!address || address->destination != endpoints.local) return Refusal::kBadAddress;
  RdmaId* const listener = ports_.listener_for(service_id, endpoints);
  const auto device = host_.device_of(endpoints.local, endpoints.scope);
  if (listener == nullptr || !device) return Refusal::kNobody;
  if (listener->waiting >= listener->backlog) return Refusal::kNoRoom;
  RdmaId* const child = ids_.add();
  if (child == nullptr) return Refusal::kNoRoom;
  child->channel = listener->channel;
  child->space = listener->space;
  child->type = listener->type;
  child->xrc = listener->xrc;
  child->state = IdState::kRequested;
  child->local = {endpoints.local, static_cast<std::uint16_t>(service_id)};
  child->remote = {address->source, address->source_port};
  for (SocketAddress* const end : {&child->local, &child->remote}) {
    if (end->is_link_local()) end->scope = endpoints.scope;
  }
  child->device = device;
  child->ack_timeout = ack_timeout_;
  child->listener = listener->number;
  return child;
}

}  // namespace brdma::cm
