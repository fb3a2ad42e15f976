// A batch that the system takes in parts: each of its packets leaves, or is counted once.
#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <array>
#include <cerrno>
#include <cstdarg>
#include <deque>
#include <utility>
#include <vector>

#include "io/shard/batch_sender.h"
#include "support/own_syscall.h"

namespace brdma::test {
namespace {

// A result of sendmmsg(2): a number of packets, or an error.
struct Answer {
  long sent = 0;
  int error = 0;
};
// Those of the next calls, in this order.
std::deque<Answer> answers;

}  // namespace
}  // namespace brdma::test

extern "C" long syscall(long number, ...) noexcept {
  std::va_list list;
  va_start(list, number);
  const brdma::test::SyscallArguments with{list};
  va_end(list);
  auto& answers = brdma::test::answers;
  if (number != SYS_sendmmsg || answers.empty()) return with.pass_on(number);
  const auto [sent, error] = answers.front();
  answers.pop_front();
  errno = error;
  return error == 0 ? sent : -1;
}

namespace brdma::test {
namespace {

using io::BatchSender;
using Sent = BatchSender::Sent;

class BatchSenderTest : public testing::Test {
 protected:
  void SetUp() override {
    auto opened = io::TransmitSocket::open({.gso = false, .connect = false});
    ASSERT_TRUE(opened) << opened.reason().message;
    std::vector<io::TransmitSocket> sockets;
    sockets.push_back(std::move(opened).value());
    sender_.emplace(io::Outlet{std::move(sockets)}, statistics_);
    batch_.destination = IpAddress::v4(127, 0, 0, 1);
    batch_.segments = kPackets;
    batch_.segment_bytes = 64;
    batch_.bytes = static_cast<std::uint32_t>(bytes_.size());
    batch_.slices = {&slice_, 1};
  }
  [[nodiscard]] std::uint64_t failed() const { return statistics_.get(Counter::kSendFailed); }

  static constexpr std::uint16_t kPackets = 4;
  std::array<std::byte, 64 * kPackets> bytes_{};
  Slice slice_{bytes_.data(), bytes_.size()};
  Transmit batch_;
  Statistics statistics_;
  std::optional<BatchSender> sender_;
};

// The system cannot read memory that the program can read.
TEST_F(BatchSenderTest, RefusedPacketsOfABatchThatEndsInAFaultCountOnce) {
  answers = {{0, EPERM}, {0, EPERM}, {0, EFAULT}};
  EXPECT_EQ(sender_->send(batch_), Sent::kYes);
  EXPECT_TRUE(answers.empty());
  EXPECT_EQ(failed(), kPackets);
}

TEST_F(BatchSenderTest, PacketsThatLeftBeforeAFaultDoNotCount) {
  answers = {{3, 0}, {0, EFAULT}};
  EXPECT_EQ(sender_->send(batch_), Sent::kYes);
  EXPECT_EQ(failed(), 1u);
}

TEST_F(BatchSenderTest, RefusedPacketsOfABatchThatWaitedCountOnce) {
  answers = {{0, EPERM}, {1, 0}, {0, EAGAIN}, {0, EFAULT}};
  EXPECT_EQ(sender_->send(batch_), Sent::kBlocked);
  EXPECT_EQ(failed(), 1u);
  EXPECT_EQ(sender_->send_pending(), Sent::kYes);
  EXPECT_TRUE(answers.empty());
  EXPECT_EQ(failed(), 3u);
}

}  // namespace
}  // namespace brdma::test
