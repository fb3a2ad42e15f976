// The tests' main: in a network namespace of their own.
#include <gtest/gtest.h>

#include <cstdio>

#include "private_network.h"

// RDMA is one side writing the other's memory behind its back. The tests look at registered memory after a completion
// on the other side, which ThreadSanitizer cannot know to be an order; everything else it may judge.
extern "C" __attribute__((visibility("default"))) const char* __tsan_default_suppressions();
const char* __tsan_default_suppressions() {
  return "race:same\n"
         "race:fill\n"
         "race:exercise\n";
}

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (testing::GTEST_FLAG(list_tests)) return RUN_ALL_TESTS();
  if (!brdma::test::enter_private_network()) {
    std::fprintf(stderr, "skipped: no network namespace to be had (not root, and user namespaces are forbidden)\n");
    return 77;
  }
  return RUN_ALL_TESTS();
}
