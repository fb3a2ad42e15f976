// RDMA-CM through brdmad: ports, MADs between two processes' links over real sockets, refusals in the absence of a
// listener, forged ids, and a worker that dies.
#include <arpa/inet.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <memory>
#include <thread>

#include "daemon_fixture.h"
#include "io/cm/cm_link.h"
#include "io/daemon/lease_protocol.h"
#include "wire/cm/cm_address.h"
#include "wire/cm/cm_messages.h"

namespace brdma::test {
namespace {

constexpr IpAddress kLoopback = IpAddress::v4(127, 0, 0, 1), kAny = IpAddress::v4(0, 0, 0, 0);
constexpr auto kTcp = static_cast<std::uint8_t>(wire::PortSpace::kTcp);

class Connections : public DaemonTest {
 protected:
  void SetUp() override {
    DaemonTest::SetUp();
    ASSERT_EQ(a_.open().error, 0);
    ASSERT_EQ(b_.open().error, 0);
    ASSERT_NE(a_.prefix(), b_.prefix());
  }
  static io::CmFrame about_port(io::CmFrameKind kind, std::uint16_t port, const IpAddress& address = kAny) {
    return {.kind = kind, .port = port, .space = kTcp, .local = address};
  }
  static int take(io::CmLink& link, std::uint16_t port, const IpAddress& address = kAny, std::uint8_t flags = 0) {
    auto frame = about_port(io::CmFrameKind::kTakePort, port, address);
    frame.flags = flags;
    return link.ask(frame).error;
  }
  static int listen(io::CmLink& link, std::uint16_t port, const IpAddress& address = kAny) {
    return link.ask(about_port(io::CmFrameKind::kListenPort, port, address)).error;
  }
  static void release(io::CmLink& link, std::uint16_t port, bool listening = false) {
    auto frame = about_port(io::CmFrameKind::kReleasePort, port);
    frame.flags = listening ? io::kCmListening : 0;
    (void)link.ask(frame);
  }
  static void send(io::CmLink& link, const wire::CmMessage& message, const IpAddress& local = kLoopback) {
    io::CmFrame frame{.kind = io::CmFrameKind::kMad, .local = local, .remote = kLoopback};
    wire::emit_cm({.transaction = 7, .message = message}, frame.mad);
    link.send(frame);
  }
  // The next message that comes to the link; an empty one if none does.
  static wire::CmMessage receive(io::CmLink& link) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (std::chrono::steady_clock::now() < deadline) {
      const auto frames = link.receive();
      if (!frames.empty()) return wire::parse_cm(frames.front().mad)->message;
      (void)wait_for_event(link.fd(), POLLIN, 100ms);
    }
    ADD_FAILURE() << "nothing came";
    return wire::CmApr{};
  }
  static wire::CmReq request(const io::CmLink& link, std::uint16_t port) {
    wire::CmReq req;
    req.local_comm_id = std::uint32_t{link.prefix()} << 16 | 1;
    req.service_id = wire::service_id(wire::PortSpace::kTcp, port);
    req.path_mtu_code = 3;
    return req;
  }

  io::CmLink a_, b_;
};

// Replaces brdmad: greets clients, and dies `deaths` times at the first query. Exit code 0: the next one has answered
// it.
int serve_and_die(const io::FileDescriptor& listener, int deaths) {
  for (;; --deaths) {
    const io::FileDescriptor client{::accept(listener.get(), nullptr, nullptr)};
    io::CmHello hello;
    if (::recv(client.get(), &hello, sizeof hello, MSG_WAITALL) != sizeof hello) return 1;
    const io::CmFrame greeting{.kind = io::CmFrameKind::kHello, .prefix = 7};
    if (::send(client.get(), &greeting, sizeof greeting, MSG_NOSIGNAL) != sizeof greeting) return 2;
    io::CmFrame question;
    if (::recv(client.get(), &question, sizeof question, MSG_WAITALL) != sizeof question) return 3;
    if (deaths > 0) continue;
    return ::send(client.get(), &question, sizeof question, MSG_NOSIGNAL) == sizeof question ? 0 : 4;
  }
}

// An attacker that kills brdmad may kill the next one, too.
TEST_F(DaemonTest, AQuestionOutlivesSeveralDeaths) {
  Gate listening;
  Child daemon([&] {
    const io::FileDescriptor listener = listen_as_daemon(1);
    if (!listener.valid()) return 100;
    listening.open();
    return serve_and_die(listener, 5);
  });
  listening.open();
  ASSERT_TRUE(listening.wait());
  io::CmLink link;
  ASSERT_EQ(link.open().error, 0);
  EXPECT_EQ(link.ask({.kind = io::CmFrameKind::kTakePort, .port = 7174}).error, 0);
  EXPECT_EQ(daemon.join(), 0);
}

TEST_F(Connections, PortsBelongToOneProcess) {
  EXPECT_EQ(take(a_, 7174), 0);
  EXPECT_EQ(take(b_, 7174), EADDRINUSE);
  EXPECT_EQ(take(b_, 7174, kLoopback), EADDRINUSE) << "0.0.0.0 stands for this one too";
  EXPECT_EQ(listen(b_, 7174), EINVAL) << "not its own";
  EXPECT_EQ(listen(a_, 7174), 0);
  const json ids = ask("cm_ids")["cm_ids"];
  ASSERT_EQ(ids.size(), 1u);
  EXPECT_EQ(ids[0]["state"], "LISTEN");
  EXPECT_EQ(ids[0]["src-port"], 7174);
  EXPECT_EQ(ids[0]["comm"], "daemon_test");
  release(a_, 7174, true);
  EXPECT_EQ(take(b_, 7174, kLoopback), 0);
  EXPECT_EQ(take(a_, 7174, IpAddress::v4(127, 0, 0, 2)), 0) << "another address";
}

TEST_F(Connections, FreePortsAndSharedOnes) {
  const auto first = a_.ask(about_port(io::CmFrameKind::kTakePort, 0));
  const auto second = b_.ask(about_port(io::CmFrameKind::kTakePort, 0));
  EXPECT_GE(first.port, 32'768);
  EXPECT_NE(first.port, second.port);
  EXPECT_EQ(take(a_, 9000, kAny, io::kCmReusePort), 0);
  EXPECT_EQ(take(b_, 9000), EADDRINUSE) << "both must be willing";
  EXPECT_EQ(take(b_, 9000, kAny, io::kCmReusePort), 0);
  EXPECT_EQ(listen(a_, 9000), 0);
  EXPECT_EQ(listen(b_, 9000), EADDRINUSE);
  const IpAddress any6;
  EXPECT_EQ(take(a_, 9001), 0);
  EXPECT_EQ(take(b_, 9001, any6), EADDRINUSE) << ":: takes IPv4 along";
  EXPECT_EQ(take(b_, 9001, any6, io::kCmIpv6Only), 0);
}

// Counters of connection managers outlive them.
TEST_F(Connections, CountersOfConnectionManagersAreSummed) {
  const auto report = [](io::CmLink& link, std::uint64_t half_open, std::uint64_t backlog_full) {
    cm::Counters counters;
    counters.half_open = half_open;
    counters.backlog_full = backlog_full;
    io::CmFrame frame{.kind = io::CmFrameKind::kCounters};
    std::memcpy(frame.mad.data(), &counters, sizeof counters);
    link.send(frame);
  };
  const auto become = [](std::uint64_t half_open, std::uint64_t backlog_full, std::size_t processes) {
    return ask_until("statistics", [&](const json& answer) {
      const json& connections = answer["connections"];
      return connections["counters"]["cm_half_open"] == half_open &&
             connections["counters"]["cm_backlog_full"] == backlog_full && connections["processes"].size() == processes;
    });
  };
  report(a_, 1, 0);
  report(a_, 3, 0);  // totals, not an increment
  {
    io::CmLink short_lived;
    ASSERT_EQ(short_lived.open().error, 0);
    report(short_lived, 4, 5);
    EXPECT_TRUE(become(7, 5, 3));
  }
  EXPECT_TRUE(become(7, 5, 2));
}

// Two claims of one process on one address: a release names the one that listened.
TEST_F(Connections, ClaimsOfOneProcessAreApart) {
  EXPECT_EQ(take(a_, 9002, kAny, io::kCmReusePort), 0);
  EXPECT_EQ(take(a_, 9002, kAny, io::kCmReusePort), 0);
  EXPECT_EQ(listen(a_, 9002), 0);
  EXPECT_EQ(listen(a_, 9002), EADDRINUSE) << "by the other claim";
  release(a_, 9002);
  const json ids = ask("cm_ids")["cm_ids"];
  ASSERT_EQ(ids.size(), 1u);
  EXPECT_EQ(ids[0]["state"], "LISTEN");
  EXPECT_EQ(listen(a_, 9002), EADDRINUSE) << "it does already";
  release(a_, 9002, true);
  EXPECT_TRUE(ask("cm_ids")["cm_ids"].empty());
}

TEST_F(Connections, PortsEndWithTheirProcess) {
  {
    io::CmLink short_lived;
    ASSERT_EQ(short_lived.open().error, 0);
    ASSERT_EQ(take(short_lived, 7174), 0);
  }
  ASSERT_TRUE(ask_until("cm_ids", [](const json& answer) { return answer["cm_ids"].empty(); }));
  EXPECT_EQ(take(b_, 7174), 0);
}

TEST_F(Connections, MessagesFindTheListenerAndTheAsker) {
  ASSERT_EQ(take(b_, 7174), 0);
  ASSERT_EQ(listen(b_, 7174), 0);
  send(a_, request(a_, 7174));
  const auto req = receive(b_);
  ASSERT_TRUE(std::holds_alternative<wire::CmReq>(req));
  const std::uint32_t asker = std::get<wire::CmReq>(req).local_comm_id;
  wire::CmRep answer;
  answer.local_comm_id = std::uint32_t{b_.prefix()} << 16 | 9;
  answer.remote_comm_id = asker;
  send(b_, answer);
  const auto rep = receive(a_);
  ASSERT_TRUE(std::holds_alternative<wire::CmRep>(rep));
  EXPECT_EQ(std::get<wire::CmRep>(rep).remote_comm_id, asker);
}

TEST_F(Connections, WhatNobodyWantsIsRefused) {
  send(a_, request(a_, 7175));
  const auto rej = receive(a_);
  ASSERT_TRUE(std::holds_alternative<wire::CmRej>(rej));
  EXPECT_EQ(std::get<wire::CmRej>(rej).reason, wire::reject::kInvalidServiceId);
  const std::uint16_t gone = static_cast<std::uint16_t>(~(a_.prefix() ^ b_.prefix()) | 1);
  const std::uint32_t theirs = std::uint32_t{gone} << 16, mine = std::uint32_t{a_.prefix()} << 16 | 4;
  send(a_, wire::CmDreq{.local_comm_id = mine, .remote_comm_id = theirs});
  EXPECT_TRUE(std::holds_alternative<wire::CmDrep>(receive(a_))) << "a process that has ended need not be waited for";
}

TEST_F(Connections, ARequestWaitsALittleForWhoIsAboutToListen) {
  ASSERT_EQ(take(b_, 7174), 0);
  send(a_, request(a_, 7174));
  ASSERT_TRUE(ask_until("statistics", [](const json& answer) { return answer["management_datagrams"] == 1; }));
  ASSERT_EQ(listen(b_, 7174), 0);
  const auto message = receive(b_);
  EXPECT_TRUE(std::holds_alternative<wire::CmReq>(message));
  release(b_, 7174, true);
  send(a_, request(a_, 7174));
  EXPECT_TRUE(std::holds_alternative<wire::CmRej>(receive(a_))) << "nobody came";
}

TEST_F(Connections, IdsOfOthersAreNotOnesOwn) {
  ASSERT_EQ(take(b_, 7174), 0);
  ASSERT_EQ(listen(b_, 7174), 0);
  send(a_, request(b_, 7174));
  io::CmFrame nonsense{.kind = io::CmFrameKind::kMad, .local = kLoopback, .remote = kLoopback};
  a_.send(nonsense);
  send(a_, request(a_, 7174), IpAddress::v4(192, 0, 2, 1));  // not an address of this host
  ASSERT_TRUE(ask_until("statistics", [](const json& answer) {
    return answer["management"]["mads_forged"] == 2 && answer["management"]["mads_not_sent"] == 1;
  }));
  EXPECT_EQ(ask("statistics")["management_datagrams"], 0);
}

// Both sides of a connection are notified when the process at the other end is gone.
TEST_F(Connections, APeerOfAnEndedProcessIsDisconnected) {
  ASSERT_EQ(take(b_, 7174), 0);
  ASSERT_EQ(listen(b_, 7174), 0);
  for (const bool asker_goes : {true, false}) {
    auto c = std::make_unique<io::CmLink>();
    ASSERT_EQ(c->open().error, 0);
    const auto listener = asker_goes ? &b_ : c.get();
    const std::uint16_t port = asker_goes ? 7174 : 7175;
    if (!asker_goes) {
      ASSERT_EQ(take(*c, port), 0);
      ASSERT_EQ(listen(*c, port), 0);
    }
    wire::CmReq req = request(asker_goes ? *c : a_, port);
    req.qpn = 0x111;
    send(asker_goes ? *c : a_, req);
    ASSERT_TRUE(std::holds_alternative<wire::CmReq>(receive(*listener)));
    wire::CmRep rep;
    rep.local_comm_id = std::uint32_t{listener->prefix()} << 16 | 9;
    rep.remote_comm_id = req.local_comm_id;
    rep.qpn = 0x222;
    send(*listener, rep);
    ASSERT_TRUE(std::holds_alternative<wire::CmRep>(receive(asker_goes ? *c : a_)));
    c.reset();
    const auto message = receive(asker_goes ? b_ : a_);
    ASSERT_TRUE(std::holds_alternative<wire::CmDreq>(message));
    const auto& dreq = std::get<wire::CmDreq>(message);
    EXPECT_EQ(dreq.local_comm_id, asker_goes ? req.local_comm_id : rep.local_comm_id);
    EXPECT_EQ(dreq.remote_comm_id, asker_goes ? rep.local_comm_id : req.local_comm_id);
    EXPECT_EQ(dreq.remote_qpn, asker_goes ? 0x222u : 0x111u);
  }
}

// More requests than anybody reads: excess ones are lost, as on the network, and counted; the next one arrives.
TEST_F(Connections, AFloodOfRequestsIsBoundedAndPasses) {
  ASSERT_EQ(take(b_, 7174), 0);
  ASSERT_EQ(listen(b_, 7174), 0);
  json before;
  const auto unread = [&before](const json& answer) {
    before = answer["management"];
    return before["mads_unread"] > 100;
  };
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  for (std::uint32_t i = 0; !unread(ask("statistics")) && std::chrono::steady_clock::now() < deadline;) {
    for (const std::uint32_t end = i + 500; i < end; ++i) {
      wire::CmReq req = request(a_, 7174);
      req.local_comm_id += i % 60'000;
      send(a_, req);
    }
  }
  EXPECT_GT(before["mads_unread"], 100);
  wire::CmReq last = request(a_, 7174);
  last.qpn = 0x777;
  bool came = false;
  while (!came && std::chrono::steady_clock::now() < deadline) {  // some of the flood is still in flight
    send(a_, last);
    (void)wait_for_event(b_.fd(), POLLIN, 100ms);
    for (const io::CmFrame& frame : b_.receive()) {
      const auto mad = wire::parse_cm(frame.mad);
      const auto* const req = std::get_if<wire::CmReq>(&mad->message);
      came = came || (req != nullptr && req->qpn == last.qpn);
    }
  }
  EXPECT_TRUE(came);
}

// A packet for QP 1 that was changed in flight, and a malformed one.
TEST_F(Connections, DamagedPacketsAreCounted) {
  send_to_qpn(1, false, 1, wire::kGsiPacketSize);
  send_to_qpn(1, true, 1, 64);
  ASSERT_TRUE(ask_until("statistics", [](const json& answer) { return answer["management"]["mads_bad"] == 2; }));
}

TEST_F(Connections, AWorkersDeathIsReportedAndRepaired) {
  ASSERT_EQ(take(b_, 7174), 0);
  const std::uint16_t prefix = b_.prefix();
  const pid_t worker = worker_pid();
  ASSERT_EQ(::kill(worker, SIGKILL), 0);
  ASSERT_TRUE(ask_until("version", [worker](const json& answer) { return answer["worker_pid"] != worker; }));
  EXPECT_EQ(take(b_, 7176), 0) << "reconnects by itself";
  EXPECT_TRUE(b_.lost_ports());
  EXPECT_FALSE(b_.lost_ports());
  EXPECT_EQ(b_.prefix(), prefix);
  EXPECT_EQ(take(b_, 7174), 0) << "said again by whoever had it";
}

// A process that only waits for messages reconnects too, at the first attempt, and its queries succeed from then on.
TEST_F(Connections, AWorkersDeathIsMendedWhileOnlyMessagesAreAwaited) {
  ASSERT_EQ(take(b_, 7174), 0);
  const pid_t worker = worker_pid();
  ASSERT_EQ(::kill(worker, SIGKILL), 0);
  ASSERT_TRUE(wait_for_event(b_.fd(), POLLRDHUP));
  EXPECT_TRUE(b_.receive().empty());
  EXPECT_TRUE(b_.lost_ports()) << "reconnected by receive()";
  EXPECT_EQ(take(b_, 7174), 0);
  EXPECT_EQ(listen(b_, 7174), 0);
}

// A new worker does not know the listeners yet: a request waits for them, and answers to others are not refused.
TEST_F(Connections, WhatComesBeforeTheProcessesAreBackIsNotRefused) {
  ASSERT_EQ(take(b_, 7174), 0);
  ASSERT_EQ(listen(b_, 7174), 0);
  const pid_t worker = worker_pid();
  ASSERT_EQ(::kill(worker, SIGKILL), 0);
  ASSERT_TRUE(wait_for_event(a_.fd(), POLLRDHUP));
  EXPECT_TRUE(a_.receive().empty());
  const std::uint32_t theirs = std::uint32_t{b_.prefix()} << 16 | 9, mine = std::uint32_t{a_.prefix()} << 16 | 4;
  send(a_, wire::CmDreq{.local_comm_id = mine, .remote_comm_id = theirs});
  send(a_, request(a_, 7174));
  ASSERT_TRUE(ask_until("statistics", [](const json& answer) { return answer["management_datagrams"] == 2; }));
  EXPECT_EQ(ask("statistics")["management"]["mads_refused"], 0);
  EXPECT_EQ(take(b_, 7174), 0);
  EXPECT_EQ(listen(b_, 7174), 0);
  EXPECT_TRUE(std::holds_alternative<wire::CmReq>(receive(b_)));
}

// A process with a connection to b_'s port, and with a lease if it is one with a device, as all programs are.
int connected_process(const Gate& connected, bool with_lease) {
  io::Lease lease;
  if (with_lease) lease = lease_or_die();
  io::CmLink link;
  if (link.open().error != 0) return 1;
  wire::CmReq req;
  req.local_comm_id = std::uint32_t{link.prefix()} << 16 | 1;
  req.service_id = wire::service_id(wire::PortSpace::kTcp, 7174);
  req.path_mtu_code = 3;
  io::CmFrame frame{.kind = io::CmFrameKind::kMad, .local = kLoopback, .remote = kLoopback};
  wire::emit_cm({.transaction = 7, .message = req}, frame.mad);
  link.send(frame);
  std::vector<io::CmFrame> answers;
  while (answers.empty() && wait_for_event(link.fd(), POLLIN)) answers = link.receive();
  static_cast<void>(!::write(connected.signal_end.get(), "", 1));
  ::pause();
  return 0;
}

// The process dies when there is no worker, or with the whole daemon: the next worker disconnects its peer. Not so the
// peer of a stopped process.
TEST_F(Connections, PeersOfAProcessThatDiedUnseenAreDisconnected) {
  ASSERT_EQ(take(b_, 7174), 0);
  ASSERT_EQ(listen(b_, 7174), 0);
  for (const bool stopped_first : {false, true}) {
    Gate connected;
    Child process([&] { return connected_process(connected, stopped_first); });
    auto asked = receive(b_);
    while (std::holds_alternative<wire::CmDreq>(asked)) asked = receive(b_);  // the last one, repeated
    ASSERT_TRUE(std::holds_alternative<wire::CmReq>(asked));
    wire::CmRep rep;
    rep.local_comm_id = std::uint32_t{b_.prefix()} << 16 | 9;
    rep.remote_comm_id = std::get<wire::CmReq>(asked).local_comm_id;
    send(b_, rep);
    ASSERT_TRUE(connected.wait());
    const pid_t worker = worker_pid();
    ASSERT_EQ(::kill(worker, SIGSTOP), 0);
    if (stopped_first) {
      ASSERT_EQ(::kill(process.pid(), SIGSTOP), 0);
    } else {
      process.kill_and_reap();
    }
    ASSERT_EQ(::kill(worker, SIGKILL), 0);
    ASSERT_TRUE(wait_for_event(b_.fd(), POLLRDHUP));
    EXPECT_TRUE(b_.receive().empty());
    ASSERT_TRUE(b_.lost_ports());
    ASSERT_EQ(take(b_, 7174), 0);
    ASSERT_EQ(listen(b_, 7174), 0);
    if (stopped_first) {
      EXPECT_FALSE(wait_for_event(b_.fd(), POLLIN, 1500ms)) << "a process that is stopped was given up";
      process.kill_and_reap();
    }
    const auto message = receive(b_);
    ASSERT_TRUE(std::holds_alternative<wire::CmDreq>(message));
    EXPECT_EQ(std::get<wire::CmDreq>(message).remote_comm_id, rep.local_comm_id);
    send(b_, wire::CmDrep{.local_comm_id = rep.local_comm_id, .remote_comm_id = rep.remote_comm_id});
  }
}

// Replaces brdmad: a worker that dies while it is greeted, and the one that comes after it.
TEST_F(DaemonTest, AWorkerThatDiesWhileItIsGreetedIsNotTheLast) {
  const io::FileDescriptor listener{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  std::memcpy(name.sun_path + 1, io::kDaemonName.data(), io::kDaemonName.size());
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + io::kDaemonName.size());
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&name), size), 0);
  ASSERT_EQ(::listen(listener.get(), 4), 0);
  constexpr std::uint16_t kPrefix = 0x1234;
  io::FileDescriptor next;
  std::thread workers([&] {
    io::CmHello hello;
    {
      const io::FileDescriptor dying{::accept(listener.get(), nullptr, nullptr)};
      EXPECT_EQ(::recv(dying.get(), &hello, sizeof hello, MSG_WAITALL), static_cast<ssize_t>(sizeof hello));
    }
    next.reset(::accept(listener.get(), nullptr, nullptr));
    EXPECT_EQ(::recv(next.get(), &hello, sizeof hello, MSG_WAITALL), static_cast<ssize_t>(sizeof hello));
    const io::CmFrame welcome{.kind = io::CmFrameKind::kHello, .prefix = kPrefix};
    EXPECT_EQ(::send(next.get(), &welcome, sizeof welcome, MSG_NOSIGNAL), static_cast<ssize_t>(sizeof welcome));
  });
  io::CmLink link;
  EXPECT_EQ(link.open().error, 0);
  EXPECT_EQ(link.prefix(), kPrefix);
  ::shutdown(listener.get(), SHUT_RDWR);  // for a client that still waits for a second connection
  workers.join();
}

}  // namespace
}  // namespace brdma::test
