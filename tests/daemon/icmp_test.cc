// ICMP reports of dropped packets reach the process whose queue pair sent them, and nobody else.
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cstring>

#include "daemon_fixture.h"
#include "wire/edn.h"

namespace brdma::test {
namespace {

constexpr std::size_t kBth = 28, kBxth = 40;  // behind IPv4 and UDP headers

// Reports a packet dropped between 127.0.0.1 and its peer; with a sender other than 0: one of bitmap mode.
std::vector<std::byte> source_quench(std::uint32_t source_qpn) {
  std::array<std::byte, kBxth + wire::kBxthSize> dropped{};
  store_be16(dropped.data(), 0x4500);
  dropped[9] = std::byte{17};
  store_be32(&dropped[12], 0x7F000001);
  store_be32(&dropped[16], 0x0A4D0002);
  store_be16(&dropped[22], 4791);
  store_u8(&dropped[kBth], source_qpn == 0 ? 0x06 : 0xC6);  // RDMA WRITE First
  store_be24(&dropped[kBth + 5], 0x2203);
  store_u8(&dropped[kBxth], 0x20);
  store_be24(&dropped[kBxth + 1], source_qpn);
  std::vector<std::byte> message(wire::kIcmpHeaderSize + wire::kQuoteMax);
  message.resize(wire::emit_icmp_edn(dropped, 1, 50_us, message.data()));
  return message;
}

void send_icmp(const std::vector<std::byte>& message) {
  const io::FileDescriptor fd{::socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_ICMP)};
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const auto* address = reinterpret_cast<const sockaddr*>(&to);
  ASSERT_EQ(::sendto(fd.get(), message.data(), message.size(), 0, address, sizeof to),
            static_cast<ssize_t>(message.size()));
}

// The messages of the next line on a lease's connection.
json next_news(const io::Lease& lease) {
  std::string text;
  while (text.find("}\n") == std::string::npos) {
    if (!wait_for_event(lease.control_fd, POLLIN)) break;
    std::array<char, 4096> some{};
    const ssize_t size = ::recv(lease.control_fd, some.data(), some.size(), MSG_DONTWAIT);
    if (size <= 0) break;
    text.append(some.data(), static_cast<std::size_t>(size));
  }
  return json::parse(text, nullptr, false);
}
bool is_silent(const io::Lease& lease) {
  pollfd fd{lease.control_fd, POLLIN, 0};
  return ::poll(&fd, 1, 0) == 0;
}

std::string hexadecimal(const std::vector<std::byte>& bytes) {
  std::string text;
  for (const std::byte each : bytes) {
    std::array<char, 3> digits{};
    std::snprintf(digits.data(), digits.size(), "%02x", std::to_integer<unsigned>(each));
    text += digits.data();
  }
  return text;
}

TEST_F(DaemonTest, IcmpAboutADropReachesItsSender) {
  const io::Lease first = lease_or_die(), second = lease_or_die();
  ASSERT_TRUE(ask("statistics")["icmp"]["heard"]);
  const auto message = source_quench(0x2000 | second.slot);
  send_icmp(message);
  const json news = next_news(second);
  EXPECT_EQ(news["do"], "icmp");
  EXPECT_EQ(news["messages"], json::array({hexadecimal(message)}));
  const json counted = ask("statistics")["icmp"];
  EXPECT_EQ(counted["received"], 1);
  EXPECT_EQ(counted["handed"], 1);
  EXPECT_TRUE(is_silent(first));
}

TEST_F(DaemonTest, IcmpAboutAStandardPacketReachesAllBecauseItsSenderIsNotNamed) {
  const io::Lease first = lease_or_die(), second = lease_or_die();
  send_icmp(source_quench(0));
  EXPECT_EQ(next_news(first)["do"], "icmp");
  EXPECT_EQ(next_news(second)["do"], "icmp");
  EXPECT_EQ(ask("statistics")["icmp"]["handed"], 2);
}

TEST_F(DaemonTest, IcmpThatIsDamagedOrForNobodyIsCounted) {
  const io::Lease lease = lease_or_die();
  auto message = source_quench(0x2000 | lease.slot);
  message[50] ^= std::byte{1};
  send_icmp(message);
  send_icmp(source_quench(0x2000 | (lease.slot + 1)));
  ASSERT_TRUE(ask_until("statistics", [](const json& answer) { return answer["icmp"]["received"] == 2; }));
  const json counted = ask("statistics")["icmp"];
  EXPECT_EQ(counted["bad"], 1);
  EXPECT_EQ(counted["for_nobody"], 1);
  EXPECT_TRUE(is_silent(lease));
}

}  // namespace
}  // namespace brdma::test
