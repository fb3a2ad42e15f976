// The tests' main: in a network namespace of their own.
#include <gtest/gtest.h>

#include <cstdio>

#include "private_network.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (testing::GTEST_FLAG(list_tests)) return RUN_ALL_TESTS();
  if (!brdma::test::enter_private_network()) {
    std::fprintf(stderr, "skipped: no network namespace to be had (not root, and user namespaces are forbidden)\n");
    return 77;
  }
  return RUN_ALL_TESTS();
}
