// support/seeds.h - runs a property once per seed; a failure names its seed and the command that replays it alone:
//   BRDMA_SEED=17 build/bin/<test> --gtest_filter=<case>
// BRDMA_SEEDS=n runs n seeds instead of the default number.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/random.h"

namespace brdma::test {

template <class Property>
void for_each_seed(std::uint64_t count, const Property& property) {
  std::uint64_t first = 1;
  if (const char* text = std::getenv("BRDMA_SEEDS")) count = std::strtoull(text, nullptr, 10);
  if (const char* text = std::getenv("BRDMA_SEED")) {
    first = std::strtoull(text, nullptr, 10);
    count = 1;
  }
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    SCOPED_TRACE("replay with BRDMA_SEED=" + std::to_string(seed));
    Random random{seed};
    property(random);
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace brdma::test
