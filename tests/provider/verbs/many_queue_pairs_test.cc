// Ten thousand RC queue pairs in one program, all connected, all used: a message in each direction on every one,
// without an extra thread or descriptor. Prints the time and memory.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include "provider/verbs_fixture.h"

namespace brdma::test {
namespace {

constexpr std::size_t kPairs = 5000;
constexpr std::uint32_t kMessage = 64;
constexpr std::size_t kUnderWay = 200;  // pairs that work at the same time

long resident_bytes() {
  long size = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> size >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}
std::size_t entries(const char* directory) {
  const std::filesystem::directory_iterator all(directory);
  return static_cast<std::size_t>(std::distance(begin(all), std::filesystem::directory_iterator{}));
}

class Watch {
 public:
  double seconds() {
    const auto now = std::chrono::steady_clock::now();
    const std::chrono::duration<double> passed = now - last_;
    last_ = now;
    return passed.count();
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

// One of the two devices that the program has opened, with its half of all pairs.
struct Half {
  Side side = Side::make(kPairs * kMessage);
  Owned<ibv_cq> cq{ibv_create_cq(side.context.get(), 4 * kUnderWay, nullptr, nullptr, 0)};
  std::vector<Owned<ibv_qp>> qps;

  void create() {
    for (std::size_t i = 0; i < kPairs; ++i) {
      ibv_qp_init_attr wanted = usual_queue_pair(cq.get());
      qps.emplace_back(ibv_create_qp(side.pd.get(), &wanted));
      ASSERT_NE(qps.back(), nullptr) << i;
    }
  }
  void post(std::size_t i, bool receive) {
    ibv_sge sge = side.sge(i * kMessage, kMessage);
    if (receive) {
      ibv_recv_wr request{.wr_id = i, .next = nullptr, .sg_list = &sge, .num_sge = 1};
      ibv_recv_wr* bad = nullptr;
      ASSERT_EQ(ibv_post_recv(qps[i].get(), &request, &bad), 0);
      return;
    }
    ibv_send_wr request = send_request(sge);
    request.wr_id = i;
    ibv_send_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_send(qps[i].get(), &request, &bad), 0);
  }
};

// Each pair of [from, from + kUnderWay) carries a message from `a` to `b`.
void carry(Half& a, Half& b, std::size_t from) {
  for (std::size_t i = from; i < from + kUnderWay; ++i) b.post(i, true);
  for (std::size_t i = from; i < from + kUnderWay; ++i) a.post(i, false);
  for (std::size_t i = 0; i < kUnderWay; ++i) {
    ASSERT_EQ(wait_completion(a.cq.get()).status, IBV_WC_SUCCESS);
    const ibv_wc received = wait_completion(b.cq.get());
    ASSERT_EQ(received.status, IBV_WC_SUCCESS);
    ASSERT_EQ(received.qp_num, b.qps[received.wr_id]->qp_num);
  }
}

TEST(ManyQueuePairs, TenThousandAreConnectedAndUsed) {
  Half a, b;
  const std::size_t descriptors = entries("/proc/self/fd");
  const long before = resident_bytes();
  Watch watch;
  a.create();
  b.create();
  const double creating = watch.seconds();
  const long created = resident_bytes();
  for (std::size_t i = 0; i < kPairs; ++i) {
    for (const auto* half : {&a, &b}) ASSERT_EQ(to_init(half->qps[i].get()), 0);
    ASSERT_EQ(to_rtr(a.qps[i].get(), b.qps[i].get()), 0);
    ASSERT_EQ(to_rtr(b.qps[i].get(), a.qps[i].get()), 0);
    for (const auto* half : {&a, &b}) ASSERT_EQ(to_rts(half->qps[i].get()), 0);
  }
  const double connecting = watch.seconds();
  for (std::size_t i = 0; i < a.side.memory.size(); ++i) {
    a.side.memory[i] = static_cast<std::uint8_t>(i * 7 + i / kMessage);
  }
  (void)watch.seconds();
  for (std::size_t i = 0; i < kPairs; i += kUnderWay) carry(a, b, i);
  ASSERT_TRUE(a.side.memory == b.side.memory);
  std::fill(a.side.memory.begin(), a.side.memory.end(), std::uint8_t{0});
  for (std::size_t i = 0; i < kPairs; i += kUnderWay) carry(b, a, i);
  ASSERT_TRUE(a.side.memory == b.side.memory);
  const double working = watch.seconds();
  const long used = resident_bytes();
  // Upper bounds: they reveal a leak or a table that grows with its square, and tolerate a busy machine.
  EXPECT_LT(used - before, static_cast<long>(2 * kPairs * 16 * 1024));
  EXPECT_LE(entries("/proc/self/fd"), descriptors + 8);  // connected sockets of the most used peers
  (void)watch.seconds();
  a.qps.clear();
  b.qps.clear();
  const double destroying = watch.seconds();
  std::printf(
      "queue_pairs %zu created_bytes %ld used_bytes %ld (of each)  seconds: create %.2f connect %.2f "
      "two messages each pair %.2f destroy %.2f\n",
      2 * kPairs, (created - before) / static_cast<long>(2 * kPairs), (used - before) / static_cast<long>(2 * kPairs),
      creating, connecting, working, destroying);
}

}  // namespace
}  // namespace brdma::test
