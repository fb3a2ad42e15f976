// main of the tests that run with the library preloaded: in a network namespace of their own, where lo is the only
// interface; and not at all without the library, as they would test nothing.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "io/private_network.h"

int main(int argc, char** argv) {
  const char* preload = std::getenv("LD_PRELOAD");
  if (preload == nullptr || std::strstr(preload, "libbitmaprdma.so") == nullptr) {
    ::setenv("LD_PRELOAD", BRDMA_LIBRARY, 1);
    ::execv("/proc/self/exe", argv);
    std::perror("execv");
    return 1;
  }
  testing::InitGoogleTest(&argc, argv);
  if (testing::GTEST_FLAG(list_tests)) return RUN_ALL_TESTS();
  if (!brdma::test::enter_private_network()) {
    std::fprintf(stderr, "skipped: no network namespace to be had (not root, and user namespaces are forbidden)\n");
    return 77;
  }
  ::setenv("BRDMA_IDLE_SECONDS", "1", 1);  // a daemon that a test starts ends soon after it
  return RUN_ALL_TESTS();
}
