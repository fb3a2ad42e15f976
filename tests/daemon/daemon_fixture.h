// tests/daemon/daemon_fixture.h - a network namespace for each test, and operations on its brdmad. Everything waits on
// events (descriptors, process ends, answers), with bounds.
#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>

#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "io/daemon/lease.h"
#include "io/system/file_descriptor.h"

namespace brdma::test {

using nlohmann::json;
using namespace std::chrono_literals;

inline constexpr std::chrono::seconds kPatience{20};  // far above any step here

// Each test starts in a fresh network namespace without daemon; a daemon left at the end is ended.
class DaemonTest : public testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;
};

[[nodiscard]] DeviceInfo loopback_device();
[[nodiscard]] io::Lease lease_or_die();              // a test failure (and an empty lease) if there is none
[[nodiscard]] std::string lease_refusal(int error);  // the message; a test failure on another error

// The answer; a test failure if there is none.
[[nodiscard]] json ask(const json& question);
[[nodiscard]] json ask(const char* query);
[[nodiscard]] pid_t holder_pid();
[[nodiscard]] pid_t worker_pid();

// Queries again until `done` holds (each round waits for the daemon's answer). False: not within kPatience.
[[nodiscard]] bool ask_until(const char* query, const std::function<bool(const json&)>& done);
[[nodiscard]] bool leases_become(std::size_t count);

[[nodiscard]] bool wait_for_event(int fd, short events, std::chrono::milliseconds at_most = kPatience);
[[nodiscard]] io::FileDescriptor watch_process(pid_t pid);  // readable once the process has ended
bool ends_within(const io::FileDescriptor& process, std::chrono::milliseconds at_most = kPatience);

// A child process that runs `body` and exits with what it returns; killed with the object if still there.
class Child {
 public:
  explicit Child(const std::function<int()>& body);
  ~Child();
  Child(Child&& other) noexcept;
  Child& operator=(Child&&) = delete;
  [[nodiscard]] pid_t pid() const { return pid_; }
  int join();  // exit code; -signal where it was killed
  void kill_and_reap();

 private:
  pid_t pid_;
};

// Runs the daemon's program with up to two options, silent; its exit code. Without options it returns once it serves.
int run_brdmad(const char* option = nullptr, const char* second = nullptr);

// A pipe: one end to wait at, one to signal.
struct Gate {
  Gate();
  io::FileDescriptor wait_end, signal_end;
  void open() { signal_end.reset(); }  // all who wait go on
  [[nodiscard]] bool wait(std::chrono::milliseconds at_most = kPatience) const;
};

// A child process that gets ready and stays until it is to end. `body` reports by `ready` that it is, and waits at
// `stop`.
class Companion {
 public:
  explicit Companion(const std::function<int(Gate& ready, const Gate& stop)>& body);
  int end();  // as Child::join()

 private:
  Gate ready_, stop_;
  Child child_;
};

// A socket that listens in the daemon's place, at its abstract name; invalid if the name is taken.
[[nodiscard]] io::FileDescriptor listen_as_daemon(int backlog);

// A datagram with `qpn` where BTH has its destination, to port 4791 of loopback; segments > 1: as one GSO batch.
void send_to_qpn(std::uint32_t qpn, bool ipv6, unsigned segments = 1, std::size_t bytes = 64, bool udp_checksum = true);
// Datagrams waiting on the socket, taken from it; waits for the first.
[[nodiscard]] std::vector<std::vector<std::uint8_t>> receive_all(int socket_fd, std::size_t expected);

// True if this process may become other users (it is root, and not only of a user namespace).
[[nodiscard]] bool can_change_user();

}  // namespace brdma::test
