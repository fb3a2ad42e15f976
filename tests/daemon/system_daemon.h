// tests/daemon/system_daemon.h - brdmad --system, and two users of it.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <vector>

#include "daemon_fixture.h"

namespace brdma::test {

inline constexpr uid_t kAlice = 61'001, kBob = 61'002;

bool become(uid_t uid);
int as_user(uid_t uid, const std::function<int()>& body);  // exit code of a child

// brdmad --system with further options; ends with the test.
class SystemDaemonTest : public DaemonTest {
 protected:
  void start(std::vector<const char*> more);
  void TearDown() override;

 private:
  std::unique_ptr<Child> daemon_;
};

// Replaces a service manager: starts brdmad --system as the unit does, and keeps its vault for the next one
// (sd_notify(3)).
class ServiceManager {
 public:
  // `prepare` runs in the new process before it becomes brdmad.
  explicit ServiceManager(std::function<void()> prepare = [] {});
  ~ServiceManager();
  void start();  // fatal failure: it does not serve
  void kill();   // holder and worker
  void kill_and_start_again();
  [[nodiscard]] bool has_message() const;  // one that start() did not take

 private:
  std::function<void()> prepare_;
  io::FileDescriptor socket_, vault_;
  std::unique_ptr<Child> daemon_;
};

}  // namespace brdma::test
