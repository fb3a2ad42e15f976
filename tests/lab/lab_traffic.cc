// lab_traffic - makes and measures plain UDP and TCP traffic between the hosts of a lab. Each result is one line of
// `key=value`. A line "ready" means that the program listens: testers wait for it instead of sleeping.
//   receive PORT IDLE_MS                         until, after SIGUSR1, nothing came for IDLE_MS: counts, order, bits
//                                                that changed
//   send ADDRESS PORT COUNT SIZE BATCH GAP_US TOS   numbered datagrams, BATCH of them a call. GAP_US 0: the receiver
//                                                reports its progress, and no more are in flight than its socket can
//                                                hold, so that only the network loses any; else GAP_US between calls
//   echo PORT                                    sends every datagram back, until killed
//   ping ADDRESS PORT COUNT [SOURCE_PORT]        round trips, one at a time: min_us, median_us, max_us, lost
//   inquire ADDRESS HOPS                         inquires the switches' link states (RoCE's port must be free):
//                                                number of answers, the hop of each, the longest answer
//   pair MODE [ADDRESS]                          one TCP connection; MODE: ok, server-fails, client-fails, client-hangs

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"

namespace {

using brdma::load_be64;
using brdma::store_be64;

[[noreturn]] void die(const char* what) {
  std::perror(what);
  std::exit(1);
}
void must(bool done, const char* what) {
  if (!done) die(what);
}

std::int64_t now_us() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return std::int64_t{time.tv_sec} * 1'000'000 + time.tv_nsec / 1'000;
}

struct Address {
  sockaddr_storage storage{};
  socklen_t size = sizeof(sockaddr_in);
  Address(const char* text, int port) {
    auto* v4 = reinterpret_cast<sockaddr_in*>(&storage);
    auto* v6 = reinterpret_cast<sockaddr_in6*>(&storage);
    if (inet_pton(AF_INET, text, &v4->sin_addr) == 1) {
      v4->sin_family = AF_INET;
      v4->sin_port = htons(static_cast<std::uint16_t>(port));
    } else {
      must(inet_pton(AF_INET6, text, &v6->sin6_addr) == 1, text);
      v6->sin6_family = AF_INET6;
      v6->sin6_port = htons(static_cast<std::uint16_t>(port));
      size = sizeof(sockaddr_in6);
    }
  }
  [[nodiscard]] sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

// Listens on every address, IPv4 and IPv6.
int open_receiver(int type, int port) {
  const int fd = socket(AF_INET6, type, 0);
  const int off = 0, on = 1, buffer = 8 << 20;
  setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer);
  Address any{"::", port};
  must(bind(fd, any.get(), any.size) == 0, "bind");
  return fd;
}

void say_ready() {
  std::puts("ready");
  std::fflush(stdout);
}

// Datagram: its number twice, then bytes that follow from the number.
constexpr std::size_t kNumberBytes = 16;
constexpr std::uint64_t kNumberMax = 10'000'000;
// Every bit of the number counts, high ones too: a flipped one must not look like another valid datagram.
std::byte pattern(std::uint64_t number, std::size_t at) {
  return static_cast<std::byte>((number * 0x9E3779B97F4A7C15u >> 56) + at * 7);
}

void write_datagram(std::byte* out, std::size_t size, std::uint64_t number) {
  store_be64(out, number);
  store_be64(out + 8, number);
  for (std::size_t i = kNumberBytes; i < size; ++i) out[i] = pattern(number, i);
}

int bits_changed(const std::byte* in, std::size_t size, std::uint64_t number) {
  int bits = std::popcount(load_be64(in) ^ number) + std::popcount(load_be64(in + 8) ^ number);
  for (std::size_t i = kNumberBytes; i < size; ++i) {
    bits += std::popcount(std::to_integer<unsigned>(in[i] ^ pattern(number, i)));
  }
  return bits;
}

class Tally {
 public:
  void take(const std::byte* datagram, std::size_t size) {
    ++received_;
    if (size < kNumberBytes) {
      ++broken_;
      return;
    }
    // Of the two copies of the number, at most one is wrong.
    const std::uint64_t a = load_be64(datagram), b = load_be64(datagram + 8);
    const int bits_a = bits_changed(datagram, size, a), bits_b = bits_changed(datagram, size, b);
    const std::uint64_t number = bits_a <= bits_b ? a : b;
    if (number > kNumberMax) {
      ++broken_;
      return;
    }
    one_bit_ += std::min(bits_a, bits_b) == 1;
    broken_ += std::min(bits_a, bits_b) > 1;
    if (number >= seen_.size()) seen_.resize(std::max<std::size_t>(number + 1, seen_.size() * 2));
    if (seen_[number]) {
      ++duplicates_;
    } else if (received_ > 1 && number < highest_) {
      ++late_;
    }
    seen_[number] = true;
    highest_ = std::max(highest_, number);
  }
  [[nodiscard]] std::uint64_t highest() const { return highest_; }
  void take_mark() { ++marked_; }
  void print(std::uint64_t messages, std::int64_t span_us, std::uint32_t dropped) const {
    std::printf(
        "received=%llu messages=%llu duplicates=%llu late=%llu one_bit=%llu broken=%llu marked=%llu span_us=%lld "
        "dropped=%u\n",
        count(received_), count(messages), count(duplicates_), count(late_), count(one_bit_), count(broken_),
        count(marked_), static_cast<long long>(span_us), dropped);
  }

 private:
  static unsigned long long count(std::uint64_t n) { return n; }
  std::vector<bool> seen_;
  std::uint64_t received_ = 0, duplicates_ = 0, late_ = 0, one_bit_ = 0, broken_ = 0, marked_ = 0, highest_ = 0;
};

// Readable when the signal has come; the signal has no other effect then.
int open_signal(int number) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, number);
  must(sigprocmask(SIG_BLOCK, &set, nullptr) == 0, "sigprocmask");
  const int fd = signalfd(-1, &set, 0);
  must(fd >= 0, "signalfd");
  return fd;
}

// Silence means the end only once the sender has ended: before, it may just wait for its core.
int receive(int port, int idle_ms) {
  constexpr int kPatienceMs = 30'000;
  const int fd = open_receiver(SOCK_DGRAM, port);
  const int sender_ended = open_signal(SIGUSR1);
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_RXQ_OVFL, &on, sizeof on);
  setsockopt(fd, IPPROTO_UDP, UDP_GRO, &on, sizeof on);
  must(setsockopt(fd, IPPROTO_IP, IP_RECVTOS, &on, sizeof on) == 0, "IP_RECVTOS");
  must(setsockopt(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, &on, sizeof on) == 0, "IPV6_RECVTCLASS");
  // When the kernel got it: this program may come to read much later on a busy machine.
  must(setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on) == 0, "SO_TIMESTAMPNS");
  say_ready();
  Tally tally;
  std::uint64_t messages = 0;
  std::int64_t first_us = 0, last_us = 0;
  std::uint32_t dropped = 0;
  std::vector<std::byte> buffer(65'536);
  std::array<pollfd, 2> polled{pollfd{fd, POLLIN, 0}, pollfd{sender_ended, POLLIN, 0}};
  while (poll(polled.data(), polled.size(), polled[1].fd < 0 ? idle_ms : kPatienceMs) > 0) {
    if (polled[1].revents != 0) polled[1].fd = -1;
    if (polled[0].revents == 0) continue;
    iovec data{buffer.data(), buffer.size()};
    alignas(cmsghdr) std::array<std::byte, 256> control{};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    sockaddr_storage from{};
    message.msg_name = &from;
    message.msg_namelen = sizeof from;
    const ssize_t size = recvmsg(fd, &message, 0);
    if (size < 0) continue;
    std::size_t segment = static_cast<std::size_t>(size);
    int traffic_class = 0;
    for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
      int value = 0;
      std::memcpy(&value, CMSG_DATA(header), std::min(sizeof value, header->cmsg_len - CMSG_LEN(0)));
      const bool v4_class = header->cmsg_level == IPPROTO_IP && header->cmsg_type == IP_TOS;
      if (v4_class || (header->cmsg_level == IPPROTO_IPV6 && header->cmsg_type == IPV6_TCLASS)) traffic_class = value;
      if (header->cmsg_level == SOL_SOCKET && header->cmsg_type == SO_TIMESTAMPNS) {
        timespec time{};
        std::memcpy(&time, CMSG_DATA(header), sizeof time);
        last_us = std::int64_t{time.tv_sec} * 1'000'000 + time.tv_nsec / 1'000;
      }
      if (header->cmsg_level == SOL_SOCKET && header->cmsg_type == SO_RXQ_OVFL)
        dropped = static_cast<std::uint32_t>(value);
      if (header->cmsg_level == IPPROTO_UDP && header->cmsg_type == UDP_GRO) segment = static_cast<std::size_t>(value);
    }
    if (messages++ == 0) first_us = last_us;
    for (std::size_t at = 0; at < static_cast<std::size_t>(size); at += segment) {
      tally.take(&buffer[at], std::min(segment, static_cast<std::size_t>(size) - at));
      if ((traffic_class & 3) == 3) tally.take_mark();  // congestion experienced (RFC 3168)
    }
    const std::uint64_t highest = tally.highest();
    sendto(fd, &highest, sizeof highest, 0, reinterpret_cast<sockaddr*>(&from), message.msg_namelen);
  }
  tally.print(messages, last_us - first_us, dropped);
  return 0;
}

// Waits until fewer than kUnderWayMax of the datagrams before `number` are in flight. Lost ones are not reported: after
// a while of silence everything counts as lost.
void wait_for_receiver(int fd, std::uint64_t number, std::uint64_t& arrived) {
  constexpr std::uint64_t kUnderWayMax = 48;
  constexpr int kSilenceMs = 100;
  while (number >= arrived + kUnderWayMax) {
    pollfd polled{fd, POLLIN, 0};
    std::uint64_t highest = 0;
    if (poll(&polled, 1, kSilenceMs) <= 0) {
      arrived = number;
    } else if (recv(fd, &highest, sizeof highest, 0) == static_cast<ssize_t>(sizeof highest) && highest < number) {
      arrived = std::max(arrived, highest + 1);
    }
  }
}

int send_datagrams(const char* address, int port, std::uint64_t count, std::size_t size, std::size_t batch,
                   std::int64_t gap_us, int traffic_class) {
  Address to{address, port};
  const int fd = socket(to.storage.ss_family, SOCK_DGRAM, 0);
  const int segment = static_cast<int>(size);
  const bool v4 = to.storage.ss_family == AF_INET;
  must(setsockopt(fd, v4 ? int{IPPROTO_IP} : int{IPPROTO_IPV6}, v4 ? IP_TOS : IPV6_TCLASS, &traffic_class,
                  sizeof traffic_class) == 0,
       "traffic class");
  if (batch > 1) must(setsockopt(fd, IPPROTO_UDP, UDP_SEGMENT, &segment, sizeof segment) == 0, "UDP_SEGMENT");
  must(connect(fd, to.get(), to.size) == 0, "connect");
  std::vector<std::byte> buffer(size * batch);
  const std::int64_t start = now_us();
  std::int64_t due = start;
  std::uint64_t arrived = 0;
  for (std::uint64_t number = 0; number < count;) {
    const std::size_t segments = std::min<std::uint64_t>(batch, count - number);
    if (gap_us == 0) wait_for_receiver(fd, number + segments - 1, arrived);
    for (std::size_t i = 0; i < segments; ++i) write_datagram(&buffer[i * size], size, number++);
    while (now_us() < due) {  // shorter than a sleep can be
    }
    due += gap_us;
    // A full send buffer is no loss: wait for room.
    while (send(fd, buffer.data(), segments * size, 0) < 0) must(errno == ENOBUFS || errno == EAGAIN, "send");
  }
  std::printf("sent=%llu span_us=%lld\n", static_cast<unsigned long long>(count),
              static_cast<long long>(now_us() - start));
  return 0;
}

int echo(int port) {
  const int fd = open_receiver(SOCK_DGRAM, port);
  say_ready();
  std::array<std::byte, 65'536> buffer{};
  for (;;) {
    sockaddr_storage from{};
    socklen_t from_size = sizeof from;
    const ssize_t size = recvfrom(fd, buffer.data(), buffer.size(), 0, reinterpret_cast<sockaddr*>(&from), &from_size);
    if (size >= 0)
      sendto(fd, buffer.data(), static_cast<std::size_t>(size), 0, reinterpret_cast<sockaddr*>(&from), from_size);
  }
}

int ping(const char* address, int port, int count, int source_port) {
  Address to{address, port};
  const int fd = socket(to.storage.ss_family, SOCK_DGRAM, 0);
  Address own{to.storage.ss_family == AF_INET ? "0.0.0.0" : "::", source_port};
  must(bind(fd, own.get(), own.size) == 0, "bind");
  must(connect(fd, to.get(), to.size) == 0, "connect");
  std::vector<std::int64_t> times;
  int lost = 0;
  for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(count); ++i) {
    std::array<std::byte, 64> out{}, in{};
    write_datagram(out.data(), out.size(), i);
    const std::int64_t start = now_us();
    must(send(fd, out.data(), out.size(), 0) >= 0, "send");
    pollfd polled{fd, POLLIN, 0};
    bool answered = false;
    while (!answered && poll(&polled, 1, 1'000) > 0) {
      answered = recv(fd, in.data(), in.size(), 0) == static_cast<ssize_t>(in.size()) && load_be64(in.data()) == i;
    }
    if (answered) times.push_back(now_us() - start);
    lost += !answered;
  }
  std::sort(times.begin(), times.end());
  if (times.empty()) times.push_back(-1);
  std::printf("min_us=%lld median_us=%lld max_us=%lld lost=%d\n", static_cast<long long>(times.front()),
              static_cast<long long>(times[times.size() / 2]), static_cast<long long>(times.back()), lost);
  return 0;
}

// A packet like a queue pair's data, so that switches know the flow, then an inquiry
// (docs/reference/wire.md#link-state). Only a receiving host would check the ICRC, and there is none.
int inquire(const char* address, int hops) {
  constexpr int kRocePort = 4791, kIdleMs = 1'000;
  constexpr std::size_t kBth = 12, kInquiry = kBth + 64 + 4;
  Address to{address, kRocePort};
  const int fd = open_receiver(SOCK_DGRAM, kRocePort);
  std::array<std::byte, kInquiry> out{};
  const auto send_packet = [&](std::uint8_t opcode) {
    out[0] = std::byte{opcode};
    must(sendto(fd, out.data(), out.size(), 0, to.get(), to.size) == static_cast<ssize_t>(out.size()), "sendto");
  };
  send_packet(0xC4);
  out[kBth] = std::byte{0x10};     // version 1
  out[kBth + 5] = std::byte{16};   // hop limit
  store_be64(&out[kBth + 8], 77);  // nonce
  send_packet(0xE4);
  int answered = 0;
  ssize_t longest = 0;
  std::string switches;
  pollfd polled{fd, POLLIN, 0};
  while (answered < hops && poll(&polled, 1, kIdleMs) > 0) {
    std::array<std::byte, 2'000> in{};
    const ssize_t size = recv(fd, in.data(), in.size(), 0);
    if (size < static_cast<ssize_t>(kInquiry) || in[0] != std::byte{0xE5} || load_be64(&in[kBth + 8]) != 77) continue;
    const int hop = std::to_integer<int>(in[kBth + 4]), id = std::to_integer<int>(in[kBth + 19]);
    switches += " hop" + std::to_string(hop) + "=" + std::to_string(id);
    longest = std::max(longest, size);
    ++answered;
  }
  std::printf("answered=%d longest=%lld%s\n", answered, static_cast<long long>(longest), switches.c_str());
  return 0;
}

int pair_program(std::string_view mode, const char* address) {
  constexpr int kTcpPort = 5'000;
  std::array<char, 8> word{};
  if (address == nullptr) {
    if (mode == "server-fails") return 3;
    const int listener = open_receiver(SOCK_STREAM, kTcpPort);
    must(listen(listener, 1) == 0, "listen");
    const int fd = accept(listener, nullptr, nullptr);
    must(recv(fd, word.data(), word.size(), MSG_WAITALL) >= 0, "recv");
    std::printf("the server got %.8s\n", word.data());
    return 0;
  }
  Address to{address, kTcpPort};
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  must(connect(fd, to.get(), to.size) == 0, "connect");
  if (mode == "client-hangs") {
    std::puts("the client hangs");
    std::fflush(stdout);
    for (;;) pause();
  }
  must(send(fd, "greeting", 8, 0) == 8, "send");
  std::printf("the client sent greeting to %s\n", address);
  return mode == "client-fails" ? 4 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string_view> words{argv, argv + argc};
  const auto number = [&](int i) { return std::atoll(argv[i]); };
  const std::string_view mode = argc > 1 ? words[1] : "";
  if (mode == "receive" && argc == 4) return receive(static_cast<int>(number(2)), static_cast<int>(number(3)));
  if (mode == "send" && argc == 9) {
    return send_datagrams(argv[2], static_cast<int>(number(3)), static_cast<std::uint64_t>(number(4)),
                          static_cast<std::size_t>(number(5)), static_cast<std::size_t>(number(6)), number(7),
                          static_cast<int>(number(8)));
  }
  if (mode == "echo" && argc == 3) return echo(static_cast<int>(number(2)));
  if (mode == "ping" && (argc == 5 || argc == 6)) {
    return ping(argv[2], static_cast<int>(number(3)), static_cast<int>(number(4)),
                argc == 6 ? static_cast<int>(number(5)) : 0);
  }
  if (mode == "inquire" && argc == 4) return inquire(argv[2], static_cast<int>(number(3)));
  if (mode == "pair" && argc >= 3) return pair_program(words[2], argc > 3 ? argv[3] : nullptr);
  std::fprintf(stderr, "usage: see the head of lab_traffic.cc\n");
  return 2;
}
