// raw_bulk - the minimal transport of long WRITEs over UDP sockets with segmentation offload. A message goes in packets
// of PAYLOAD, each with a header, the payload from the program's memory and an ICRC (wire/crc/icrc.h: the library's
// code). The other end checks the ICRC, copies once to the place in the header, and moves a window on by its counts.
// Memory at both ends is one message, written again each time, as in ib_write_bw. No loss recovery.
//   raw_bulk serve PORT                                                        until a client says stop
//   raw_bulk run ADDRESS PORT MESSAGE PAYLOAD SEGMENTS SECONDS [computing]     -> gbit_per_s, of payload
// SEGMENTS: packets in one call, at most. computing: another thread of the sender computes all the time, and the
// sending thread sleeps while it waits.
#include <poll.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/bytes.h"
#include "raw_sockets.h"
#include "wire/crc/icrc.h"

namespace {

using brdma::ConstBytes;

constexpr std::size_t kHeader = 52, kIcrc = 4,
                      kPlaceAt = 8;  // as long as those of the library's WRITEs (docs/reference/wire.md)
constexpr std::size_t kWindowBytes = 1 << 20, kReportEach = kWindowBytes / 8;
constexpr std::size_t kBuffer = 65536;
constexpr std::byte kData{0x0A}, kStart{0xF0}, kStop{0xF1}, kReport{0xF2};
constexpr auto kWrittenOff = std::chrono::milliseconds(20);  // no progress for so long: packets in flight are lost

struct Word {
  std::byte kind{};
  std::uint64_t bytes = 0;  // start: of memory; report: of received payload
};

brdma::wire::IcrcFlow any_flow() {
  using brdma::IpAddress;
  return brdma::wire::IcrcFlow{{IpAddress::v4(10, 0, 0, 1), IpAddress::v4(10, 0, 0, 2), 0xC000, 4791, 0}};
}

class Receiver {
 public:
  explicit Receiver(std::uint16_t port) : fd_(raw::udp_socket()) { raw::bind_port(fd_, port); }
  ~Receiver() { close(fd_); }
  Receiver(const Receiver&) = delete;
  Receiver& operator=(const Receiver&) = delete;

  void serve() {
    std::vector<std::byte> buffer(kBuffer);
    raw::Received got;
    auto last = raw::Clock::now();
    for (;;) {
      if (!raw::receive(fd_, buffer.data(), buffer.size(), got)) {
        if (raw::Clock::now() - last > std::chrono::seconds(60)) throw std::runtime_error("the client never said stop");
        continue;
      }
      last = raw::Clock::now();
      if (buffer[0] == kStop) return finish();
      if (buffer[0] == kStart) {
        start(buffer, got.from);
      } else {
        for (std::size_t at = 0; at < got.bytes; at += got.segment)
          take({buffer.data() + at, std::min(got.segment, got.bytes - at)});
        if (received_ - reported_ >= kReportEach) report(kReport);
      }
    }
  }

 private:
  void start(const std::vector<std::byte>& buffer, const sockaddr_in& from) {
    Word word;
    std::memcpy(&word, buffer.data(), sizeof word);
    memory_.assign(word.bytes, std::byte{});
    received_ = 0;
    raw::connect_to(fd_, from);
    report(kStart);
  }
  void take(ConstBytes packet) {
    if (packet.size() <= kHeader + kIcrc || packet[0] != kData ||
        brdma::wire::packet_icrc(flow_, 0, packet) != brdma::wire::stored_icrc(packet)) {
      ++refused_;
      return;
    }
    const std::size_t payload = packet.size() - kHeader - kIcrc;
    const std::uint64_t place = brdma::load_be64(packet.data() + kPlaceAt);
    if (payload > memory_.size() || place > memory_.size() - payload) {
      ++refused_;
      return;
    }
    std::memcpy(memory_.data() + place, packet.data() + kHeader, payload);
    received_ += payload;
  }
  void report(std::byte kind) {
    reported_ = received_;
    const Word word{kind, received_};
    raw::need(send(fd_, &word, sizeof word, 0) == sizeof word, "send");
  }
  void finish() const {
    if (refused_ > 0) throw std::runtime_error("refused " + std::to_string(refused_) + " packets");
  }
  int fd_;
  brdma::wire::IcrcFlow flow_ = any_flow();
  std::vector<std::byte> memory_;
  std::uint64_t received_ = 0, reported_ = 0, refused_ = 0;
};

class Sender {
 public:
  Sender(const char* address, std::uint16_t port, bool sleeps) : fd_(raw::udp_socket()), sleeps_(sleeps) {
    raw::connect_to(fd_, raw::ipv4(address, port));
  }
  ~Sender() { close(fd_); }
  Sender(const Sender&) = delete;
  Sender& operator=(const Sender&) = delete;

  void start(std::size_t memory) {
    say({kStart, memory});
    const auto until = raw::Clock::now() + std::chrono::seconds(5);
    while (!receive_message(kStart)) {
      if (raw::Clock::now() > until) throw std::runtime_error("no answer from the server");
    }
  }
  void stop() { say({kStop, 0}); }

  // Waits for room in the window.
  void wait(std::size_t bytes) {
    for (;;) {
      if (receive_message(kReport)) progress_ = raw::Clock::now();
      if (sent_ + bytes <= reported_ + written_off_ + kWindowBytes) return;
      if (raw::Clock::now() - progress_ > kWrittenOff) {
        written_off_ = sent_ - reported_;
        progress_ = raw::Clock::now();
      }
      pollfd waiting{.fd = fd_, .events = POLLIN, .revents = 0};
      if (sleeps_) (void)poll(&waiting, 1, static_cast<int>(kWrittenOff.count()));
    }
  }
  void send_batch(std::vector<iovec>& parts, std::size_t segment, std::size_t payload) {
    raw::send_segments(fd_, parts.data(), parts.size(), static_cast<std::uint16_t>(segment));
    sent_ += payload;
  }
  [[nodiscard]] std::uint64_t reported() const { return reported_; }
  [[nodiscard]] std::uint64_t lost() const { return written_off_; }

 private:
  void say(const Word& word) { raw::need(send(fd_, &word, sizeof word, 0) == sizeof word, "send"); }
  bool receive_message(std::byte kind) {
    Word word;
    bool any = false;
    while (recv(fd_, &word, sizeof word, MSG_DONTWAIT) == static_cast<ssize_t>(sizeof word)) {
      if (word.kind != kind) continue;
      reported_ = word.bytes;
      any = true;
    }
    return any;
  }
  int fd_;
  bool sleeps_;
  std::uint64_t sent_ = 0, reported_ = 0, written_off_ = 0;
  raw::Clock::time_point progress_ = raw::Clock::now();
};

// Packets of one call: from the end of the previous message, all of one size but the last. A packet's ICRC and the next
// one's header lie side by side, so a packet is two pieces for the system.
class Batch {
 public:
  Batch(std::size_t message, std::size_t payload, std::size_t segments)
      : memory_(message, std::byte{1}),
        payload_(payload),
        segments_(segments),
        between_(kHeader + segments * kBetween) {}
  [[nodiscard]] std::size_t bytes_max() const { return payload_ * segments_; }

  // Returns the size of the payload.
  std::size_t fill() {
    parts_.assign(1, {between_.data(), kHeader});
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < segments_; ++i) {
      const std::size_t size = std::min(payload_, memory_.size() - at_), whole = kHeader + size + kIcrc;
      if (i == 0) segment_ = whole;
      if (whole > segment_) break;  // behind a message's shorter last packet
      std::byte* const header = between_.data() + i * kBetween;
      std::fill_n(header, kHeader, std::byte{});
      header[0] = kData;
      brdma::store_be64(header + kPlaceAt, at_);
      brdma::wire::Icrc icrc(flow_, 0, whole, {header, kHeader});
      icrc.update({memory_.data() + at_, size});
      const std::uint32_t trailer = icrc.finish();  // little endian, as this machine
      std::memcpy(header + kHeader, &trailer, kIcrc);
      if (i > 0) parts_.back().iov_len = kBetween;
      parts_.insert(parts_.end(), {{memory_.data() + at_, size}, {header + kHeader, kIcrc}});
      bytes += size;
      at_ = at_ + size == memory_.size() ? 0 : at_ + size;
      if (whole < segment_) break;  // the kernel takes nothing behind a shorter one
    }
    return bytes;
  }
  [[nodiscard]] std::vector<iovec>& parts() { return parts_; }
  [[nodiscard]] std::size_t segment() const { return segment_; }

 private:
  static constexpr std::size_t kBetween = kIcrc + kHeader;
  std::vector<std::byte> memory_;
  std::size_t payload_, segments_, at_ = 0, segment_ = 0;
  std::vector<std::byte> between_;  // header, ICRC, header, ICRC, ...
  std::vector<iovec> parts_;
  brdma::wire::IcrcFlow flow_ = any_flow();
};

void run(Sender& sender, Batch& batch, double seconds) {
  const auto begin = raw::Clock::now();
  std::chrono::duration<double> took{};
  while ((took = raw::Clock::now() - begin).count() < seconds) {
    sender.wait(batch.bytes_max());
    const std::size_t bytes = batch.fill();
    sender.send_batch(batch.parts(), batch.segment(), bytes);
  }
  sender.wait(0);
  std::printf("gbit_per_s %.3f lost_bytes %llu\n", static_cast<double>(sender.reported()) * 8 / took.count() / 1e9,
              static_cast<unsigned long long>(sender.lost()));
}

void compute(const std::stop_token& stop) {
  volatile std::uint64_t value = 1;
  while (!stop.stop_requested()) value = value * 6364136223846793005 + 1;
}

int start(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  const auto number = [argv](int i) { return static_cast<std::size_t>(std::strtoul(argv[i], nullptr, 10)); };
  if (mode == "serve" && argc == 3) {
    Receiver(static_cast<std::uint16_t>(number(2))).serve();
  } else if (mode == "run" && argc >= 8 && argc <= 9 && number(4) > 0 && number(5) > 0 && number(6) > 0) {
    const bool computing = argc == 9;
    Sender sender(argv[2], static_cast<std::uint16_t>(number(3)), computing);
    Batch batch(number(4), number(5), number(6));
    sender.start(number(4));
    std::jthread beside;
    if (computing) beside = std::jthread(compute);
    run(sender, batch, std::atof(argv[7]));
    sender.stop();
  } else {
    std::fputs("raw_bulk serve PORT | run ADDRESS PORT MESSAGE PAYLOAD SEGMENTS SECONDS [computing]\n", stderr);
    return 2;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return start(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "raw_bulk: %s\n", error.what());
    return 1;
  }
}
