// Restricted programs: without netlink sockets, as under systemd's RestrictAddressFamilies= or SELinux, they have their
// devices; and the message names whatever the system refuses.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "io/private_network.h"
#include "io/test_network.h"
#include "provider/verbs_fixture.h"

namespace brdma::test {
namespace {

using testing::HasSubstr;
using testing::Not;

// A system call that fails with an error; `first`: only with that first argument.
struct Refused {
  unsigned call = 0;
  std::optional<unsigned> first{};
  int error = 0;
};

bool refuse(const Refused& what) {
  const auto load = [](std::size_t offset) {
    return sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<unsigned>(offset));
  };
  const auto skip_unless = [](unsigned value, std::uint8_t count) {
    return sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, count);
  };
  const sock_filter refusal = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(what.error));
  const sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  std::vector<sock_filter> program{load(offsetof(seccomp_data, nr))};
  if (what.first) {
    program.insert(program.end(), {skip_unless(what.call, 3), load(offsetof(seccomp_data, args)),
                                   skip_unless(*what.first, 1), refusal, allow});
  } else {
    program.insert(program.end(), {skip_unless(what.call, 1), refusal, allow});
  }
  const sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

int failures() {
  const testing::TestResult* const result = testing::UnitTest::GetInstance()->current_test_info()->result();
  int count = 0;
  for (int i = 0; i < result->total_part_count(); ++i) count += result->GetTestPartResult(i).failed() ? 1 : 0;
  return count;
}

// A child process that runs `confine` before `body`, and its standard error.
struct Confined {
  int exit_code = -1;
  std::string said;
};
Confined confined(const std::function<bool()>& confine, const std::function<void()>& body,
                  const std::function<void()>& meanwhile = {}) {
  std::array<int, 2> said{};
  EXPECT_EQ(::pipe2(said.data(), O_CLOEXEC), 0);
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(said[1], STDERR_FILENO);
    if (!confine()) ::_exit(99);
    const int failures_before = failures();
    body();
    ::_exit(failures() == failures_before ? 0 : 1);
  }
  ::close(said[1]);
  if (meanwhile) meanwhile();
  Confined result;
  for (char part[4096];;) {
    const ssize_t got = ::read(said[0], part, sizeof part);
    if (got <= 0) break;
    result.said.append(part, static_cast<std::size_t>(got));
  }
  ::close(said[0]);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  return result;
}

// Two queue pairs of two contexts, and data between them, by polling and by events.
void move_data() {
  Side a = Side::make(), b = Side::make();
  connect(a, b);
  for (std::uint64_t i = 1; i <= 100; ++i) {
    ASSERT_EQ(ibv_req_notify_cq(a.cq.get(), 0), 0);
    a.memory[0] = static_cast<std::uint8_t>(i);
    ibv_sge sge = a.sge(0, 4096);
    ibv_send_wr request = write_request(sge, b);
    request.wr_id = i;
    ASSERT_EQ(post_send(a, request), 0);
    ibv_cq* queue = nullptr;
    void* user = nullptr;
    ASSERT_EQ(ibv_get_cq_event(a.channel.get(), &queue, &user), 0);
    ibv_ack_cq_events(queue, 1);
    const ibv_wc done = wait_completion(a.cq.get());
    ASSERT_EQ(done.status, IBV_WC_SUCCESS) << ibv_wc_status_str(done.status);
    ASSERT_EQ(b.memory[0], i);
  }
}

// The whole path: a failure is reported on standard error.
void open_and_close() {
  int count = 0;
  ibv_device** const list = ibv_get_device_list(&count);
  if (count == 0) std::fprintf(stderr, "nothing listed\n");
  if (list == nullptr || count == 0) return;
  ibv_context* const context = ibv_open_device(list[0]);
  ibv_free_device_list(list);
  if (context == nullptr) return;
  std::fprintf(stderr, "opened\n");
  EXPECT_EQ(ibv_close_device(context), 0);
}

constexpr const char* kWrongReasons[] = {"interface is up", "no IP address", "version", "closed the connection"};

class Sandbox : public testing::Test {
 protected:
  void SetUp() override {
    if (over_xdp()) GTEST_SKIP() << "AF_XDP asks netlink for neighbours";
  }
};

TEST_F(Sandbox, WithoutNetlinkThereAreDevicesAndDataMoves) {
  for (const int error : {EAFNOSUPPORT, EACCES, EPERM, ENOSYS, ENOBUFS, ENOMEM}) {
    SCOPED_TRACE(std::strerror(error));
    const Confined program = confined([error] { return refuse({SYS_socket, AF_NETLINK, error}); }, move_data);
    EXPECT_EQ(program.exit_code, 0);
    EXPECT_EQ(program.said, "");
  }
}

// A program without notifications of changes polls for them.
TEST_F(Sandbox, WithoutNetlinkEventsStillCome) {
  ASSERT_TRUE(ip("link add box0 type veth peer name box1"));
  ASSERT_TRUE(ip("link set box1 addrgenmode none up") && ip("link set box0 up"));
  ASSERT_TRUE(ip("address add 10.9.6.1/24 dev box0") && wait_until_running("box0"));
  std::array<int, 2> ready{};
  ASSERT_EQ(::pipe(ready.data()), 0);
  const auto body = [&] {
    const auto context = open_first_device();
    const auto expect = [&](ibv_event_type type) {
      const char go = 1;
      ASSERT_EQ(::write(ready[1], &go, 1), 1);
      for (;;) {
        pollfd readable{context->async_fd, POLLIN, 0};
        ibv_async_event event{};
        ASSERT_EQ(::poll(&readable, 1, 10'000), 1) << type;
        ASSERT_EQ(ibv_get_async_event(context.get(), &event), 0);
        ibv_ack_async_event(&event);
        if (event.event_type == type) return;
      }
    };
    for (const auto type : {IBV_EVENT_GID_CHANGE, IBV_EVENT_PORT_ERR, IBV_EVENT_PORT_ACTIVE, IBV_EVENT_DEVICE_FATAL})
      expect(type);
  };
  const auto change = [&] {
    ::close(ready[1]);
    for (const char* step :
         {"address add 10.9.5.1/24 dev box0", "link set box0 down", "link set box0 up", "link delete box0"}) {
      char go = 0;
      if (::read(ready[0], &go, 1) != 1) return;  // it has failed, and reports so
      EXPECT_TRUE(ip(step));
    }
  };
  const Confined program = confined([] { return refuse({SYS_socket, AF_NETLINK, EAFNOSUPPORT}); }, body, change);
  EXPECT_EQ(program.exit_code, 0) << program.said;
  ::close(ready[0]);
  (void)ip("link delete box0");
}

// Each system call on the path, refused with each error that a policy or a limit gives.
TEST_F(Sandbox, TheRefusedCallIsTheReportedOne) {
  const std::pair<const char*, Refused> calls[] = {
      {"all sockets", {SYS_socket}},
      {"Unix sockets", {SYS_socket, AF_UNIX}},
      {"connect", {SYS_connect}},
      {"pipe2", {SYS_pipe2}},
  };
  for (const auto& [name, call] : calls) {
    for (const int error : {EACCES, EPERM, ENOMEM, ENOBUFS, EMFILE, ENFILE, ENOSYS, EAFNOSUPPORT}) {
      SCOPED_TRACE(std::string(name) + ": " + std::strerror(error));
      Refused what = call;
      what.error = error;
      const Confined program = confined([&] { return refuse(what); }, open_and_close);
      EXPECT_EQ(program.exit_code, 0);
      EXPECT_THAT(program.said, HasSubstr(std::strerror(error)));
      for (const char* wrong : kWrongReasons) EXPECT_THAT(program.said, Not(HasSubstr(wrong)));
    }
  }
}

// Descriptors run out at each place in turn. (The system's limit stays: brdmad raises its own.) Before the first device
// libibverbs needs two itself, and reports nothing.
TEST_F(Sandbox, NoDescriptorLeftIsSaidAsSuch) {
  bool opened = false;
  int refusals = 0, silent = 0;
  for (rlim_t spare = 0; !opened && spare < 64; ++spare) {
    SCOPED_TRACE("descriptors left: " + std::to_string(spare));
    // So many numbers are free below the limit, whatever else is open.
    const auto limit = [spare] {
      std::vector<int> taken;
      for (rlim_t i = 0; i <= spare; ++i) taken.push_back(::fcntl(STDIN_FILENO, F_DUPFD, 0));
      for (const int fd : taken) ::close(fd);
      rlimit few{};
      if (taken.back() < 0 || ::getrlimit(RLIMIT_NOFILE, &few) != 0) return false;
      few.rlim_cur = static_cast<rlim_t>(taken.back());
      return ::setrlimit(RLIMIT_NOFILE, &few) == 0;
    };
    const Confined program = confined(limit, open_and_close);
    EXPECT_EQ(program.exit_code, 0);
    opened = program.said.find("opened") != std::string::npos;
    if (opened) break;
    if (program.said == "nothing listed\n" && ++silent <= 2) continue;
    ++refusals;
    EXPECT_THAT(program.said, HasSubstr("ulimit")) << "what to do about it";
    for (const char* wrong : kWrongReasons) EXPECT_THAT(program.said, Not(HasSubstr(wrong)));
  }
  EXPECT_TRUE(opened);
  EXPECT_GE(refusals, 5);
}

// Covered by an empty directory, as in a container that mounts none.
TEST_F(Sandbox, WithoutSysThereAreDevices) {
  const auto cover = [] { return ::unshare(CLONE_NEWNS) == 0 && ::mount("none", "/sys", "tmpfs", 0, "") == 0; };
  const Confined program = confined(cover, move_data);
  EXPECT_EQ(program.exit_code, 0);
  EXPECT_EQ(program.said, "");
}

TEST_F(Sandbox, WithoutProcTheReasonIsNoOther) {
  const auto cover = [] { return ::unshare(CLONE_NEWNS) == 0 && ::mount("none", "/proc", "tmpfs", 0, "") == 0; };
  const Confined program = confined(cover, open_and_close);
  EXPECT_EQ(program.exit_code, 0);
  for (const char* wrong : kWrongReasons) EXPECT_THAT(program.said, Not(HasSubstr(wrong)));
}

}  // namespace
}  // namespace brdma::test
