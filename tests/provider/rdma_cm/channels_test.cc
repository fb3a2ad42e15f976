// Event channels: a count that programs can poll (provider/rdma_cm/channels.h).
#include "rdma_cm/channels.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <thread>

namespace brdma::provider {
namespace {

class ChannelsTest : public testing::Test {
 protected:
  ChannelsTest() : fd(channels.open()), number(channels.find(fd).value()) {}
  ~ChannelsTest() override {
    EXPECT_EQ(channels.closed(fd), number);
    ::close(fd);
  }
  [[nodiscard]] bool readable() const {
    pollfd asked{fd, POLLIN, 0};
    return ::poll(&asked, 1, 0) == 1;
  }
  [[nodiscard]] bool read_one() const {
    std::uint64_t one = 0;
    return ::read(fd, &one, sizeof one) == sizeof one;
  }
  Channels channels;
  int fd;
  cm::ChannelNumber number;
};

TEST_F(ChannelsTest, CountsEventsUntilTheyAreReadOrTakenBack) {
  for (int i = 0; i < 3; ++i) channels.event_added(number);
  EXPECT_TRUE(read_one());
  EXPECT_EQ(channels.take_back_events(number, 1), 1u);
  EXPECT_TRUE(readable());
  EXPECT_EQ(channels.take_back_events(number, 1), 1u);
  EXPECT_FALSE(readable());
}

// Whether reads wait is the program's to say, and stays so.
TEST_F(ChannelsTest, TakingBackMoreThanThereAreWaitsForNothing) {
  channels.event_added(number);
  EXPECT_EQ(channels.take_back_events(number, 5), 1u) << "readers have claimed four";
  EXPECT_FALSE(readable());
  EXPECT_EQ(::fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
}

// A thread waits for events, and takes the count of one that is being taken back. Who takes it back must not wait for
// the next, as it holds a lock that the reader needs; and learns which of the two has it.
TEST_F(ChannelsTest, AReaderMayTakeWhatIsBeingTakenBack) {
  constexpr std::uint32_t kEvents = 20'000;
  std::atomic<bool> ends{false};
  std::uint32_t fetched = 0, taken_back = 0;
  std::thread reader([&] {
    for (; !ends && read_one(); ++fetched) {
    }
  });
  for (std::uint32_t i = 0; i < kEvents; ++i) {
    channels.event_added(number);
    taken_back += channels.take_back_events(number, 1);
  }
  ends = true;
  channels.event_added(number);
  reader.join();
  const std::uint32_t left = readable() ? 1 : 0;
  EXPECT_EQ(fetched + taken_back + left, kEvents + 1);
}

}  // namespace
}  // namespace brdma::provider
