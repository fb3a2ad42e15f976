// cm/agent_impl.h - for agent.cc and agent_messages.cc only.
#pragma once

#include "cm/agent.h"

namespace brdma::cm {

template <class Message>
void Agent::tell(const Connection& connection, Event::Kind kind, const Message& message) {
  if (connection.owned) events_.push_back({kind, connection.id, connection.endpoints, message});
}

}  // namespace brdma::cm
