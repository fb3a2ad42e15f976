// brdmad is queried whether the process behind a queue pair is stopped, by datagrams to QP 1 as a requester sends them.
#include "wire/stopped_peer.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>

#include "base/datagram.h"
#include "daemon_fixture.h"
#include "wire/cm/mad.h"
#include "wire/crc/icrc.h"
#include "wire/packet.h"

namespace brdma::test {
namespace {

constexpr IpAddress kLoopback = IpAddress::v4(127, 0, 0, 1);

// A process with a lease, which waits for ever.
class Leaser {
 public:
  Leaser()
      : child_([this] {
          const io::Lease lease = lease_or_die();
          const int fd = told_.signal_end.get();
          if (lease.socket_fd < 0 || ::write(fd, &lease.slot, sizeof lease.slot) < 0) return 1;
          for (;;) ::pause();
        }) {
    told_.signal_end.reset();  // so that a failed one ends the reading
    EXPECT_EQ(::read(told_.wait_end.get(), &slot_, sizeof slot_), static_cast<ssize_t>(sizeof slot_));
  }
  [[nodiscard]] std::uint32_t qpn() const { return 1u << io::kSlotBits | slot_; }
  [[nodiscard]] pid_t pid() const { return child_.pid(); }
  // Returns when it is done with.
  void stop() {
    ASSERT_EQ(::kill(pid(), SIGSTOP), 0);
    int status = 0;
    ASSERT_EQ(::waitpid(pid(), &status, WUNTRACED), pid());
    ASSERT_TRUE(WIFSTOPPED(status));
  }
  void go_on() {
    ASSERT_EQ(::kill(pid(), SIGCONT), 0);
    int status = 0;
    ASSERT_EQ(::waitpid(pid(), &status, WCONTINUED), pid());
    ASSERT_TRUE(WIFCONTINUED(status));
  }
  void kill() { child_.kill_and_reap(); }

 private:
  Gate told_;
  std::uint32_t slot_ = 0;
  Child child_;
};

class StoppedPeers : public DaemonTest {
 protected:
  void SetUp() override {
    DaemonTest::SetUp();
    fd_ = io::FileDescriptor{::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)};  // of this network namespace
    lease_ = lease_or_die();
    asker_qpn_ = 2u << io::kSlotBits | lease_.slot;
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof any;
    ASSERT_EQ(::bind(fd_.get(), reinterpret_cast<const sockaddr*>(&any), size), 0);
    ASSERT_EQ(::getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&any), &size), 0);
    port_ = ntohs(any.sin_port);
  }
  // `damage`: of the ICRC.
  void ask_about(std::uint32_t qpn, std::uint64_t nonce, std::uint32_t silent_ms = 0, std::uint32_t damage = 0) {
    std::array<std::byte, wire::kBthSize + wire::kStoppedQuerySize + wire::kIcrcSize> packet{};
    wire::Bth bth;
    bth.opcode = static_cast<std::uint8_t>(wire::Control::kStoppedQuery);
    bth.dest_qpn = wire::kGsiQpn;
    wire::emit_bth(bth, packet.data());
    wire::emit_stopped_query({.source_qpn = asker_qpn_, .peer_qpn = qpn, .nonce = nonce, .silent_ms = silent_ms},
                             packet.data() + wire::kBthSize);
    const wire::IcrcPath path{.source = kLoopback, .destination = kLoopback, .source_port = port_};
    store_le32(packet.data() + packet.size() - wire::kIcrcSize, wire::packet_icrc(path, packet) ^ damage);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(kRoceUdpPort);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(::sendto(fd_.get(), packet.data(), packet.size(), 0, reinterpret_cast<const sockaddr*>(&to), sizeof to),
              static_cast<ssize_t>(packet.size()));
  }
  // Queries processed so far.
  static std::uint64_t looked_at() { return count("stopped_queries"); }
  static std::uint64_t count(const char* counter) { return ask("statistics")["management"][counter]; }
  // brdmad's reply to a query. It inspects a process again after 50 ms, so the query is repeated until the reply is
  // `expected`, with a time limit.
  bool says_stopped(std::uint32_t qpn, bool expected, std::uint32_t silent_ms = 0) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    for (;;) {
      const std::uint64_t before = looked_at();
      ask_about(qpn, ++nonce_, silent_ms);
      EXPECT_TRUE(ask_until("statistics",
                            [&](const json& answer) { return answer["management"]["stopped_queries"] > before; }));
      const bool stopped = wait_for_event(lease_.socket_fd, POLLIN, 0ms);
      if (stopped) expect_reply(qpn);
      if (stopped == expected || std::chrono::steady_clock::now() > deadline) return stopped;
    }
  }
  void expect_reply(std::uint32_t qpn) const {
    std::array<std::byte, 2048> bytes;
    sockaddr_storage from{};
    socklen_t size = sizeof from;
    const ssize_t got =
        ::recvfrom(lease_.socket_fd, bytes.data(), bytes.size(), 0, reinterpret_cast<sockaddr*>(&from), &size);
    ASSERT_EQ(got, static_cast<ssize_t>(wire::kStoppedReplyPacketSize));
    const ConstBytes packet = ConstBytes{bytes}.first(static_cast<std::size_t>(got));
    const auto parsed = wire::parse_packet(packet);
    ASSERT_TRUE(parsed.ok());
    EXPECT_EQ(parsed.value().bth.dest_qpn, asker_qpn_);
    const auto reply = wire::parse_stopped_reply(parsed.value().payload);
    ASSERT_TRUE(reply);
    EXPECT_EQ(reply->nonce, nonce_);
    EXPECT_EQ(reply->peer_qpn, qpn);
    const std::uint16_t port = ntohs(reinterpret_cast<const sockaddr_in6&>(from).sin6_port);  // at the same place in v4
    const wire::IcrcPath path{.source = kLoopback, .destination = kLoopback, .source_port = port};
    EXPECT_EQ(wire::packet_icrc(path, packet), wire::stored_icrc(packet));
  }

  io::Lease lease_;  // the requester's, at which replies arrive
  std::uint32_t asker_qpn_ = 0;
  io::FileDescriptor fd_;
  std::uint16_t port_ = 0;
  std::uint64_t nonce_ = 0x0123'4567'89AB'0000;
};

TEST_F(StoppedPeers, OnlyOfAStoppedProcessIsItSaid) {
  Leaser peer;
  EXPECT_FALSE(says_stopped(peer.qpn(), false));
  peer.stop();
  EXPECT_TRUE(says_stopped(peer.qpn(), true));
  EXPECT_FALSE(says_stopped(asker_qpn_, false)) << "another process";
  peer.go_on();
  EXPECT_FALSE(says_stopped(peer.qpn(), false));
  EXPECT_GE(count("stopped_replies"), 1u);
  EXPECT_EQ(count("stopped_limited"), 0u);
}

TEST_F(StoppedPeers, NotOfOneThatWasKilledWhileItWasStopped) {
  Leaser peer;
  peer.stop();
  EXPECT_TRUE(says_stopped(peer.qpn(), true));
  peer.kill();
  EXPECT_FALSE(says_stopped(peer.qpn(), false));
  ASSERT_TRUE(leases_become(1));
  EXPECT_FALSE(says_stopped(peer.qpn(), false));
}

TEST_F(StoppedPeers, SlotsThatNobodyHasAndTheDaemonsOwnAreNotStopped) {
  for (const std::uint32_t qpn : {0x1100u, 0x1101u, 0x11FFu, 0xFFFF'FFu}) EXPECT_FALSE(says_stopped(qpn, false)) << qpn;
}

// The silence began before the process had its lease: the query meant another one.
TEST_F(StoppedPeers, NotOfAProcessThatIsYoungerThanTheSilence) {
  Leaser peer;
  peer.stop();
  EXPECT_TRUE(says_stopped(peer.qpn(), true));
  EXPECT_FALSE(says_stopped(peer.qpn(), false, /*silent_ms=*/3'600'000));
  EXPECT_FALSE(says_stopped(peer.qpn(), false, /*silent_ms=*/0xFFFF'FFFF));
}

TEST_F(StoppedPeers, DamagedAndForeignPacketsAreCountedAndNotAnswered) {
  Leaser peer;
  peer.stop();
  ASSERT_TRUE(says_stopped(peer.qpn(), true));
  const std::uint64_t replies = count("stopped_replies");
  ask_about(peer.qpn(), 1, 0, /*damage=*/1);
  ASSERT_TRUE(ask_until("statistics", [](const json& answer) { return answer["management"]["mads_bad"] == 1; }));
  send_to_qpn(1, false);
  ASSERT_TRUE(ask_until("statistics", [](const json& answer) { return answer["management"]["mads_bad"] == 2; }));
  EXPECT_EQ(count("stopped_replies"), replies);
  EXPECT_FALSE(wait_for_event(lease_.socket_fd, POLLIN, 0ms));
}

// A cgroup of v2, of this test's own; empty where there can be none.
class FrozenGroup {
 public:
  FrozenGroup() {
    std::ifstream mounts("/proc/self/mounts");
    for (std::string source, point, type, rest; mounts >> source >> point >> type && std::getline(mounts, rest);) {
      if (type != "cgroup2") continue;
      const std::string path = point + "/brdma-test-" + std::to_string(::getpid());
      if (::mkdir(path.c_str(), 0700) == 0) path_ = path;
      return;
    }
  }
  ~FrozenGroup() {
    if (path_.empty()) return;
    (void)freeze(false);
    EXPECT_EQ(::rmdir(path_.c_str()), 0) << std::strerror(errno);
  }
  [[nodiscard]] bool take(pid_t pid) const { return !path_.empty() && write("cgroup.procs", std::to_string(pid)); }
  [[nodiscard]] bool freeze(bool on) const { return write("cgroup.freeze", on ? "1" : "0"); }
  // Some time after the request.
  [[nodiscard]] bool becomes_frozen() const {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (std::chrono::steady_clock::now() < deadline) {
      std::ifstream events(path_ + "/cgroup.events");
      for (std::string line; std::getline(events, line);) {
        if (line == "frozen 1") return true;
      }
    }
    return false;
  }

 private:
  [[nodiscard]] bool write(const char* file, const std::string& text) const {
    std::ofstream out(path_ + "/" + file);
    return (out << text << std::flush).good();
  }
  std::string path_;
};

TEST_F(StoppedPeers, AFrozenProcessIsStoppedToo) {
  const FrozenGroup group;
  Leaser peer;
  if (!group.take(peer.pid()) || !group.freeze(true)) {
    peer.kill();
    GTEST_SKIP() << "no cgroup of version 2 that this user may freeze";
  }
  ASSERT_TRUE(group.becomes_frozen());
  EXPECT_TRUE(says_stopped(peer.qpn(), true));
  ASSERT_TRUE(group.freeze(false));
  EXPECT_FALSE(says_stopped(peer.qpn(), false));
  peer.kill();
}

}  // namespace
}  // namespace brdma::test
