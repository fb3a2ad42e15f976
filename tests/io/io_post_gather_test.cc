// Posts that wait for each other, and their rest that does not fill a batch, on a shard. The rules: tests/unit/io.
#include <gtest/gtest.h>
#include <poll.h>

#include <memory>

#include "io/poll/post_gather.h"
#include "io/shard/clock.h"
#include "io/shard/shard.h"
#include "shard_side.h"
#include "test_lease.h"

namespace brdma::io {
namespace {

// Two shards; b receives only on request. Path MTU 1024: batches of 60 packets.
class Gathering : public testing::Test {
 protected:
  static constexpr std::uint32_t kFirst = 65536, kFirstPackets = 64, kMessage = 2048, kMessages = PostGather::kPostsMax;
  static constexpr std::uint64_t kAll = kFirstPackets + 2 * kMessages, kLeft = kFirstPackets + 60;

  void SetUp() override {
    auto leases = test::make_leases(2);
    a = std::make_unique<Side>(std::move(leases[0]), kFirst, kMessages + 2);
    b = std::make_unique<Side>(std::move(leases[1]), kFirst);
    a->connect(*b);
    b->connect(*a);
    a->write(*b, Side::kTokenBytes);  // bitmap mode is agreed
    wait_for([&] { return a->completed == 1; });
    a->shard->progress_owner().set_thread(ProgressOwner::Thread::kParked);
    sent_ = a->lease.statistics->get(Counter::kSentDataPackets);
    a->write(*b, kFirst);  // nothing else is in flight: it leaves
    for (std::uint32_t i = 1; i < kMessages; ++i) a->write(*b, kMessage);
    ASSERT_EQ(sent(), kFirstPackets);
  }
  void TearDown() override {
    wait_for([&] { return a->completed == kMessages + 2; });
    EXPECT_EQ(sent(), kAll);
  }
  void post_the_last() { a->write(*b, kMessage); }
  [[nodiscard]] std::uint64_t sent() const { return a->lease.statistics->get(Counter::kSentDataPackets) - sent_; }
  template <class Condition>
  void wait_for(Condition condition) {
    const Instant end = monotonic_now() + 20_s;
    while (!condition() && monotonic_now() < end) {
      (void)b->poll();
      (void)a->poll();
    }
    ASSERT_TRUE(condition());
  }

  std::unique_ptr<Side> a, b;
  std::uint64_t sent_ = 0;
};

TEST_F(Gathering, LeavesInFullBatches) {
  post_the_last();
  EXPECT_EQ(sent(), kLeft);
}

TEST_F(Gathering, ThePollThatFindsNothingLeavesTheRestForAMoment) {
  const Instant posted = monotonic_now();
  post_the_last();
  const bool found = a->poll();
  if (monotonic_now() - posted < PostGather::kRestMax) {  // unless our core was lost meanwhile
    EXPECT_FALSE(found);
    EXPECT_EQ(sent(), kLeft);
  }
  // b does not receive, so only time lets it go.
  const Instant end = monotonic_now() + 20_s;
  while (sent() == kLeft && monotonic_now() < end) (void)a->poll();
  EXPECT_GE(monotonic_now() - posted, PostGather::kRestMax);
  EXPECT_EQ(sent(), kAll);
}

TEST_F(Gathering, TheThreadSendsTheRestOfAProgramThatDoesNotCall) {
  post_the_last();
  (void)a->shard->make_progress();
  EXPECT_EQ(sent(), kAll);
}

TEST_F(Gathering, AProgramThatGoesToSleepLeavesNoRest) {
  post_the_last();
  a->shard->request_notify(a->cq, false);
  EXPECT_EQ(sent(), kAll);
}

}  // namespace
}  // namespace brdma::io
