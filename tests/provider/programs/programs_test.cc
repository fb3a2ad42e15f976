// Unmodified programs of Debian, with the library preloaded, between two network namespaces joined by veth. The whole
// matrix, with impaired networks, is tests/e2e; these cases test plugin and hooks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "io/daemon/daemon_client.h"
#include "io/private_network.h"

namespace brdma::test {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

struct Outcome {
  int exit_code = -1;
  std::string output;  // standard output and error
};

// A shell command; killed after 40 seconds.
class Running {
 public:
  explicit Running(const std::string& command)
      : pipe_(::popen(("timeout -s KILL 40 " + command + " 2>&1").c_str(), "r")) {}
  Outcome wait() {
    Outcome outcome;
    char buffer[4096];
    while (const std::size_t got = std::fread(buffer, 1, sizeof buffer, pipe_)) outcome.output.append(buffer, got);
    const int status = ::pclose(pipe_);
    outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return outcome;
  }

 private:
  std::FILE* pipe_;
};

// Paths, which may have blanks, are variables of the shell's.
[[maybe_unused]] const bool kPathsAreSet =
    ::setenv("TESTED_BRDMA", BRDMA_PROGRAM, 1) == 0 &&
    ::setenv("TESTED_LINKED_PROGRAM", BRDMA_LINKED_PROGRAM, 1) == 0 &&
    ::setenv("TESTED_FOLDER", fs::path{BRDMA_TESTED_LIBRARY}.parent_path().c_str(), 1) == 0;

Outcome run(const std::string& command) { return Running(command).wait(); }

// Somebody in this thread's network namespace listens on TCP: state 0A in the kernel's table.
bool somebody_listens() {
  for (const char* table : {"/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"}) {
    std::ifstream file(table);
    std::string line;
    while (std::getline(file, line)) {
      std::istringstream fields(line);
      std::string slot, local, remote, state;
      fields >> slot >> local >> remote >> state;
      if (state == "0A") return true;
    }
  }
  return false;
}

class Programs : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(network_.ready()); }

  // `command` as server here, and with this side's address behind it as client there.
  void expect_pair_runs(const std::string& command) {
    Running server(command);
    const auto end = std::chrono::steady_clock::now() + 20s;
    while (!somebody_listens()) {
      ASSERT_LT(std::chrono::steady_clock::now(), end) << command << " does not listen: " << server.wait().output;
      std::this_thread::sleep_for(5ms);  // another program's listen() causes no event to wait for
    }
    Outcome client;
    {
      const SecondNetwork::Visit visit{network_};
      client = run(command + " 10.9.0.1");
    }
    const Outcome served = server.wait();
    EXPECT_EQ(client.exit_code, 0) << command << "\n" << client.output;
    EXPECT_EQ(served.exit_code, 0) << command << "\n" << served.output;
  }

  // When these tests run over AF_XDP (main.cc): not by UDP, the silent fallback.
  void TearDown() override {
    const char* const wanted = std::getenv("BRDMA_TEST_XDP");
    const auto answer = io::query_daemon({{"query", "statistics"}});
    if (wanted == nullptr || !answer) return;
    for (const auto& row : answer.value()["devices"]) {
      const auto count = [&](const char* name) { return row["counters"][name].get<std::uint64_t>(); };
      if (count("rcvd_pkts") < 100) continue;
      EXPECT_GT(count("xdp_rcvd_pkts"), count("rcvd_pkts") / 2) << row;
    }
    EXPECT_TRUE(io::query_daemon({{"query", "shutdown"}, {"force", true}}).ok());
  }

  SecondNetwork network_;
};

TEST_F(Programs, DevicesAreListed) {
  const Outcome devices = run("ibv_devices");
  EXPECT_EQ(devices.exit_code, 0);
  EXPECT_THAT(devices.output, testing::HasSubstr("brdma_left"));
  EXPECT_THAT(devices.output, testing::HasSubstr("000000fffd000901"));  // from 02:00:00:00:09:01
}

TEST_F(Programs, DevinfoTellsTheWholeStory) {
  const Outcome info = run("ibv_devinfo -v");
  EXPECT_EQ(info.exit_code, 0);
  for (const char* line :
       {"hca_id:\tbrdma_left", "transport:\t\t\tInfiniBand (0)", "phys_port_cnt:\t\t\t1", "max_qp_wr:\t\t\t16384",
        "max_qp_rd_atom:\t\t\t128", "atomic_cap:\t\t\tATOMIC_HCA (1)", "active_mtu:\t\t4096 (5)",
        "link_layer:\t\tEthernet", "GID[  1]:\t\t::ffff:10.9.0.1, RoCE v2", "GID[  2]:\t\tfd09::1, RoCE v2"}) {
    EXPECT_THAT(info.output, testing::HasSubstr(line));
  }
  EXPECT_THAT(info.output, testing::Not(testing::HasSubstr("libbitmaprdma:")));
}

TEST_F(Programs, ScriptsSeeTheFiles) {
  const Outcome names =
      run("sh -c 'cd /sys/class/infiniband && for d in *; do [ -d $d/ports/1 ] && cat $d/node_type; done'");
  EXPECT_EQ(names.output, "1: CA\n");
  const Outcome list = run("ls -l /sys/class/infiniband /dev/infiniband");
  EXPECT_EQ(list.exit_code, 0) << list.output;
  EXPECT_THAT(list.output, testing::HasSubstr("-> /dev/full"));
}

TEST_F(Programs, PingPong) {
  for (const char* options :
       {"", "-g 1", "-g 1 -e", "-g 2", "-g 2 -e", "-g 1 -s 1", "-g 1 -s 4097 -n 200", "-g 1 -s 1048576 -n 50"}) {
    expect_pair_runs(std::string("ibv_rc_pingpong ") + options);
  }
}

// -F: without it perftest measures the processor's clock and gives up where a busy machine disturbs that.
TEST_F(Programs, Bandwidth) {
  for (const char* command :
       {"ib_write_bw -F -n 200", "ib_send_bw -F -n 200", "ib_read_bw -F -n 200", "ib_atomic_bw -F -n 200",
        "ib_send_bw -F -n 200 -e", "ib_read_bw -F -n 200 -e", "ib_write_bw -F -n 200 -b", "ib_send_bw -F -n 200 -q 4",
        "ib_write_bw -F -n 1280 -s 64 -l 64"}) {
    expect_pair_runs(command);
  }
}

TEST_F(Programs, Latency) {
  for (const char* command : {"ib_write_lat -F -n 200", "ib_send_lat -F -n 200", "ib_read_lat -F -n 200",
                              "ib_atomic_lat -F -n 200", "ib_send_lat -F -n 200 -e", "ib_read_lat -F -n 200 -e"}) {
    expect_pair_runs(command);
  }
}

// --- when something is missing ---

TEST(Missing, NoInterfaceIsUp) {
  const Outcome devices = run("unshare -n ibv_devices");
  EXPECT_THAT(devices.output, testing::HasSubstr("libbitmaprdma: no RDMA device: "));
  EXPECT_THAT(devices.output, testing::HasSubstr("ip link set"));
}

// Runs `command` with other file systems at /tmp and /dev/shm, mounted with these options. The library is visible
// elsewhere, as it may lie below /tmp itself.
Outcome run_with_places(const std::string& tmp_options, const std::string& shm_options, const std::string& command) {
  return run(
      "env -u LD_PRELOAD -u XDG_RUNTIME_DIR unshare -m sh -c 'mount --bind \"$TESTED_FOLDER\""
      " /mnt && mount -t tmpfs -o " +
      tmp_options + " none /tmp && mount -t tmpfs -o " + shm_options +
      " none /dev/shm && LD_PRELOAD=/mnt/libbitmaprdma.so exec " + command + "'");
}

TEST(Missing, NoRoomForTheDeviceFiles) {
  const Outcome devices = run_with_places("nr_inodes=1", "nr_inodes=20", "ibv_devices");
  EXPECT_NE(devices.exit_code, 0) << devices.output;
  EXPECT_THAT(devices.output, testing::HasSubstr("libbitmaprdma: cannot write the device files"));
  EXPECT_THAT(devices.output, testing::ContainsRegex("/tmp/brdma-[0-9]+: No space left on device"));
  EXPECT_THAT(devices.output, testing::ContainsRegex("/dev/shm/brdma-[0-9]+: No space left on device"));
  EXPECT_THAT(devices.output, testing::HasSubstr("set XDG_RUNTIME_DIR"));
}

TEST(Missing, ReadOnlyPlacesAreNamed) {
  const Outcome devices = run_with_places("ro", "ro", "ibv_devices");
  EXPECT_THAT(devices.output, testing::HasSubstr("Read-only file system"));
}

TEST(Missing, ASecondPlaceServes) {
  const Outcome devices = run_with_places("ro", "rw", "ibv_devices");
  EXPECT_EQ(devices.exit_code, 0) << devices.output;
  EXPECT_THAT(devices.output, testing::HasSubstr("brdma_lo"));
}

// libibverbs gets a plain failure, the user a sentence.
TEST(Missing, NoDaemonProgram) {
  const Outcome info = run("unshare -n sh -c 'ip link set lo up && BRDMA_DAEMON=/nonexistent/brdmad exec ibv_devinfo'");
  EXPECT_THAT(info.output, testing::HasSubstr("libbitmaprdma: "));
  EXPECT_THAT(info.output, testing::HasSubstr("/nonexistent/brdmad"));
}

TEST(WaysIn, LinkedInsteadOfPreloaded) {
  const Outcome linked = run("env -u LD_PRELOAD \"$TESTED_LINKED_PROGRAM\"");
  EXPECT_EQ(linked.exit_code, 0) << linked.output;
  EXPECT_EQ(linked.output, "brdma_lo\n");
}

#if defined(BRDMA_SANITIZED_PROGRAM)
// A fault of ours is an error, its own a report.
TEST(WaysIn, WithAnAddressSanitizer) {
  ::setenv("TESTED_SANITIZED_PROGRAM", BRDMA_SANITIZED_PROGRAM, 1);
  const Outcome sanitized = run("\"$TESTED_SANITIZED_PROGRAM\"");
  EXPECT_NE(sanitized.exit_code, 0);
  EXPECT_THAT(sanitized.output, testing::StartsWith("remote access error\n"));
  EXPECT_THAT(sanitized.output, testing::HasSubstr("AddressSanitizer: SEGV on unknown address"));
  EXPECT_THAT(sanitized.output, testing::Not(testing::HasSubstr("went on")));
}
#endif

// Their faults become exceptions as usual, ours errors.
#if defined(BRDMA_JAVA_PROGRAM)
TEST(WaysIn, FromJava) {
  ::setenv("TESTED_JAVA_PROGRAM", BRDMA_JAVA_PROGRAM, 1);
  ::setenv("TESTED_JAVA_LIBRARIES", BRDMA_JAVA_LIBRARIES, 1);
  const Outcome java =
      run("java -Xcheck:jni -Djava.library.path=\"$TESTED_JAVA_LIBRARIES\" \"$TESTED_JAVA_PROGRAM\" 20");
  EXPECT_EQ(java.exit_code, 0);
  EXPECT_THAT(java.output, testing::HasSubstr("60 of 60 requests, 20 of 20 faults of its own\n"));
}
#endif

#if defined(BRDMA_GO_PROGRAM)
TEST(WaysIn, FromGo) {
  ::setenv("TESTED_GO_PROGRAM", BRDMA_GO_PROGRAM, 1);
  const Outcome go = run("\"$TESTED_GO_PROGRAM\" 20");
  EXPECT_EQ(go.exit_code, 0);
  EXPECT_EQ(go.output, "60 of 60 requests, 20 of 20 faults of its own\n");
}
#endif

// --- a namespace, for programs that scrub their environment ---

const std::string kScrubbed = "env -u LD_PRELOAD \"$TESTED_BRDMA\" run --namespace -- env -i ";

TEST_F(Programs, ScrubbedEnvironment) {
  const Outcome info = run(kScrubbed + "ibv_devinfo");
  EXPECT_EQ(info.exit_code, 0) << info.output;
  EXPECT_THAT(info.output, testing::HasSubstr("hca_id:\tbrdma_left"));
  for (const char* program : {"ibv_rc_pingpong -g 1", "ibv_rc_pingpong -g 1 -e", "ib_write_bw -F -n 200"}) {
    expect_pair_runs(kScrubbed + program);
  }
}

// As an ordinary user: a user namespace with the same user. (User 0 needs one capability for that.)
TEST_F(Programs, ScrubbedEnvironmentWithoutCapabilities) {
  const std::string bare =
      "env -u LD_PRELOAD setpriv --bounding-set=-all,+setfcap --inh-caps=-all \"$TESTED_BRDMA\""
      " run --namespace -- env -i ";
  EXPECT_EQ(run(bare + "id -u").output, run("id -u").output);
  expect_pair_runs(bare + "ibv_rc_pingpong -g 1 -e");
}

// Through /proc/self/root, which no hook knows: the view of a static program. Original files are there.
TEST_F(Programs, NamespaceShowsTheFilesToEverybody) {
  const std::string below = "ls /proc/self/root";
  EXPECT_THAT(run(kScrubbed + below + "/sys/class/infiniband").output, testing::HasSubstr("brdma_left\n"));
  EXPECT_THAT(run(kScrubbed + below + "/dev/infiniband").output,
              testing::AllOf(testing::HasSubstr("rdma_cm\n"), testing::HasSubstr("uverbs")));
  const Outcome guid = run(kScrubbed + "cat /proc/self/root/sys/class/infiniband/brdma_left/node_guid");
  EXPECT_EQ(guid.exit_code, 0) << guid.output;
  for (const char* directory : {"/dev", "/sys/class", "/sys/devices/virtual"}) {
    std::istringstream names(run(std::string("ls ") + directory).output);
    const std::string after = "\n" + run(kScrubbed + "ls " + directory).output;
    for (std::string name; std::getline(names, name);) EXPECT_THAT(after, testing::HasSubstr("\n" + name + "\n"));
  }
  EXPECT_EQ(run(kScrubbed + "sh -c 'cat /etc/passwd && ls /etc/ssl /dev/pts /sys/class/net/'").output,
            run("sh -c 'cat /etc/passwd && ls /etc/ssl /dev/pts /sys/class/net/'").output);
  EXPECT_EQ(run("ls /etc/ld.so.preload").exit_code, 2) << "something stayed";
  EXPECT_THAT(run(kScrubbed + "sh -c 'echo x > /etc/brdma-test'").output, testing::HasSubstr("Read-only file system"));
}

// The paths of classes lead to devices, for static programs too.
TEST_F(Programs, NamespaceHasWhereLinksLead) {
  EXPECT_EQ(run(kScrubbed + "realpath /sys/class/infiniband/brdma_left").output,
            "/sys/devices/virtual/infiniband/brdma_left\n");
  EXPECT_EQ(run(kScrubbed + "readlink -e /proc/self/root/sys/class/infiniband/brdma_left/ports").exit_code, 0);
  EXPECT_THAT(run(kScrubbed + "rdma link").output, testing::HasSubstr("link brdma_left/1 state ACTIVE"));
}

// --- a kernel with a device of its own: one made of files, below a /sys/class that is this command's ---

Outcome beside_kernel(const std::string& command) {
  ::setenv("TESTED_COMMAND", command.c_str(), 1);
  return run(
      "env -u LD_PRELOAD unshare --mount sh -c 'mount -t tmpfs none /sys/class && mkdir -p /sys/class/net "
      "/sys/class/infiniband/mlx5_0 /sys/class/infiniband_verbs/uverbs0 && echo 1: CA "
      ">/sys/class/infiniband/mlx5_0/node_type && echo mlx5_0 >/sys/class/infiniband_verbs/uverbs0/ibdev && eval "
      "\"$TESTED_COMMAND\"'");
}

TEST_F(Programs, KernelDevicesAreNotShownByRun) {
  for (const std::string& way : {std::string{}, std::string{"--namespace "}}) {
    const Outcome ours = beside_kernel("\"$TESTED_BRDMA\" run " + way + "-- ls /sys/class/infiniband");
    EXPECT_EQ(ours.output,
              "brdma: the kernel's own devices are not shown: 'brdma run --with-kernel-devices' shows mlx5_0\n"
              "brdma_left\n");
    const Outcome both =
        beside_kernel("\"$TESTED_BRDMA\" run --with-kernel-devices " + way + "-- ls /sys/class/infiniband");
    EXPECT_EQ(both.output, "brdma_left\nmlx5_0\n");
  }
}

TEST_F(Programs, KernelDevicesAreShownWhereSomebodyWantsThem) {
  EXPECT_EQ(beside_kernel("BRDMA_KERNEL_DEVICES=true \"$TESTED_BRDMA\" run -- ls /sys/class/infiniband").output,
            "brdma_left\nmlx5_0\n");
  EXPECT_EQ(beside_kernel("\"$TESTED_BRDMA\" run --kernel-rdma-cm true -- ls /sys/class/infiniband").output,
            "brdma_left\nmlx5_0\n");
  // By the library alone, as `brdma enable` does it.
  EXPECT_EQ(beside_kernel("eval \"$(\"$TESTED_BRDMA\" env)\"; ls /sys/class/infiniband").output,
            "brdma_left\nmlx5_0\n");
  EXPECT_EQ(
      beside_kernel("eval \"$(\"$TESTED_BRDMA\" env)\"; BRDMA_KERNEL_DEVICES=false ls /sys/class/infiniband").output,
      "brdma_left\n");
}

TEST_F(Programs, KernelDevicesAreNamedOnceForAllPrograms) {
  const Outcome nested = beside_kernel("\"$TESTED_BRDMA\" run -- \"$TESTED_BRDMA\" run -- ls /sys/class/infiniband");
  EXPECT_EQ(nested.output.find("not shown"), nested.output.rfind("not shown")) << nested.output;
  EXPECT_THAT(nested.output, testing::HasSubstr("not shown"));
}

TEST_F(Programs, ExitCodesComeThroughTheNamespace) {
  EXPECT_EQ(run(kScrubbed + "sh -c 'exit 7'").exit_code, 7);
  EXPECT_EQ(run("env -u LD_PRELOAD \"$TESTED_BRDMA\" run --namespace -- /proc/self/none").exit_code, 127);
}

TEST(Missing, NoUserNamespaces) {
  const Outcome refused =
      run("env -u LD_PRELOAD unshare --user --map-root-user sh -c 'echo 0 > /proc/sys/user/max_user_namespaces && "
          "exec setpriv --bounding-set=-all --inh-caps=-all \"$TESTED_BRDMA\" run --namespace -- true'");
  EXPECT_EQ(refused.exit_code, 1) << refused.output;
  EXPECT_THAT(refused.output, testing::HasSubstr("user namespaces are forbidden here (No space left on device)"));
  EXPECT_THAT(refused.output, testing::HasSubstr("sysctl user.max_user_namespaces="));
  EXPECT_THAT(refused.output, testing::HasSubstr("run without --namespace"));
}

// An existing LD_PRELOAD stays in force beside ours, in either order.
TEST(WaysIn, BesideAnotherPreloadedLibrary) {
  const std::string ours = std::getenv("LD_PRELOAD");
  for (const std::string& both : {"libm.so.6:" + ours, ours + ":libm.so.6"}) {
    EXPECT_THAT(run("env LD_PRELOAD=" + both + " ibv_devices").output, testing::HasSubstr("brdma_lo"));
  }
}

}  // namespace
}  // namespace brdma::test
