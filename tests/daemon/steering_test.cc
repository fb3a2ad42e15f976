// Packets reach the socket of their destination QPN's slot, singly and in batches, over both IPs.
#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <signal.h>
#include <sys/socket.h>

#include <cerrno>

#include "daemon_fixture.h"
#include "io/daemon/lease_protocol.h"

namespace brdma::test {
namespace {

// A queue pair's number in this lease.
std::uint32_t qpn_of(const io::Lease& lease, std::uint32_t index) { return index << lease.slot_bits | lease.slot; }

void expect_empty(const io::Lease& lease) {
  char byte = 0;
  EXPECT_EQ(::recv(lease.socket_fd, &byte, 1, MSG_DONTWAIT), -1);
  EXPECT_EQ(errno, EAGAIN);
}

// One at a time: sockets without a lease have room for two.
void expect_daemons(const std::vector<std::uint32_t>& qpns) {
  for (const std::uint32_t qpn : qpns) {
    const std::uint64_t before = ask("statistics")["management_datagrams"];
    send_to_qpn(qpn, false);
    EXPECT_TRUE(ask_until("statistics", [before](const json& answer) {
      return answer["management_datagrams"] == before + 1;
    })) << qpn;
  }
}

TEST_F(DaemonTest, PacketsFollowTheSlotOfTheirQpn) {
  std::vector<io::Lease> leases;
  for (int i = 0; i < 4; ++i) leases.push_back(lease_or_die());
  for (const bool ipv6 : {false, true}) {
    for (std::uint32_t index = 1; index <= 8; ++index) {
      for (const io::Lease& lease : leases) send_to_qpn(qpn_of(lease, index * 0xFF), ipv6);
    }
    for (const io::Lease& lease : leases) {
      const auto packets = receive_all(lease.socket_fd, 8);
      ASSERT_EQ(packets.size(), 8u);
      for (const auto& packet : packets) EXPECT_EQ(packet[7], lease.slot);
      expect_empty(lease);
    }
  }
}

// As kernels and adapters send it.
TEST_F(DaemonTest, Ipv6WithoutUdpChecksumIsTaken) {
  const io::Lease lease = lease_or_die();
  send_to_qpn(qpn_of(lease, 1), /*ipv6=*/true, 1, 64, /*udp_checksum=*/false);
  EXPECT_EQ(receive_all(lease.socket_fd, 1).size(), 1u);
}

TEST_F(DaemonTest, AGsoBatchArrivesWholeAtItsSlot) {
  const io::Lease first = lease_or_die(), second = lease_or_die();
  const int on = 1;
  ASSERT_EQ(::setsockopt(second.socket_fd, SOL_UDP, UDP_GRO, &on, sizeof on), 0);
  for (const bool ipv6 : {false, true}) {
    send_to_qpn(qpn_of(second, 7), ipv6, /*segments=*/32, /*bytes=*/1044);
    const auto packets = receive_all(second.socket_fd, 1);
    ASSERT_EQ(packets.size(), 1u);
    EXPECT_EQ(packets[0].size(), 32u * 1044u);
    send_to_qpn(qpn_of(first, 7), ipv6, /*segments=*/32, /*bytes=*/1044);
    EXPECT_EQ(receive_all(first.socket_fd, 32).size(), 32u);  // no UDP_GRO here: the kernel splits it
    expect_empty(first);
    expect_empty(second);
  }
}

TEST_F(DaemonTest, PacketsWithoutAQpnAndForManagementGoToTheDaemon) {
  const io::Lease lease = lease_or_die();
  send_to_qpn(0, false, 1, /*bytes=*/4);  // no byte 7
  send_to_qpn(1, false);
  send_to_qpn(0x122001, true);
  EXPECT_TRUE(ask_until("statistics", [](const json& answer) { return answer["management_datagrams"] == 3; }));
  expect_empty(lease);
}

TEST_F(DaemonTest, ALeaseStartsWithAnEmptySocket) {
  std::vector<io::Lease> leases;
  for (int i = 0; i < 20; ++i) leases.push_back(lease_or_die());
  io::Lease& victim = leases[10];
  const std::uint32_t qpn = qpn_of(victim, 5);
  send_to_qpn(qpn, false);  // stays unread in the ending lease
  victim = io::Lease{};
  ASSERT_TRUE(leases_become(19));
  for (int i = 0; i < 50; ++i) send_to_qpn(qpn, false);  // for a queue pair that is gone
  for (int others = 0; others < 200; ++others) {         // which have ended by the time it is leased again
    victim = lease_or_die();
    if (victim.slot == (qpn & (io::kSlotCount - 1))) break;
  }
  ASSERT_EQ(victim.slot, qpn & (io::kSlotCount - 1));
  expect_empty(victim);
  send_to_qpn(qpn, false);
  EXPECT_EQ(receive_all(victim.socket_fd, 1).size(), 1u);
}

// Packets for unused slots go to the daemon's socket, not to a program's.
TEST_F(DaemonTest, SlotsWithoutASocketAreNobodys) {
  const io::Lease lease = lease_or_die();
  expect_daemons({1u << lease.slot_bits | 256, 1u << lease.slot_bits | 4097, 1u << lease.slot_bits | 8191});
  expect_empty(lease);
}

// A lease whose numbers are used up gets those of further slots, which come to the same socket; until it ends.
TEST_F(DaemonTest, ALeaseMayHaveSeveralSlots) {
  io::Lease lease = lease_or_die(), other = lease_or_die();
  std::vector<std::uint32_t> slots{lease.slot};
  const auto one_more = [&slots](const io::Lease& of) {
    const auto slot = io::request_slot(of, static_cast<std::uint32_t>(slots.size()));
    ASSERT_TRUE(slot.ok()) << slot.reason().message;
    slots.push_back(slot.value());
  };
  for (int i = 0; i < 3; ++i) one_more(lease);
  const auto repeated = io::request_slot(lease, 1);
  ASSERT_TRUE(repeated.ok());
  EXPECT_EQ(repeated.value(), slots[1]) << "asked for once more";
  EXPECT_FALSE(io::request_slot(lease, 9).ok());
  const auto others = io::request_slot(other, 1);
  ASSERT_TRUE(others.ok());
  const auto expect_steered = [&] {
    for (const std::uint32_t slot : slots) send_to_qpn(0x7u << lease.slot_bits | slot, false);
    for (const std::uint32_t slot : {other.slot, others.value()}) send_to_qpn(0x7u << other.slot_bits | slot, true);
    EXPECT_EQ(receive_all(lease.socket_fd, slots.size()).size(), slots.size());
    EXPECT_EQ(receive_all(other.socket_fd, 2).size(), 2u);
    expect_empty(lease);
    expect_empty(other);
  };
  expect_steered();
  const pid_t worker = worker_pid();
  ASSERT_EQ(::kill(worker, SIGKILL), 0);
  ASSERT_TRUE(ask_until("version", [worker](const json& answer) { return answer["worker_pid"] != worker; }));
  expect_steered();
  one_more(lease);
  expect_steered();
  lease = io::Lease{};
  ASSERT_TRUE(leases_become(1));
  for (std::size_t i = 1; i < slots.size(); ++i) slots[i] |= 0x7u << other.slot_bits;
  expect_daemons({slots.begin() + 1, slots.end()});
  expect_empty(other);
}

TEST_F(DaemonTest, ALesseeCannotChangeTheSteering) {
  const io::Lease lease = lease_or_die(), other = lease_or_die();
  sock_filter all_to_zero{BPF_RET | BPF_K, 0, 0, 0};
  const sock_fprog program{1, &all_to_zero};
  EXPECT_EQ(::setsockopt(lease.socket_fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof program), -1);
  EXPECT_EQ(errno, EPERM);
  send_to_qpn(qpn_of(other, 1), false);
  EXPECT_EQ(receive_all(other.socket_fd, 1).size(), 1u);
}

TEST_F(DaemonTest, ALeasedSocketHasABufferOfSize) {
  const io::Lease lease = lease_or_die();
  int bytes = 0;
  socklen_t length = sizeof bytes;
  ASSERT_EQ(::getsockopt(lease.socket_fd, SOL_SOCKET, SO_RCVBUF, &bytes, &length), 0);
  EXPECT_GE(bytes, 212'992);  // the kernel's default for everybody
}

}  // namespace
}  // namespace brdma::test
