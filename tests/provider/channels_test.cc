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

TEST_F(ChannelsTest, CountsEventsUntilTheyAreReadOrRemoved) {
  for (int i = 0; i < 3; ++i) channels.event_added(number);
  EXPECT_TRUE(read_one());
  channels.events_removed(number, 1);
  EXPECT_TRUE(readable());
  channels.events_removed(number, 1);
  EXPECT_FALSE(readable());
}

// Whether reads wait is the program's to say, and stays so.
TEST_F(ChannelsTest, RemovingMoreThanThereAreWaitsForNothing) {
  channels.event_added(number);
  channels.events_removed(number, 5);
  EXPECT_FALSE(readable());
  EXPECT_EQ(::fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
}

// A thread waits for events, and takes the count of one that is being removed. Who removes it must not wait for the
// next: it holds what the reader needs to go on.
TEST_F(ChannelsTest, AReaderMayTakeWhatIsBeingRemoved) {
  constexpr int kEvents = 20'000;
  std::atomic<bool> ends{false};
  std::atomic<int> taken{0};
  std::thread reader([&] {
    while (read_one() && !ends) ++taken;
  });
  for (int i = 0; i < kEvents; ++i) {
    channels.event_added(number);
    channels.events_removed(number, 1);
  }
  ends = true;
  channels.event_added(number);
  reader.join();
  EXPECT_LE(taken, kEvents);
}

}  // namespace
}  // namespace brdma::provider
