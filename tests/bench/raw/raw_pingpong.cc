// raw_pingpong - ping-pong with the minimal transport of a small WRITE in each direction: headers, a copy of the
// payload and an ICRC (wire/crc/icrc.h: the library's code) into one packet; at the other end the ICRC, the order and a
// copy to the place in the headers. Sockets as the library's (docs/explanation/datapath.md#sockets): one of IPv6 and
// IPv4 receives with destination, traffic class, overflow and time of arrival; another that is connected sends.
//   raw_pingpong serve PORT                          until a client says stop
//   raw_pingpong run ADDRESS PORT BYTES COUNT        -> half_rtt_us p50
#include <netinet/udp.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "raw_sockets.h"
#include "wire/crc/icrc.h"

namespace {

using namespace brdma;  // base/bytes.h, wire/crc/icrc.h
using raw::Clock;
using raw::need;

constexpr std::size_t kBth = 12, kReth = 16, kIcrc = 4, kHeaders = kBth + kReth;
constexpr std::size_t kBuffer = 65536, kMemory = 65536;
constexpr std::uint8_t kWriteOnly = 0x0A, kStop = 0xF1;
constexpr std::uint32_t kPsnMask = 0xFF'FFFF, kKey = 0x55AA, kPlace = 4096;

void on(int fd, int level, int name, int value = 1) {
  need(setsockopt(fd, level, name, &value, sizeof value) == 0, "setsockopt");
}

int receiving_socket(std::uint16_t port) {
  const int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  need(fd >= 0, "socket");
  on(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
  on(fd, SOL_UDP, UDP_GRO);
  on(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO);
  on(fd, IPPROTO_IPV6, IPV6_RECVTCLASS);
  on(fd, IPPROTO_IP, IP_RECVTOS);
  on(fd, SOL_SOCKET, SO_RXQ_OVFL);
  on(fd, SOL_SOCKET, SO_TIMESTAMPNS);
  sockaddr_in6 any{};
  any.sin6_family = AF_INET6;
  any.sin6_port = htons(port);
  need(bind(fd, reinterpret_cast<const sockaddr*>(&any), sizeof any) == 0, "bind");
  return fd;
}

int sending_socket(const sockaddr_in& peer) {
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  need(fd >= 0, "socket");
  on(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO);
  raw::connect_to(fd, peer);
  return fd;
}

// The ancillary data of a message.
struct Arrival {
  in6_addr destination{};
  int traffic_class = 0;
  std::uint32_t overflow = 0;
  timespec stamp{};
  std::size_t segment = 0;
};
template <class T>
void copy_value(T& out, const cmsghdr* from) {
  std::memcpy(&out, CMSG_DATA(from), sizeof out);
}
void read_control(msghdr& message, Arrival& out) {
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level == SOL_UDP && c->cmsg_type == UDP_GRO) {
      int segment = 0;
      copy_value(segment, c);
      out.segment = static_cast<std::size_t>(segment);
    } else if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO) {
      in6_pktinfo info{};
      copy_value(info, c);
      out.destination = info.ipi6_addr;
    } else if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TOS) {
      out.traffic_class = std::to_integer<int>(*reinterpret_cast<std::byte*>(CMSG_DATA(c)));
    } else if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SO_RXQ_OVFL) {
      copy_value(out.overflow, c);
    } else if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_TIMESTAMPNS) {
      copy_value(out.stamp, c);
    }
  }
}

// One end: of both programs the same.
class End {
 public:
  explicit End(std::uint16_t port) : port_(port), receiving_(receiving_socket(port)) {}
  ~End() {
    close(receiving_);
    if (sending_ >= 0) close(sending_);
  }
  End(const End&) = delete;
  End& operator=(const End&) = delete;

  void connect(const sockaddr_in& peer) { sending_ = sending_socket(peer); }

  // A WRITE of the first `bytes` of our memory.
  void write(std::size_t bytes, std::uint8_t opcode = kWriteOnly) {
    std::byte* packet = out_.data();
    const std::size_t size = kHeaders + bytes + kIcrc;
    store_be32(packet, std::uint32_t{opcode} << 24 | 0xFFFF);
    store_be32(packet + 4, 0);
    store_be32(packet + 8, next_++ & kPsnMask);
    store_be64(packet + kBth, kPlace);
    store_be32(packet + kBth + 8, kKey);
    store_be32(packet + kBth + 12, static_cast<std::uint32_t>(bytes));
    std::memcpy(packet + kHeaders, memory_.data(), bytes);
    const std::uint32_t icrc = wire::packet_icrc(flow_, 0, {packet, size});
    std::memcpy(packet + size - kIcrc, &icrc, kIcrc);  // little endian, as this machine
    iovec part{packet, size};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    need(sendmsg(sending_, &message, MSG_DONTWAIT | MSG_NOSIGNAL) > 0, "sendmsg");
  }

  // Takes a WRITE; its payload's size into `bytes`. False: nothing has come. The first one identifies the peer.
  bool take(std::size_t& bytes, bool& stop) {
    sockaddr_in6 from{};
    alignas(cmsghdr) std::array<std::byte, 256> control;
    iovec part{in_.data(), in_.size()};
    msghdr message{};
    message.msg_name = &from;
    message.msg_namelen = sizeof from;
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t got = recvmsg(receiving_, &message, MSG_DONTWAIT);
    if (got < 0) return false;
    read_control(message, arrival_);
    const ConstBytes packet{in_.data(), static_cast<std::size_t>(got)};
    if (packet.size() < kHeaders + kIcrc || wire::packet_icrc(flow_, 0, packet) != wire::stored_icrc(packet))
      throw std::runtime_error("a damaged packet");
    bytes = load_be32(packet.data() + kBth + 12);
    const std::uint64_t place = load_be64(packet.data() + kBth);
    if (load_be32(packet.data() + 8) != (expected_++ & kPsnMask) || load_be32(packet.data() + kBth + 8) != kKey ||
        bytes != packet.size() - kHeaders - kIcrc || place > kMemory - bytes)
      throw std::runtime_error("a packet out of order or without right");
    stop = load_u8(packet.data()) == kStop;
    std::memcpy(memory_.data() + place, packet.data() + kHeaders, bytes);
    if (sending_ < 0) connect(peer_of(from));
    return true;
  }

 private:
  [[nodiscard]] sockaddr_in peer_of(const sockaddr_in6& from) const {  // ::ffff:a.b.c.d, where it receives
    sockaddr_in out = raw::ipv4(nullptr, port_);
    std::memcpy(&out.sin_addr, from.sin6_addr.s6_addr + 12, 4);
    return out;
  }
  std::uint16_t port_;
  int receiving_, sending_ = -1;
  std::uint32_t next_ = 0, expected_ = 0;
  Arrival arrival_;
  std::vector<std::byte> in_ = std::vector<std::byte>(kBuffer), out_ = in_, memory_ = std::vector<std::byte>(kMemory);
  wire::IcrcFlow flow_{{IpAddress::v4(10, 0, 0, 1), IpAddress::v4(10, 0, 0, 2), 0xC000, 4791, 0}};
};

void serve(std::uint16_t port) {
  End end(port);
  auto last = Clock::now();
  std::size_t bytes = 0;
  for (bool stopped = false;;) {
    if (end.take(bytes, stopped)) {
      if (stopped) return;
      end.write(bytes);
      last = Clock::now();
    } else if (Clock::now() - last > std::chrono::seconds(60)) {
      throw std::runtime_error("the client never said stop");
    }
  }
}

void run(const char* address, std::uint16_t port, std::size_t bytes, std::size_t count) {
  End end(port);
  end.connect(raw::ipv4(address, port));
  std::vector<double> halves;
  bool stopped = false;
  for (std::size_t i = 0; i < count; ++i) {
    const auto begin = Clock::now();
    end.write(bytes);
    for (std::size_t size = 0; !end.take(size, stopped);) {
      if (Clock::now() - begin > std::chrono::seconds(1)) throw std::runtime_error("a packet was lost");
    }
    halves.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count() / 2);
  }
  end.write(0, kStop);
  std::nth_element(halves.begin(), halves.begin() + static_cast<std::ptrdiff_t>(count / 2), halves.end());
  std::printf("half_rtt_us %.3f\n", halves[count / 2]);
}

int start(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  const auto number = [argv](int i) { return static_cast<std::size_t>(std::strtoul(argv[i], nullptr, 10)); };
  if (mode == "serve" && argc == 3) {
    serve(static_cast<std::uint16_t>(number(2)));
  } else if (mode == "run" && argc == 6 && number(4) <= kMemory - kPlace && number(5) > 0) {
    run(argv[2], static_cast<std::uint16_t>(number(3)), number(4), number(5));
  } else {
    std::fputs("raw_pingpong serve PORT | run ADDRESS PORT BYTES COUNT\n", stderr);
    return 2;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return start(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "raw_pingpong: %s\n", error.what());
    return 1;
  }
}
