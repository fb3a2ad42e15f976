#include "system_daemon.h"

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "io/system/pass_descriptors.h"

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

ServiceManager::ServiceManager(std::function<void()> prepare)
    : prepare_(std::move(prepare)), socket_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;  // a name of the kernel's choice
  socklen_t size = sizeof(sa_family_t);
  EXPECT_EQ(::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), size), 0);
  size = sizeof address;
  EXPECT_EQ(::getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  const std::size_t length = size - offsetof(sockaddr_un, sun_path) - 1;
  ::setenv("NOTIFY_SOCKET", ("@" + std::string(address.sun_path + 1, length)).c_str(), 1);
}

ServiceManager::~ServiceManager() { ::unsetenv("NOTIFY_SOCKET"); }

void ServiceManager::start() {
  daemon_ = std::make_unique<Child>([&] {
    ::dup2(::open("/dev/null", O_WRONLY), STDERR_FILENO);           // its log
    const std::string vault = std::to_string(::dup(vault_.get()));  // without close-on-exec
    prepare_();
    ::execl(BRDMAD_PATH, "brdmad", "--system", "--foreground", vault_.valid() ? "--vault-fd" : nullptr, vault.c_str(),
            nullptr);
    return 127;
  });
  for (bool ready = false; !ready;) {
    std::array<char, 100> text{};
    std::array<io::FileDescriptor, 1> came;
    ASSERT_TRUE(wait_for_event(socket_.get(), POLLIN)) << "no READY=1";
    const auto size = io::receive_with_descriptors(socket_.get(), std::as_writable_bytes(std::span{text}), came);
    ASSERT_GT(size, 0);
    if (came[0].valid()) vault_ = std::move(came[0]);
    ready = std::string_view{text.data(), static_cast<std::size_t>(size)} == "READY=1";
  }
  ASSERT_TRUE(vault_.valid());
  ASSERT_TRUE(ask_until("version", [&](const json& answer) { return answer["pid"] == daemon_->pid(); }));
}

void ServiceManager::kill() {
  const io::FileDescriptor worker = watch_process(worker_pid());
  daemon_->kill_and_reap();
  ASSERT_TRUE(ends_within(worker));
}

bool ServiceManager::has_message() const { return wait_for_event(socket_.get(), POLLIN, 0ms); }

void ServiceManager::kill_and_start_again() {
  ASSERT_NO_FATAL_FAILURE(kill());
  start();
}

}  // namespace brdma::test
