// Large transfers over real sockets that lose packets: a subscribed receiver gets an event for each WRITE when it is
// whole, and packets that come before the start of their operation wait in the escape channel. tests design RR-9, RR-12
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <sys/socket.h>

#include <array>
#include <condition_variable>
#include <mutex>
#include <vector>

#include "context_pair.h"
#include "mirrored_network.h"

namespace brdma::io {
namespace {

using test::Endpoint;
using test::EndpointOptions;
using test::fill;
using test::make_leases;
using test::Pair;
using test::same;
using test::test_ip4;

constexpr std::uint32_t kTransfer = 512 * 1024;

// Records the arrivals of WRITEs, and whether all of their bytes were in memory then.
class Watcher : public NotificationHandler {
 public:
  void completion_event(void*) override {}
  void async_event(int, void*) override {}
  void write_event(const WriteArrival& arrival) override {
    const auto* const last = reinterpret_cast<const std::byte*>(arrival.address + arrival.length - 1);
    const std::lock_guard lock{mutex_};
    arrivals_.push_back({arrival, *last});
    changed_.notify_all();
  }
  struct Seen {
    WriteArrival arrival;
    std::byte last_byte{};
  };
  std::vector<Seen> wait_for(std::size_t count) {
    std::unique_lock lock{mutex_};
    changed_.wait_for(lock, std::chrono::seconds{20}, [&] { return arrivals_.size() >= count; });
    return arrivals_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Seen> arrivals_;
};

// The socket loses one of 20 datagrams at random.
void lose_some(int fd) {
  constexpr std::uint32_t kLost = 0xFFFF'FFFF / 20;
  std::array<sock_filter, 4> program{
      {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(SKF_AD_OFF + SKF_AD_RANDOM)),
       BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, kLost, 0, 1), BPF_STMT(BPF_RET | BPF_K, 0xFFFF'FFFF),
       BPF_STMT(BPF_RET | BPF_K, 0)}};
  const sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
  ASSERT_EQ(::setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter), 0);
}

TEST(Transfers, AWatchedRegionGetsEventsOfWritesOverALossyLink) {
  EndpointOptions options;
  options.memory_bytes = kTransfer;
  options.mtu = PathMtu::k1024;
  options.context.gso = options.context.receive.gro = false;  // each packet is lost or not by itself
  options.context.transfer = {.threshold_bytes = 64 * 1024, .segment_bytes = 16 * 1024};
  Watcher watcher;
  auto leases = make_leases(2);
  if (test::over_xdp())
    test::mirror_loses(1.0 / 20);
  else
    lose_some(leases[1].socket_fd);
  Endpoint a{std::move(leases[0]), test_ip4(), options};
  Endpoint b{std::move(leases[1]), test_ip4(), options, &watcher};
  a.connect(b.info());
  b.connect(a.info());
  int user = 0;
  ASSERT_TRUE(b.context->watch_writes(b.region, &user).ok());

  // An escape needs the loss of an operation's first packet: some dozen in each transfer.
  constexpr std::size_t kTransfers = 20;
  for (std::size_t i = 0; i < kTransfers; ++i) {
    fill(a.memory, static_cast<std::uint32_t>(i));
    a.memory.back() = static_cast<std::byte>(i + 1);
    ASSERT_TRUE(a.post(WorkOpcode::kRdmaWrite, {.bytes = kTransfer}).ok());
    ASSERT_EQ(Pair::wait(a, a.send_cq).status, CompletionStatus::kSuccess);
    const auto seen = watcher.wait_for(i + 1);
    ASSERT_EQ(seen.size(), i + 1) << "one for each WRITE";
    EXPECT_EQ(seen[i].arrival.user, &user);
    EXPECT_EQ(seen[i].arrival.length, kTransfer);
    EXPECT_EQ(seen[i].last_byte, static_cast<std::byte>(i + 1)) << "reported before it was whole";
    ASSERT_TRUE(same(a, 0, b, 0, kTransfer));
    // Its thread writes there again when the next packets have come. A thread sanitizer does not see that those order
    // anything, and takes a minute and a half to skip apparent races; it sees the lock.
    { const Context::Session after_looking{*b.context}; }
  }
  EXPECT_GT(a.statistics->get(Counter::kRetransmittedFfm), 0u) << Pair::nonzero(*a.statistics);
  EXPECT_GT(b.statistics->get(Counter::kEscapedPackets), 0u) << Pair::nonzero(*b.statistics);
  EXPECT_GT(b.statistics->get(Counter::kEscapeReleased), 0u);
  EXPECT_EQ(b.statistics->get(Counter::kWriteEvents), kTransfers);

  ASSERT_TRUE(b.context->unwatch_writes(b.region).ok());
  ASSERT_TRUE(a.post(WorkOpcode::kRdmaWrite, {.bytes = kTransfer}).ok());
  ASSERT_EQ(Pair::wait(a, a.send_cq).status, CompletionStatus::kSuccess);
  EXPECT_EQ(watcher.wait_for(0).size(), kTransfers);
}

}  // namespace
}  // namespace brdma::io
