// raw_messages - cost of the minimal reliable transport of 64-byte WRITEs (raw_transport.h) over UDP sockets: packets
// leave up to 64 in a call with UDP_SEGMENT, acknowledgements of a run as well; both ends poll. CONNECTIONS share a
// pair of sockets and take turns.
//   raw_messages serve PORT                                             until a client says stop
//   raw_messages run ADDRESS PORT CONNECTIONS UNDER_WAY MESSAGES        -> nanoseconds and CPU time a message
//   raw_messages count CONNECTIONS MESSAGES                             both ends without sockets, for callgrind
// A lost packet ends it: the numbers would be meaningless.
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <stdexcept>
#include <string>

#include "raw_sockets.h"
#include "raw_transport.h"

namespace {

constexpr std::size_t kMemory = 4096;
constexpr std::size_t kBuffer = 65536;
constexpr std::uint8_t kStart = 0xF0, kStop = 0xF1;  // no packet of the transport begins so

struct Word {
  std::uint8_t kind = kStart;
  std::uint64_t connections = 0, refused = 0;
};

std::uint64_t now_ns() {
  return static_cast<std::uint64_t>(std::chrono::nanoseconds(raw::Clock::now().time_since_epoch()).count());
}
std::uint64_t cpu_ns() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(time.tv_nsec);
}

// --- the counted functions: callgrind knows their names ---
#if defined(__clang__)
#define BRDMA_COUNTED [[gnu::noinline]]
#else
#define BRDMA_COUNTED [[gnu::noipa]]
#endif
BRDMA_COUNTED void cost_requester_build(raw::Requester& end, std::size_t count, std::byte* out) {
  end.build(count, now_ns(), out);
}
BRDMA_COUNTED std::size_t cost_requester_take(raw::Requester& end, raw::ConstBytes acknowledgements) {
  end.take(acknowledgements, now_ns());
  return end.poll();
}
BRDMA_COUNTED std::size_t cost_responder_take(raw::Responder& end, raw::ConstBytes packets, std::byte* out) {
  return end.take(packets, out);
}

class Server {
 public:
  explicit Server(std::uint16_t port) : fd_(raw::udp_socket()) { raw::bind_port(fd_, port); }
  ~Server() { close(fd_); }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  void serve() {
    raw::Received got;
    auto last = raw::Clock::now();
    for (;;) {
      if (!raw::receive(fd_, in_.data(), in_.size(), got)) {
        if (raw::Clock::now() - last > std::chrono::seconds(60)) throw std::runtime_error("the client never said stop");
        continue;
      }
      last = raw::Clock::now();
      const auto kind = static_cast<std::uint8_t>(in_[0]);
      if (kind == kStop) return;
      if (kind == kStart && got.bytes == sizeof(Word)) {
        start(got.from);
      } else if (responder_ != nullptr) {
        iovec answers{out_.data(), raw::kAck * cost_responder_take(*responder_, {in_.data(), got.bytes}, out_.data())};
        if (answers.iov_len > 0) raw::send_segments(fd_, &answers, 1, raw::kAck);
      }
    }
  }

 private:
  // Connected: a route is looked up once.
  void start(const sockaddr_in& from) {
    Word word;
    std::memcpy(&word, in_.data(), sizeof word);
    responder_ = std::make_unique<raw::Responder>(word.connections, kMemory);
    raw::connect_to(fd_, from);
    raw::need(send(fd_, &word, sizeof word, 0) == sizeof word, "send");
  }
  int fd_;
  std::vector<std::byte> in_ = std::vector<std::byte>(kBuffer), out_ = in_;
  std::unique_ptr<raw::Responder> responder_;
};

class Client {
 public:
  Client(const char* address, std::uint16_t port) : fd_(raw::udp_socket()) {
    raw::connect_to(fd_, raw::ipv4(address, port));
  }
  ~Client() { close(fd_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void start(std::size_t connections) {
    const Word word{kStart, connections, 0};
    raw::need(send(fd_, &word, sizeof word, 0) == sizeof word, "send");
    const auto until = raw::Clock::now() + std::chrono::seconds(5);
    raw::Received got;
    while (!raw::receive(fd_, in_.data(), in_.size(), got)) {
      if (raw::Clock::now() > until) throw std::runtime_error("no answer from the server");
    }
  }
  void stop() { raw::need(send(fd_, &kStop, sizeof kStop, 0) == sizeof kStop, "send"); }

  void drive(raw::Requester& requester, std::size_t under_way_max, std::size_t messages) {
    std::size_t posted = 0, done = 0, empty = 0;
    raw::Received got;
    while (done < messages) {
      const std::size_t room = std::min(messages - posted, under_way_max - (posted - done));
      if (const std::size_t count = std::min(room, raw::kSegmentsMax); count > 0) {
        cost_requester_build(requester, count, out_.data());
        iovec packets{out_.data(), count * raw::kPacket};
        raw::send_segments(fd_, &packets, 1, raw::kPacket);
        posted += count;
      }
      if (raw::receive(fd_, in_.data(), in_.size(), got)) {
        done += cost_requester_take(requester, {in_.data(), got.bytes});
        empty = 0;
      } else if (++empty == kEmptyMax) {
        throw std::runtime_error("no acknowledgement: a packet was lost");
      }
    }
    if (requester.refused() > 0) throw std::runtime_error("an acknowledgement was wrong");
  }

 private:
  static constexpr std::size_t kEmptyMax = 5'000'000;  // a second at the least
  int fd_;
  std::vector<std::byte> in_ = std::vector<std::byte>(kBuffer), out_ = in_;
};

std::size_t depth(std::size_t connections, std::size_t under_way) { return under_way / connections + 16; }

void run(Client& client, std::size_t connections, std::size_t under_way, std::size_t messages) {
  client.start(connections);
  raw::Requester requester(connections, depth(connections, under_way), kMemory);
  client.drive(requester, under_way, connections + under_way);  // each has been used
  const std::uint64_t cpu = cpu_ns(), from = now_ns();
  client.drive(requester, under_way, messages);
  const auto took = static_cast<double>(now_ns() - from), spent = static_cast<double>(cpu_ns() - cpu);
  const auto count = static_cast<double>(messages);
  std::printf("messages_per_s %.0f message_ns %.1f message_cpu_ns %.1f\n", count * 1e9 / took, took / count,
              spent / count);
}

void count(std::size_t connections, std::size_t messages) {
  raw::Requester requester(connections, depth(connections, raw::kSegmentsMax), kMemory);
  raw::Responder responder(connections, kMemory);
  std::vector<std::byte> there(kBuffer), back(kBuffer);
  std::size_t done = 0;
  while (done < messages) {
    cost_requester_build(requester, raw::kSegmentsMax, there.data());
    const std::size_t answers =
        cost_responder_take(responder, {there.data(), raw::kSegmentsMax * raw::kPacket}, back.data());
    done += cost_requester_take(requester, {back.data(), answers * raw::kAck});
  }
  if (requester.refused() + responder.refused() > 0) throw std::runtime_error("a packet was refused");
  std::printf("%zu packets\n", done);
}

int start(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  const auto number = [argv](int i) { return static_cast<std::size_t>(std::strtoul(argv[i], nullptr, 10)); };
  if (mode == "serve" && argc == 3) {
    Server(static_cast<std::uint16_t>(number(2))).serve();
  } else if (mode == "run" && argc == 7 && number(4) > 0 && number(5) > 0) {
    Client client(argv[2], static_cast<std::uint16_t>(number(3)));
    run(client, number(4), number(5), number(6));
    client.stop();
  } else if (mode == "count" && argc == 4 && number(2) > 0) {
    count(number(2), number(3));
  } else {
    std::fputs(
        "raw_messages serve PORT | run ADDRESS PORT CONNECTIONS UNDER_WAY MESSAGES | count CONNECTIONS MESSAGES\n",
        stderr);
    return 2;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return start(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "raw_messages: %s\n", error.what());
    return 1;
  }
}
