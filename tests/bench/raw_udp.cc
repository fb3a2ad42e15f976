// raw_udp - the limit of UDP sockets, as yardstick: bulk by UDP_SEGMENT / UDP_GRO (with or without the per-packet work
// that a transport has: separate header and payload, CRC on both sides, one copy at the receiver), polling ping-pong,
// small messages by sendmmsg and by UDP_SEGMENT. A receiver answers every so many messages with what it has got: the
// window.
//   raw_udp serve PORT                                    until a client says stop
//   raw_udp bulk ADDRESS PORT PAYLOAD SEGMENTS WORK SECONDS     -> gbit_per_s
//   raw_udp small ADDRESS PORT BYTES gso|mmsg SECONDS           -> messages_per_s
//   raw_udp pingpong ADDRESS PORT BYTES COUNT                   -> half_rtt_us p50
#include <arpa/inet.h>
#include <isa-l/crc.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kWindowBytes = 1 << 20;
constexpr std::size_t kHeader = 16;  // of a segment, for the work variant
enum class Kind : std::uint8_t { kBulk = 1, kBulkWork, kPing, kStop, kReport };

struct Report {
  Kind kind = Kind::kReport;
  std::uint64_t packets = 0;
  std::uint64_t bytes = 0;
};

void need(bool ok, const char* what) {
  if (!ok) throw std::runtime_error(std::string(what) + ": " + std::strerror(errno));
}

int udp_socket() {
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  need(fd >= 0, "socket");
  const int size = 8 << 20, on = 1;
  if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size) != 0) {
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
  }
  setsockopt(fd, IPPROTO_UDP, UDP_GRO, &on, sizeof on);
  return fd;
}

std::uint16_t gro_size(msghdr& message, std::size_t received) {
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level == IPPROTO_UDP && c->cmsg_type == UDP_GRO) {
      std::uint16_t size = 0;
      std::memcpy(&size, CMSG_DATA(c), sizeof size);
      return size;
    }
  }
  return static_cast<std::uint16_t>(received);
}

void serve(std::uint16_t port) {
  const int fd = udp_socket();
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  need(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0, "bind");
  std::vector<std::uint8_t> buffer(65536), memory(8 << 20);
  std::size_t place = 0;
  Report report;
  std::uint32_t sum = 0;
  std::uint64_t reported = 0, reported_packets = 0;
  auto last = Clock::now();
  for (;;) {
    sockaddr_in peer{};
    std::array<char, 64> control{};
    iovec io{buffer.data(), buffer.size()};
    msghdr message{};
    message.msg_name = &peer;
    message.msg_namelen = sizeof peer;
    message.msg_iov = &io;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t got = recvmsg(fd, &message, MSG_DONTWAIT);
    if (got < 0) {
      if (Clock::now() - last > std::chrono::seconds(60)) return;  // a client that never said stop
      continue;
    }
    last = Clock::now();
    const auto n = static_cast<std::size_t>(got);
    if (n == 0) continue;
    const auto kind = static_cast<Kind>(buffer[0]);
    if (kind == Kind::kStop) return;
    if (kind == Kind::kPing) {
      sendto(fd, buffer.data(), n, 0, reinterpret_cast<sockaddr*>(&peer), sizeof peer);
      report = Report{};
      reported = reported_packets = 0;
      continue;
    }
    const std::size_t segment = gro_size(message, n);
    for (std::size_t at = 0; at < n; at += segment) {
      const std::size_t size = std::min(segment, n - at);
      if (kind == Kind::kBulkWork && size > kHeader + 4) {
        const std::size_t payload = size - kHeader - 4;
        sum ^= crc32_gzip_refl(0, buffer.data() + at, size - 4);
        if (place + payload > memory.size()) place = 0;
        std::memcpy(memory.data() + place, buffer.data() + at + kHeader, payload);
        place += payload;
      }
      ++report.packets;
      report.bytes += size;
    }
    if (report.bytes - reported >= kWindowBytes / 8 || report.packets - reported_packets >= 512) {
      reported_packets = report.packets;
      reported = report.bytes;
      sendto(fd, &report, sizeof report, 0, reinterpret_cast<sockaddr*>(&peer), sizeof peer);
    }
    if (sum == 0x12345678 && memory[0] == 77) std::puts("");  // the work must not be optimised away
  }
}

class Client {
 public:
  Client(const char* address, std::uint16_t port) : fd_(udp_socket()) {
    sockaddr_in peer{};
    peer.sin_family = AF_INET;
    peer.sin_port = htons(port);
    need(inet_pton(AF_INET, address, &peer.sin_addr) == 1, "address");
    need(connect(fd_, reinterpret_cast<sockaddr*>(&peer), sizeof peer) == 0, "connect");
    ping(64);  // the server's counts begin anew
  }
  ~Client() { close(fd_); }
  [[nodiscard]] int fd() const { return fd_; }

  void ping(std::size_t bytes) {
    std::vector<std::uint8_t> out(bytes), in(65536);
    out[0] = static_cast<std::uint8_t>(Kind::kPing);
    for (int attempt = 0; attempt < 50; ++attempt) {
      send(fd_, out.data(), bytes, 0);
      const auto until = Clock::now() + std::chrono::milliseconds(100);
      while (Clock::now() < until) {
        const ssize_t n = recv(fd_, in.data(), in.size(), MSG_DONTWAIT);
        if (n > 0 && in[0] == static_cast<std::uint8_t>(Kind::kPing)) return;
      }
    }
    throw std::runtime_error("no answer from the server");
  }
  bool read_report(Report& report) {
    Report got;
    bool any = false;
    while (recv(fd_, &got, sizeof got, MSG_DONTWAIT) == static_cast<ssize_t>(sizeof got)) {
      report = got;
      any = true;
    }
    return any;
  }

 private:
  int fd_;
};

struct Flow {
  std::uint64_t sent_bytes = 0;
  Report report;
  Clock::time_point progress = Clock::now();

  // Waits for room in the window; what was lost is written off when nothing moves for a while.
  void wait(Client& client, std::size_t bytes) {
    for (;;) {
      if (client.read_report(report)) progress = Clock::now();
      if (sent_bytes + bytes <= report.bytes + written_off + kWindowBytes) return;
      if (Clock::now() - progress > std::chrono::milliseconds(20)) {
        written_off = sent_bytes - report.bytes;
        progress = Clock::now();
      }
    }
  }
  std::uint64_t written_off = 0;
};

void set_segment(msghdr& message, std::array<char, 64>& control, std::uint16_t size) {
  message.msg_control = control.data();
  message.msg_controllen = CMSG_SPACE(sizeof size);
  cmsghdr* c = CMSG_FIRSTHDR(&message);
  c->cmsg_level = IPPROTO_UDP;
  c->cmsg_type = UDP_SEGMENT;
  c->cmsg_len = CMSG_LEN(sizeof size);
  std::memcpy(CMSG_DATA(c), &size, sizeof size);
}

void bulk(Client& client, std::size_t payload, std::size_t segments, bool work, double seconds) {
  std::vector<std::uint8_t> memory(8 << 20, 1);
  std::vector<std::array<std::uint8_t, kHeader>> headers(segments);
  std::vector<std::uint32_t> trailers(segments);
  std::vector<iovec> io;
  const std::size_t segment = kHeader + payload + 4;
  Flow flow;
  const auto begin = Clock::now();
  std::size_t at = 0;
  std::chrono::duration<double> took{};
  while ((took = Clock::now() - begin).count() < seconds) {
    flow.wait(client, segment * segments);
    io.clear();
    for (std::size_t i = 0; i < segments; ++i) {
      headers[i].fill(0);
      headers[i][0] = static_cast<std::uint8_t>(work ? Kind::kBulkWork : Kind::kBulk);
      if (at + payload > memory.size()) at = 0;
      if (work) {
        trailers[i] = crc32_gzip_refl(crc32_gzip_refl(0, headers[i].data(), kHeader), memory.data() + at, payload);
        io.push_back({headers[i].data(), kHeader});
        io.push_back({memory.data() + at, payload});
        io.push_back({&trailers[i], 4});
      } else if (i == 0) {
        memory[at] = static_cast<std::uint8_t>(Kind::kBulk);
        memory[at + 1] = 0;
        io.push_back({memory.data() + at, std::min(segment * segments, memory.size() - at)});
      }
      at += payload;
    }
    if (!work) {
      at = 0;
      io[0] = {memory.data(), segment * segments};
    }
    msghdr message{};
    std::array<char, 64> control{};
    message.msg_iov = io.data();
    message.msg_iovlen = io.size();
    set_segment(message, control, static_cast<std::uint16_t>(segment));
    const ssize_t n = sendmsg(client.fd(), &message, 0);
    need(n > 0, "sendmsg");
    flow.sent_bytes += static_cast<std::uint64_t>(n);
  }
  client.read_report(flow.report);
  std::printf("gbit_per_s %.3f\n", static_cast<double>(flow.report.bytes) * 8 / took.count() / 1e9);
}

void small(Client& client, std::size_t bytes, bool gso, double seconds) {
  constexpr std::size_t kBatch = 64;
  std::vector<std::uint8_t> memory(bytes * kBatch, 0);
  for (std::size_t i = 0; i < kBatch; ++i) memory[i * bytes] = static_cast<std::uint8_t>(Kind::kBulk);
  std::array<iovec, kBatch> io{};
  std::array<mmsghdr, kBatch> messages{};
  for (std::size_t i = 0; i < kBatch; ++i) {
    io[i] = {memory.data() + i * bytes, bytes};
    messages[i].msg_hdr.msg_iov = &io[i];
    messages[i].msg_hdr.msg_iovlen = 1;
  }
  Flow flow;
  const auto begin = Clock::now();
  std::chrono::duration<double> took{};
  while ((took = Clock::now() - begin).count() < seconds) {
    flow.wait(client, bytes * kBatch * 4);  // small packets are charged more than their size
    if (gso) {
      iovec all{memory.data(), memory.size()};
      msghdr message{};
      std::array<char, 64> control{};
      message.msg_iov = &all;
      message.msg_iovlen = 1;
      set_segment(message, control, static_cast<std::uint16_t>(bytes));
      need(sendmsg(client.fd(), &message, 0) > 0, "sendmsg");
    } else {
      need(sendmmsg(client.fd(), messages.data(), kBatch, 0) == static_cast<int>(kBatch), "sendmmsg");
    }
    flow.sent_bytes += bytes * kBatch;
  }
  client.read_report(flow.report);
  std::printf("messages_per_s %.0f\n", static_cast<double>(flow.report.packets) / took.count());
}

void pingpong(Client& client, std::size_t bytes, std::size_t count) {
  std::vector<std::uint8_t> out(bytes), in(65536);
  out[0] = static_cast<std::uint8_t>(Kind::kPing);
  std::vector<double> halves;
  for (std::size_t i = 0; i < count; ++i) {
    const auto begin = Clock::now();
    need(send(client.fd(), out.data(), bytes, 0) > 0, "send");
    ssize_t n = -1;
    while ((n = recv(client.fd(), in.data(), in.size(), MSG_DONTWAIT)) <= 0 &&
           Clock::now() - begin < std::chrono::milliseconds(100)) {
    }
    if (n > 0) halves.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count() / 2);
  }
  need(!halves.empty(), "ping-pong");
  std::sort(halves.begin(), halves.end());
  std::printf("half_rtt_us %.3f\n", halves[halves.size() / 2]);
}

int run(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  if (mode == "serve" && argc == 3) {
    serve(static_cast<std::uint16_t>(std::atoi(argv[2])));
    return 0;
  }
  if (argc < 4) {
    std::fputs(
        "raw_udp serve PORT | bulk ADDRESS PORT PAYLOAD SEGMENTS WORK SECONDS | small ADDRESS PORT BYTES gso|mmsg "
        "SECONDS | pingpong ADDRESS PORT BYTES COUNT | stop ADDRESS PORT\n",
        stderr);
    return 2;
  }
  Client client(argv[2], static_cast<std::uint16_t>(std::atoi(argv[3])));
  if (mode == "bulk" && argc == 8) {
    bulk(client, static_cast<std::size_t>(std::atoi(argv[4])), static_cast<std::size_t>(std::atoi(argv[5])),
         std::atoi(argv[6]) != 0, std::atof(argv[7]));
  } else if (mode == "small" && argc == 7) {
    small(client, static_cast<std::size_t>(std::atoi(argv[4])), std::string(argv[5]) == "gso", std::atof(argv[6]));
  } else if (mode == "pingpong" && argc == 6) {
    pingpong(client, static_cast<std::size_t>(std::atoi(argv[4])), static_cast<std::size_t>(std::atoi(argv[5])));
  } else if (mode == "stop") {
    const auto stop = Kind::kStop;
    send(client.fd(), &stop, 1, 0);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "raw_udp: %s\n", error.what());
    return 1;
  }
}
