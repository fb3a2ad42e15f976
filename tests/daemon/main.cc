// BRDMA_TEST_AS_NOBODY=1: gives up root first, so that everything runs in a user namespace.
#include <grp.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const char* as_nobody = std::getenv("BRDMA_TEST_AS_NOBODY");
  constexpr uid_t kNobody = 65'534;
  if (as_nobody != nullptr && std::strcmp(as_nobody, "1") == 0 && geteuid() == 0) {
    if (setgroups(0, nullptr) != 0 || setresgid(kNobody, kNobody, kNobody) != 0 ||
        setresuid(kNobody, kNobody, kNobody) != 0) {
      std::perror("cannot become nobody");
      return 1;
    }
    prctl(PR_SET_DUMPABLE, 1);  // else /proc/self/uid_map stays root's
  }
  return RUN_ALL_TESTS();
}
