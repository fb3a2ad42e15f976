// Event pipes alone (provider/events/event_pipe.h): the program's view, and effects that it must not notice.
#include "events/event_pipe.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>

namespace brdma::provider {
namespace {

using Record = std::uint64_t;
std::span<const std::byte> bytes_of(const Record& record) { return std::as_bytes(std::span(&record, 1)); }

class EventPipeTest : public testing::Test {
 protected:
  EventPipeTest() {
    auto made = EventPipe::make();
    EXPECT_TRUE(made.ok());
    pipe = made.value().pipe;
    fd = made.value().fd;
  }
  ~EventPipeTest() override { ::close(fd); }
  [[nodiscard]] short events() const {
    pollfd asked{fd, POLLIN, 0};
    return ::poll(&asked, 1, 0) == 1 ? asked.revents : short{0};
  }
  [[nodiscard]] std::uint32_t purge(Record wanted) const {
    return pipe->purge(fd, sizeof wanted, [wanted](std::span<const std::byte> bytes) {
      return std::memcmp(bytes.data(), &wanted, sizeof wanted) == 0;
    });
  }
  std::shared_ptr<EventPipe> pipe;
  int fd = -1;
};

// Its end blocks: purging does not.
TEST_F(EventPipeTest, RecordsComeOutAndPurgeTakesOnlyItsOwn) {
  for (const Record record : {1, 2, 1, 3, 1, 4}) EXPECT_TRUE(pipe->write(bytes_of(record)));
  EXPECT_EQ(purge(1), 3u);
  for (const Record expected : {2, 3, 4}) {
    ASSERT_EQ(events(), POLLIN);
    Record record = 0;
    ASSERT_EQ(::read(fd, &record, sizeof record), 8);
    EXPECT_EQ(record, expected);
  }
  EXPECT_EQ(events(), 0);
  EXPECT_EQ(purge(1), 0u);
}

// The program's O_NONBLOCK and ours are independent; a full pipe grows, then refuses: it never blocks.
TEST_F(EventPipeTest, WriterNeverBlocks) {
  EXPECT_EQ(::fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
  unsigned written = 0;
  while (pipe->write(bytes_of(7))) ++written;
  EXPECT_GE(written, 8192u);  // the capacity of 64 KiB; as a rule 1 MiB
  EXPECT_EQ(purge(7), written);
}

// A signal would end the program.
TEST_F(EventPipeTest, NothingIsWrittenThatNobodyCanRead) {
  const int copy = ::dup(fd);
  ::close(fd);
  fd = -1;
  EXPECT_TRUE(pipe->has_reader());
  EXPECT_TRUE(pipe->write(bytes_of(7)));
  ::close(copy);
  EXPECT_FALSE(pipe->has_reader());
  EXPECT_FALSE(pipe->write(bytes_of(7)));
}

// The number is another file's by now, whose bytes stay where they are.
TEST_F(EventPipeTest, AnotherFileIsNotPurged) {
  std::array<int, 2> other{};
  ASSERT_EQ(::pipe(other.data()), 0);
  const Record record = 1;
  ASSERT_EQ(::write(other[1], &record, sizeof record), 8);
  ASSERT_EQ(::dup2(other[0], fd), fd);
  EXPECT_EQ(purge(1), 0u);
  EXPECT_EQ(events(), POLLIN);
  for (const int end : other) ::close(end);
}

// The child reads its own events, then the end of file, whether it waits or not; the parent's records stay the
// parent's.
TEST_F(EventPipeTest, IsReplacedInAChild) {
  EXPECT_TRUE(pipe->write(bytes_of(5)));
  const pid_t child = ::fork();
  if (child == 0) {
    pipe->replace(fd, bytes_of(9));
    Record record = 0;
    const bool notified = ::read(fd, &record, sizeof record) == 8 && record == 9;
    const bool ended = ::read(fd, &record, sizeof record) == 0 && (events() & POLLHUP) != 0;
    ::_exit(notified && ended && !pipe->write(bytes_of(9)) ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(purge(5), 1u);
  EXPECT_EQ(events(), 0);
}

}  // namespace
}  // namespace brdma::provider
