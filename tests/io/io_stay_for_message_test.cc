// How long a poll stays while the peer's message arrives: the limits, if it does not become whole. The rules:
// tests/unit/io/io_poll_policy_test.cc.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <thread>

#include "control/config.h"
#include "io/poll/poll_policy.h"
#include "io/shard/clock.h"
#include "shard_side.h"
#include "test_lease.h"

namespace brdma::io {
namespace {

// a and b write to each other in turn: b a token, a many windows, since the socket's share is small. So b's write
// completes while most of a's is still to come, and a's polling sets how fast that comes. The first polls do not stay,
// nor those whose completion came before the first of a's packets.
class Staying : public testing::Test {
 protected:
  static constexpr std::uint32_t kLong = 8 << 20;
  static constexpr Duration kPatience = 20_s, kStayMax = 20_ms;

  explicit Staying(Duration stay_max = kStayMax) : stay_max_(stay_max) {}
  void SetUp() override {
    auto leases = test::make_leases(2);
    const auto side = [this](Lease& lease) {
      return std::make_unique<Side>(std::move(lease), kLong, 4u, kRoceUdpPort, Side::kAckHoldMax, stay_max_);
    };
    a = side(leases[0]);
    b = side(leases[1]);
    a->connect(*b);
    b->connect(*a);
  }
  // A turn of each, until b's message has arrived and a's is in flight.
  void take_turns() {
    token_ = static_cast<std::byte>(std::to_integer<unsigned>(token_) + 1);
    b->write(*a, token_);
    wait_for([&] { return a->got(token_); }, [&] { (void)a->poll(); });
    a->memory[kLong - 1] = token_;
    a->write(*b, kLong);
  }
  // Duration of b's poll with its completion.
  Duration poll_of_b() {
    const unsigned completed = b->completed;
    Duration took{};
    wait_for([&] { return b->completed > completed; },
             [&] {
               const Instant begin = monotonic_now();
               (void)b->poll();
               took = monotonic_now() - begin;
             });
    EXPECT_FALSE(whole()) << "the poll ended by that";
    return took;
  }
  // As the thread would receive the rest.
  void finish() {
    wait_for([&] { return whole(); },
             [&] {
               (void)b->shard->make_progress();
               (void)a->poll();
             });
  }
  [[nodiscard]] bool whole() const { return b->memory[2 * std::size_t{kLong} - 1] == token_; }
  template <class Condition, class Step>
  void wait_for(Condition condition, Step step) {
    const Instant end = monotonic_now() + kPatience;
    while (!condition() && monotonic_now() < end) step();
    ASSERT_TRUE(condition());
  }

  std::unique_ptr<Side> a, b;

 private:
  Duration stay_max_;
  std::byte token_{0};
};

TEST_F(Staying, EndsWhereNothingMoreComes) {
  const Instant end = monotonic_now() + kPatience;
  bool stayed = false;
  while (!stayed && monotonic_now() < end) {
    take_turns();
    const Duration took = poll_of_b();
    stayed = took >= PollPolicy::kRestSilenceMax && took < kStayMax;  // longer: the core was lost
    finish();
  }
  EXPECT_TRUE(stayed);
}

TEST_F(Staying, EndsWhereItTakesTooLong) {
  // Some 40 windows. If a is kept from its core the poll ends by the silence.
  const auto slowly = [this](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      (void)a->poll();
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  };
  const Instant end = monotonic_now() + kPatience;
  bool lasted = false;
  while (!lasted && monotonic_now() < end) {
    take_turns();
    {
      const std::jthread peer(slowly);
      lasted = poll_of_b() >= kStayMax;
    }
    finish();
  }
  EXPECT_TRUE(lasted);
}

// The default of datapath.poll_stay_max_us.
class StayingForAMoment : public Staying {
 protected:
  static constexpr Duration kMoment = control::DatapathConfig{}.poll_stay_max;
  StayingForAMoment() : Staying(kMoment) {}
};

TEST_F(StayingForAMoment, EndsAfterFiftyMicroseconds) {
  const Instant end = monotonic_now() + kPatience;
  bool stayed = false;
  while (!stayed && monotonic_now() < end) {
    take_turns();
    const Duration took = poll_of_b();
    // At its end it sends what is due. Longer: the core was lost.
    stayed = took >= kMoment && took < kMoment * 10;
    finish();
  }
  EXPECT_TRUE(stayed);
}

}  // namespace
}  // namespace brdma::io
