// support/checks.h - internal assertions, visible to a test: while a ThrowingChecks lives, a failed BRDMA_CHECK throws
// CheckFailed instead of aborting.  EXPECT_THROW(window.suspect(psn), test::CheckFailed);
#pragma once

#include <stdexcept>

#include "base/check.h"

namespace brdma::test {

struct CheckFailed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class ThrowingChecks {
 public:
  ThrowingChecks() {
    set_check_handler([](const char* expression, const CheckPlace&) { throw CheckFailed{expression}; });
  }
  ~ThrowingChecks() { set_check_handler(nullptr); }
  ThrowingChecks(const ThrowingChecks&) = delete;
  ThrowingChecks& operator=(const ThrowingChecks&) = delete;
};

}  // namespace brdma::test
