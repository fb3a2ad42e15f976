#include "system_daemon.h"

#include <fcntl.h>
#include <grp.h>
#include <unistd.h>

#include <string>

namespace brdma::test {

bool become(uid_t uid) {
  return ::setgroups(0, nullptr) == 0 && ::setresgid(uid, uid, uid) == 0 && ::setresuid(uid, uid, uid) == 0;
}

int as_user(uid_t uid, const std::function<int()>& body) {
  return Child([&] { return become(uid) ? body() : 100; }).join();
}

void SystemDaemonTest::start(std::vector<const char*> more) {
  if (!can_change_user()) GTEST_SKIP() << "only root has other users' ids to try with";
  Gate ready;
  const std::string ready_fd = std::to_string(ready.signal_end.get());
  std::vector<const char*> words{"brdmad", "--system", "--foreground", "--ready-fd", ready_fd.c_str()};
  words.insert(words.end(), more.begin(), more.end());
  words.push_back(nullptr);
  daemon_ = std::make_unique<Child>([&] {
    ::dup2(::open("/dev/null", O_WRONLY), STDERR_FILENO);  // its log
    ::execv(BRDMAD_PATH, const_cast<char* const*>(words.data()));
    return 127;
  });
  ready.open();
  ASSERT_TRUE(ready.wait());
}

void SystemDaemonTest::TearDown() {
  DaemonTest::TearDown();
  daemon_.reset();
}

}  // namespace brdma::test
