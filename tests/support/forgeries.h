// tests/support/forgeries.h - the number of packets in tests of blind forgery: BRDMA_FORGERIES, or a few.
#pragma once

#include <cstdlib>

namespace brdma::test {

inline unsigned forgeries() {
  const char* const wanted = std::getenv("BRDMA_FORGERIES");
  const unsigned long count = wanted == nullptr ? 0 : std::strtoul(wanted, nullptr, 10);
  return count == 0 ? 20'000 : static_cast<unsigned>(count);
}

}  // namespace brdma::test
