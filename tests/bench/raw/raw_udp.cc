// raw_udp - the limit of UDP sockets, as baseline, without a transport's work: bulk by UDP_SEGMENT / UDP_GRO, polling
// ping-pong, small messages by sendmmsg and by UDP_SEGMENT. The receiver answers every so many messages with its count:
// the window. (With a transport's work: raw_bulk, raw_messages, raw_pingpong.)
//   raw_udp serve PORT                                           until a client says stop
//   raw_udp bulk ADDRESS PORT BYTES SEGMENTS SECONDS             -> gbit_per_s; datagrams of BYTES
//   raw_udp small ADDRESS PORT BYTES gso|mmsg SECONDS            -> messages_per_s
//   raw_udp pingpong ADDRESS PORT BYTES COUNT                    -> half_rtt_us p50
// Each client says stop when it is done.
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include "raw_sockets.h"

namespace {

using raw::Clock;
using raw::need;

constexpr std::size_t kWindowBytes = 1 << 20;
constexpr std::size_t kBuffer = 65536;
enum class Kind : std::uint8_t { kBulk = 1, kPing, kStop, kReport };

struct Report {
  Kind kind = Kind::kReport;
  std::uint64_t packets = 0;
  std::uint64_t bytes = 0;
};

void serve(std::uint16_t port) {
  const int fd = raw::udp_socket();
  raw::bind_port(fd, port);
  std::vector<std::byte> buffer(kBuffer);
  Report report;
  std::uint64_t reported = 0, reported_packets = 0;
  raw::Received got;
  auto last = Clock::now();
  for (;;) {
    if (!raw::receive(fd, buffer.data(), buffer.size(), got)) {
      if (Clock::now() - last > std::chrono::seconds(60)) throw std::runtime_error("the client never said stop");
      continue;
    }
    last = Clock::now();
    if (got.bytes == 0) continue;
    const auto kind = static_cast<Kind>(buffer[0]);
    const auto answer = [&](const void* data, std::size_t size) {
      sendto(fd, data, size, 0, reinterpret_cast<sockaddr*>(&got.from), sizeof got.from);
    };
    if (kind == Kind::kStop) return;
    if (kind == Kind::kPing) {
      answer(buffer.data(), got.bytes);
      report = Report{};
      reported = reported_packets = 0;
      continue;
    }
    report.packets += (got.bytes + got.segment - 1) / got.segment;
    report.bytes += got.bytes;
    if (report.bytes - reported >= kWindowBytes / 8 || report.packets - reported_packets >= 512) {
      reported_packets = report.packets;
      reported = report.bytes;
      answer(&report, sizeof report);
    }
  }
}

class Client {
 public:
  Client(const char* address, std::uint16_t port) : fd_(raw::udp_socket()) {
    raw::connect_to(fd_, raw::ipv4(address, port));
    ping(64);  // the server's counts restart
  }
  ~Client() { close(fd_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  [[nodiscard]] int fd() const { return fd_; }

  void ping(std::size_t bytes) {
    std::vector<std::uint8_t> out(bytes), in(kBuffer);
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
  void stop() {
    const auto stop = Kind::kStop;
    need(send(fd_, &stop, sizeof stop, 0) == sizeof stop, "send");
  }

 private:
  int fd_;
};

struct Flow {
  std::uint64_t sent_bytes = 0;
  Report report;
  Clock::time_point progress = Clock::now();

  // Waits for room in the window; lost packets are written off when there is no progress for a while.
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

void bulk(Client& client, std::size_t bytes, std::size_t segments, double seconds) {
  std::vector<std::uint8_t> memory(bytes * segments, 1);
  for (std::size_t i = 0; i < segments; ++i) memory[i * bytes] = static_cast<std::uint8_t>(Kind::kBulk);
  Flow flow;
  const auto begin = Clock::now();
  std::chrono::duration<double> took{};
  while ((took = Clock::now() - begin).count() < seconds) {
    flow.wait(client, memory.size());
    iovec all{memory.data(), memory.size()};
    raw::send_segments(client.fd(), &all, 1, static_cast<std::uint16_t>(bytes));
    flow.sent_bytes += memory.size();
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
      raw::send_segments(client.fd(), &all, 1, static_cast<std::uint16_t>(bytes));
    } else {
      need(sendmmsg(client.fd(), messages.data(), kBatch, 0) == static_cast<int>(kBatch), "sendmmsg");
    }
    flow.sent_bytes += bytes * kBatch;
  }
  client.read_report(flow.report);
  std::printf("messages_per_s %.0f\n", static_cast<double>(flow.report.packets) / took.count());
}

void pingpong(Client& client, std::size_t bytes, std::size_t count) {
  std::vector<std::uint8_t> out(bytes), in(kBuffer);
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
  if (halves.empty()) throw std::runtime_error("nothing came back");
  std::sort(halves.begin(), halves.end());
  std::printf("half_rtt_us %.3f\n", halves[halves.size() / 2]);
}

int run(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  const auto number = [argv](int i) { return static_cast<std::size_t>(std::strtoul(argv[i], nullptr, 10)); };
  if (mode == "serve" && argc == 3) {
    serve(static_cast<std::uint16_t>(number(2)));
    return 0;
  }
  if (!(mode == "bulk" && argc == 7) && !(mode == "small" && argc == 7) && !(mode == "pingpong" && argc == 6)) {
    std::fputs(
        "raw_udp serve PORT | bulk ADDRESS PORT BYTES SEGMENTS SECONDS | small ADDRESS PORT BYTES gso|mmsg SECONDS | "
        "pingpong ADDRESS PORT BYTES COUNT\n",
        stderr);
    return 2;
  }
  Client client(argv[2], static_cast<std::uint16_t>(number(3)));
  if (mode == "bulk") {
    bulk(client, number(4), number(5), std::atof(argv[6]));
  } else if (mode == "small") {
    small(client, number(4), std::string(argv[5]) == "gso", std::atof(argv[6]));
  } else {
    pingpong(client, number(4), number(5));
  }
  client.stop();
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
