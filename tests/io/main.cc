// The tests' main: in a network namespace of their own; with BRDMA_TEST_XDP=mirror over AF_XDP (test_network.h).
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>

#include "mirrored_network.h"
#include "private_network.h"
#include "test_lease.h"
#include "test_network.h"

// In RDMA one side writes the other's memory directly. The tests read registered memory after a completion on the other
// side, an order that ThreadSanitizer cannot know; it checks everything else.
extern "C" __attribute__((visibility("default"))) const char* __tsan_default_suppressions();
const char* __tsan_default_suppressions() {
  return "race:same\n"
         "race:fill\n"
         "race:exercise\n";
}

namespace {

constexpr int kSkipped = 77;

// Not by UDP, the silent fallback.
bool came_and_left_by_xdp() {
  using brdma::test::count_of_all;
  const std::uint64_t came = count_of_all(brdma::Counter::kReceivedPackets);
  const std::uint64_t came_by_xdp = count_of_all(brdma::Counter::kXdpReceived);
  const auto left = brdma::test::mirrored_packets();
  std::printf("by AF_XDP came %zu of %zu packets; left %u, by UDP %u\n", came_by_xdp, came, left.by_xdp, left.by_udp);
  return came_by_xdp * 10 >= came * 9 && left.by_xdp >= left.by_udp * 9;
}

int run_over_xdp() {
  switch (brdma::test::enter_mirrored_network()) {
    case brdma::test::Entered::kNotAllowed:
      std::fprintf(stderr, "skipped: AF_XDP needs root, and a kernel that has it on veth\n");
      return kSkipped;
    case brdma::test::Entered::kFailed:
      std::perror("no mirrored network");
      return 1;
    case brdma::test::Entered::kYes:
      break;
  }
  const int failed = RUN_ALL_TESTS();
  return failed != 0 ? failed : came_and_left_by_xdp() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (testing::GTEST_FLAG(list_tests)) return RUN_ALL_TESTS();
  if (brdma::test::over_xdp()) return run_over_xdp();
  if (!brdma::test::enter_private_network()) {
    std::fprintf(stderr, "skipped: no network namespace to be had (not root, and user namespaces are forbidden)\n");
    return kSkipped;
  }
  return RUN_ALL_TESTS();
}
