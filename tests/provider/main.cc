// main of the tests that run with the library preloaded: in a network namespace of their own, where lo is the only
// interface at first. Started without the library it starts itself again with it.
// BRDMA_TEST_AS_NOBODY=1: gives up root first, so that everything runs in a user namespace.
#include <grp.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "io/private_network.h"

namespace {

constexpr int kSkipped = 77;
constexpr uid_t kNobody = 65'534;

bool is_set(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && std::string_view(value) == "1";
}

bool become_nobody() {
  return ::setgroups(0, nullptr) == 0 && ::setresgid(kNobody, kNobody, kNobody) == 0 &&
         ::setresuid(kNobody, kNobody, kNobody) == 0;
}

}  // namespace

int main(int argc, char** argv) {
  const char* preload = std::getenv("LD_PRELOAD");
  if (preload == nullptr || std::strstr(preload, "libbitmaprdma.so") == nullptr) {
    if (is_set("BRDMA_TEST_AS_NOBODY") && ::geteuid() == 0 && !become_nobody()) {
      std::perror("cannot become nobody");
      return 1;
    }
    if (::access(BRDMA_LIBRARY, R_OK) != 0) {
      std::fprintf(stderr, "skipped: this user may not read %s\n", BRDMA_LIBRARY);
      return kSkipped;
    }
    ::setenv("LD_PRELOAD", BRDMA_LIBRARY, 1);
    ::setenv("BRDMA_IDLE_SECONDS", "1", 1);  // a daemon that a test starts ends soon after it
    ::setenv("HOME", "/nonexistent", 1);     // nobody's settings
    ::unsetenv("XDG_CONFIG_HOME");
    ::execv("/proc/self/exe", argv);
    std::perror("execv");
    return 1;
  }
  testing::InitGoogleTest(&argc, argv);
  if (testing::GTEST_FLAG(list_tests)) return RUN_ALL_TESTS();
  if (!brdma::test::enter_private_network()) {
    std::fprintf(stderr, "skipped: no network namespace to be had (not root, and user namespaces are forbidden)\n");
    return kSkipped;
  }
  return RUN_ALL_TESTS();
}
