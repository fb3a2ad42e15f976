// samples/errors.h - the two kinds of failure of a program that measures, each with a sentence for the user.
#pragma once

#include <stdexcept>

namespace brdma::samples {

// The caller's mistake: exit code 2.
struct Misuse : std::runtime_error {
  using std::runtime_error::runtime_error;
};
// A run that cannot begin or continue: exit code 1. The text says what to do next.
struct RunError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace brdma::samples
