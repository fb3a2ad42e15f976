// sim/controller/port_report.h - a switch's active feedback about a port, in the controller's form.
#pragma once

#include <string>
#include <utility>

#include "fabric/controller/controller.h"
#include "fabric/switch/link_state_agent.h"

namespace brdma::test {

inline fabric::controller::PortReport port_report(std::string port, const fabric::ActiveFeedback& said) {
  return {std::move(port),
          {.up = true,
           .rate = said.state.rate,
           .speed = said.state.speed,
           .load = said.state.load,
           .queue = said.state.queue_mean,
           .queue_limit = said.state.queue_limit,
           .drops = said.state.drops}};
}

}  // namespace brdma::test
