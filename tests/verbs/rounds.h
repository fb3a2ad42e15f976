// rounds.h - the script: rounds of operations made from one seed, known to both sides, so that each checks the other.
#pragma once

#include <cstdint>

#include "endpoint.h"

struct Totals {
  std::uint64_t operations = 0;
  std::uint64_t bytes = 0;
};

// Runs all rounds; throws std::runtime_error that names round, operation and byte of the first difference.
Totals run_rounds(const Options& options, Endpoint& endpoint, ControlChannel& control);
