// Detection of stopped processes in brdmad: contents of mount tables and cgroup lines, and how often it reads them.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "connections/stopped_peers.h"
#include "connections/stopped_process.h"

namespace brdma::daemon {
namespace {

using namespace std::chrono_literals;
using Clock = StoppedPeers::Clock;

constexpr const char* kHybrid =
    "24 23 0:22 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n"
    "30 24 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
    "31 24 0:28 / /sys/fs/cgroup/freezer rw shared:5 - cgroup cgroup rw,freezer\n"
    "32 24 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
    "nonsense\n";

TEST(Freezers, FilesAreFoundByMountAndPath) {
  const Freezers hybrid{kHybrid};
  EXPECT_EQ(hybrid.state_file("0::/user.slice/a b"), "/sys/fs/cgroup/unified/user.slice/a b/cgroup.events");
  EXPECT_EQ(hybrid.state_file("0::/"), "/sys/fs/cgroup/unified/cgroup.events");
  EXPECT_EQ(hybrid.state_file("6:freezer:/docker/1:2"), "/sys/fs/cgroup/freezer/docker/1:2/freezer.state");
  EXPECT_EQ(hybrid.state_file("6:perf,freezer:/x"), "/sys/fs/cgroup/freezer/x/freezer.state");
  EXPECT_EQ(hybrid.state_file("1:cpu:/x"), "");
  EXPECT_EQ(hybrid.state_file("1:name=freezer:/x"), "");
  for (const char* bad : {"", "0", "0:", "nonsense"}) EXPECT_EQ(hybrid.state_file(bad), "") << bad;
}

TEST(Freezers, WhatIsOutsideOfTheMountIsNotSeen) {
  const Freezers inner{"40 1 0:29 /machine/one /cg rw - cgroup2 cgroup2 rw\n"};
  EXPECT_EQ(inner.state_file("0::/machine/one/x"), "/cg/x/cgroup.events");
  EXPECT_EQ(inner.state_file("0::/machine/one"), "/cg/cgroup.events");
  EXPECT_EQ(inner.state_file("0::/machine/two"), "");
  EXPECT_EQ(inner.state_file("0::/machine/one2"), "");
  EXPECT_EQ(inner.state_file("0::/../two"), "") << "of another cgroup namespace";
  EXPECT_EQ(Freezers{""}.state_file("0::/x"), "");
}

TEST(IsStopped, ByItsThreadsStates) {
  EXPECT_FALSE(is_stopped(0));
  EXPECT_FALSE(is_stopped(static_cast<std::uint32_t>(::getpid())));
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    for (;;) ::pause();
  }
  const auto pid = static_cast<std::uint32_t>(child);
  EXPECT_FALSE(is_stopped(pid));
  int status = 0;
  ASSERT_EQ(::kill(child, SIGSTOP), 0);
  ASSERT_EQ(::waitpid(child, &status, WUNTRACED), child);
  EXPECT_TRUE(is_stopped(pid));
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  siginfo_t info{};
  ASSERT_EQ(::waitid(P_PID, pid, &info, WEXITED | WNOWAIT), 0);
  EXPECT_FALSE(is_stopped(pid)) << "it has ended, and is not waited for yet";
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_FALSE(is_stopped(pid));
}

constexpr std::uint32_t kPeer = 5u << io::kSlotBits | 3;
constexpr wire::StoppedQuery kQuery{.source_qpn = 0x1102, .peer_qpn = kPeer, .nonce = 9};

TEST(StoppedPeers, AProcessIsLookedAtOnceInAWhile) {
  unsigned looks = 0;
  bool stopped = true;
  StoppedPeers peers{[&](std::uint32_t slot) {
    EXPECT_EQ(slot, 3u);
    ++looks;
    return StoppedPeers::Lease{.stopped = stopped, .age = 10_s};
  }};
  const Clock::time_point now{1h};
  const auto reply = peers.reply(kQuery, now);
  ASSERT_TRUE(reply);
  EXPECT_EQ(*reply, (wire::StoppedReply{.peer_qpn = kPeer, .nonce = 9}));
  stopped = false;
  EXPECT_TRUE(peers.reply(kQuery, now + StoppedPeers::kLookFor - 1ns));
  EXPECT_EQ(looks, 1u);
  EXPECT_FALSE(peers.reply(kQuery, now + StoppedPeers::kLookFor));
  EXPECT_EQ(looks, 2u);
  EXPECT_EQ(peers.counters().queries, 3u);
  EXPECT_EQ(peers.counters().replies, 2u);
}

TEST(StoppedPeers, TheLeaseMustBeAsOldAsTheSilence) {
  StoppedPeers peers{[](std::uint32_t) { return StoppedPeers::Lease{.stopped = true, .age = 10_s}; }};
  wire::StoppedQuery query = kQuery;
  query.silent_ms = 11'000;  // a second is for clocks
  EXPECT_TRUE(peers.reply(query, Clock::time_point{1h}));
  query.silent_ms = 11'001;
  EXPECT_FALSE(peers.reply(query, Clock::time_point{1h}));
}

TEST(StoppedPeers, RepliesAreLimited) {
  StoppedPeers peers{[](std::uint32_t) { return StoppedPeers::Lease{.stopped = true, .age = 10_s}; }};
  const Clock::time_point now{1h};
  for (unsigned i = 0; i < StoppedPeers::kRepliesMax; ++i) ASSERT_TRUE(peers.reply(kQuery, now)) << i;
  EXPECT_FALSE(peers.reply(kQuery, now + StoppedPeers::kLookFor - 1ns));
  EXPECT_EQ(peers.counters().limited, 1u);
  EXPECT_TRUE(peers.reply(kQuery, now + StoppedPeers::kLookFor));
}

}  // namespace
}  // namespace brdma::daemon
