// main of the tests that run with the library preloaded: in a network namespace of their own, where lo is the only
// interface at first. Started without the library it starts itself again with it.
// BRDMA_TEST_AS_NOBODY=1: gives up root first, so that everything runs in a user namespace.
// BRDMA_TEST_XDP=mirror: over AF_XDP, on an interface whose packets come back (io/test_network.h); =pair: likewise, for
// tests with networks of their own.
#include <dlfcn.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "io/daemon/daemon_client.h"
#include "io/mirrored_network.h"
#include "io/private_network.h"
#include "io/test_network.h"

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

bool enter_network() {
  if (!brdma::test::over_xdp()) return brdma::test::enter_private_network();
  const auto entered = brdma::test::enter_mirrored_network();
  if (entered == brdma::test::Entered::kFailed) {
    std::perror("no mirrored network");
    std::exit(1);
  }
  return entered == brdma::test::Entered::kYes;
}

// Not by UDP, the silent fallback; judged by brdmad's counters.
bool came_and_left_by_xdp() {
  const auto answer = brdma::io::query_daemon({{"query", "statistics"}});
  if (!answer) {
    std::fprintf(stderr, "brdmad: %s\n", answer.reason().message.c_str());
    return false;
  }
  (void)brdma::io::query_daemon({{"query", "shutdown"}, {"force", true}});
  const std::string device = std::string("brdma_") + brdma::test::kMirroredInterface;
  for (const auto& row : answer.value()["devices"]) {
    if (row["device"] != device) continue;
    const std::uint64_t came = row["counters"]["rcvd_pkts"], came_by_xdp = row["counters"]["xdp_rcvd_pkts"];
    const auto left = brdma::test::mirrored_packets();
    std::printf("by AF_XDP came %zu of %zu packets; left %u, by UDP %u\n", came_by_xdp, came, left.by_xdp, left.by_udp);
    return came_by_xdp * 10 >= came * 9 && left.by_xdp >= left.by_udp * 9;
  }
  std::fprintf(stderr, "brdmad has counted nothing of %s\n", device.c_str());
  return false;
}

// Explains why packets went by UDP: each device's reason.
void print_why_udp() {
  const auto reply = brdma::io::query_daemon({{"query", "resource"}, {"what", "objects"}});
  if (!reply) return;
  for (const auto& device : reply.value()["answers"]) {
    const auto& datapath = device["datapath"];
    if (datapath.contains("reason")) std::printf("by UDP: %s\n", datapath["reason"].dump().c_str());
  }
}

// The loader splits LD_PRELOAD at blanks: below a path with one the library goes by its name.
void preload_library() {
  const std::string library = BRDMA_LIBRARY;
  const std::size_t slash = library.rfind('/');
  const bool blank = library.find(' ') != std::string::npos;
  ::setenv("LD_PRELOAD", library.substr(blank ? slash + 1 : 0).c_str(), 1);
  if (blank) ::setenv("LD_LIBRARY_PATH", library.substr(0, slash).c_str(), 1);
}

}  // namespace

// librspreload.so may end a program that polls a negative descriptor (io/system/poll_open.h): the library must not poll
// one.
extern "C" __attribute__((visibility("default"))) int poll(pollfd* fds, nfds_t count, int timeout_ms) {
  static auto* const real = reinterpret_cast<decltype(&::poll)>(::dlsym(RTLD_NEXT, "poll"));
  for (nfds_t i = 0; i < count; ++i) {
    if (fds[i].fd >= 0) continue;
    std::fprintf(stderr, "poll() of a negative descriptor\n");
    std::abort();
  }
  return real(fds, count, timeout_ms);
}

// The mirror must know the queue before any packet comes for a device that a program has opened.
extern "C" {
struct ibv_context;
struct ibv_device;
__attribute__((visibility("default"))) ibv_context* ibv_open_device(ibv_device* device);
ibv_context* ibv_open_device(ibv_device* device) {
  // By its version: before glibc 2.36 dlsym finds the oldest, which makes contexts of another form.
  static auto* const real =
      reinterpret_cast<decltype(&ibv_open_device)>(::dlvsym(RTLD_NEXT, "ibv_open_device", "IBVERBS_1.1"));
  ibv_context* const opened = real(device);
  if (brdma::test::over_xdp()) {
    (void)brdma::test::mirror_steered_slots();
    print_why_udp();
  }
  return opened;
}
}

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
    preload_library();
    ::setenv("BRDMA_IDLE_SECONDS", "1", 1);  // a daemon that a test starts ends soon after it
    ::setenv("HOME", "/nonexistent", 1);     // nobody's settings
    ::unsetenv("XDG_CONFIG_HOME");
    if (std::getenv("BRDMA_TEST_XDP") != nullptr) {
      ::setenv("BRDMA_DATAPATH", "xdp", 1);
      ::setenv("BRDMA_TRANSMIT", "xdp", 1);
      ::setenv("BRDMA_IDLE_SECONDS", "60", 1);  // its counters are read at the end
    }
    ::execv("/proc/self/exe", argv);
    std::perror("execv");
    return 1;
  }
  testing::InitGoogleTest(&argc, argv);
  if (testing::GTEST_FLAG(list_tests)) return RUN_ALL_TESTS();
  if (!enter_network()) {
    std::fprintf(stderr, "skipped: no network namespace to be had (not root, and user namespaces are forbidden%s)\n",
                 brdma::test::over_xdp() ? ", or no AF_XDP on veth" : "");
    return kSkipped;
  }
  const int failed = RUN_ALL_TESTS();
  if (failed != 0 || !brdma::test::over_xdp()) return failed;
  return came_and_left_by_xdp() ? 0 : 1;
}
