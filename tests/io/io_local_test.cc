// Local transfer by reference: the kernel reads data from the peer's memory (docs/explanation/local.md), between two
// contexts of one process, each with its thread, in both directions at once.
#include <thread>
#include <utility>

#include "context_pair.h"

namespace brdma::io {
namespace {

using test::Endpoint;
using test::EndpointOptions;
using test::fill;
using test::kPatience;
using test::Pair;
using test::same;

constexpr std::uint32_t kBytes = 100'000;
constexpr std::size_t kHalf = 512 * 1024;

EndpointOptions fetching() {
  EndpointOptions options;
  options.context.reads_processes = true;
  options.context.transfer.local = true;
  options.context.transfer.local_threshold_bytes = 4096;
  return options;
}

class FetchedData : public testing::Test {
 protected:
  FetchedData() : pair(fetching()), a(*pair.a), b(*pair.b) { agree(); }

  // Until each reads the other's writes by reference.
  void agree() {
    const Instant end = monotonic_now() + kPatience;
    const std::uint64_t had_a = fetches(a), had_b = fetches(b);
    while ((fetches(a) == had_a || fetches(b) == had_b) && monotonic_now() < end) {
      for (Endpoint* side : {&a, &b}) {
        ASSERT_TRUE(side->post(WorkOpcode::kRdmaWrite, {.offset = kHalf, .bytes = kBytes}).ok());
        ASSERT_EQ(Pair::wait(*side, side->send_cq).status, CompletionStatus::kSuccess);
      }
    }
    ASSERT_GT(fetches(a), had_a);
    ASSERT_GT(fetches(b), had_b);
  }
  static std::uint64_t fetches(const Endpoint& side) { return side.statistics->get(Counter::kFetches); }

  Pair pair;
  Endpoint &a, &b;
};

// `me` writes its first half to the peer's second one, reads it back into a third place, and sends.
void exchange(Endpoint& me, int rounds) {
  for (int round = 0; round < rounds; ++round) {
    ASSERT_TRUE(me.post(WorkOpcode::kRdmaWrite, {.offset = 0, .bytes = kBytes, .remote = kHalf}).ok());
    ASSERT_TRUE(me.post(WorkOpcode::kRdmaRead, {.offset = kBytes, .bytes = kBytes, .remote = kHalf}).ok());
    ASSERT_TRUE(me.post(WorkOpcode::kSend, {.offset = 0, .bytes = kBytes}).ok());
    for (int i = 0; i < 3; ++i) ASSERT_EQ(Pair::wait(me, me.send_cq).status, CompletionStatus::kSuccess);
    ASSERT_EQ(Pair::wait(me, me.receive_cq).status, CompletionStatus::kSuccess);
  }
}

TEST_F(FetchedData, MovesInBothDirectionsAtOnce) {
  constexpr int kRounds = 30;
  fill(a.memory, 1);
  fill(b.memory, 2);
  for (Endpoint* side : {&a, &b}) {
    for (int i = 0; i < kRounds; ++i) ASSERT_TRUE(side->post_receive(kHalf + 3 * kBytes, kBytes).ok());
  }
  std::thread other([this] { exchange(b, kRounds); });
  exchange(a, kRounds);
  other.join();
  for (const auto& [from, to] : {std::pair{&a, &b}, std::pair{&b, &a}}) {
    EXPECT_TRUE(same(*from, 0, *to, kHalf, kBytes)) << "written";
    EXPECT_TRUE(same(*from, 0, *from, kBytes, kBytes)) << "read";
    EXPECT_TRUE(same(*from, 0, *to, kHalf + 3 * kBytes, kBytes)) << "sent";
  }
}

}  // namespace
}  // namespace brdma::io
