// Responders that receive with gaps: for the tests of qp/gaps/request_gaps.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "support/responder_parts.h"

namespace brdma::test {

// The limits do not learn: 8 packets, 50 us, 80 us.
struct Receiver : ReceiverParts {
  Receiver() { recovery.adaptive = false; }
  [[nodiscard]] std::vector<std::uint32_t> open() const {
    std::vector<std::uint32_t> starts;
    for (std::size_t i = 0; i < state->gaps.size(); ++i) starts.push_back(state->gaps[i].start.value());
    return starts;
  }
};

// Of a standard peer, which has been sent back to the base: packets up to 1009 had come, 1000 has not.
struct StandardReceiver : Receiver {
  StandardReceiver() { bitmap = false; }
  void goes_back() {
    arrive(1001, 1009);
    resources.pop();
  }
};

}  // namespace brdma::test
