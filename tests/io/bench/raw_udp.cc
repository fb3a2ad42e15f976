#include "raw_udp.h"

#include <isa-l.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "io/shard/clock.h"
#include "io/shard/shard_lock.h"
#include "io/udp/socket_address.h"

namespace brdma::bench {
namespace {

using io::monotonic_now;

constexpr std::uint64_t kWindowBytes = 1 << 20;
constexpr std::size_t kSlotByte = 7;
constexpr std::size_t kHeaderBytes = 56;  // BTH, BXTH, RETH, and the ICRC of the previous packet

void must(bool done, const char* what) {
  if (done) return;
  std::perror(what);
  std::exit(1);
}

int connected(IpAddress to) {
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  must(fd >= 0, "socket");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(4791);
  address.sin_addr = io::to_in_addr(to);
  must(connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0, "connect");
  return fd;
}

void enlarge(int fd) {
  const int bytes = 32 << 20, on = 1;
  if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes)) != 0)
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
  setsockopt(fd, SOL_UDP, UDP_GRO, &on, sizeof(on));
}

}  // namespace

void raw_stream_server(Exchange& exchange, int receive_fd, const RawOptions& options) {
  enlarge(receive_fd);
  std::vector<std::uint8_t> buffer(64 * 1024), target(8 << 20);
  std::size_t at = 0;
  std::uint32_t crc = 0;
  barrier(exchange, 1);
  while (exchange.finished.load(std::memory_order_relaxed) == 0) {
    iovec part{buffer.data(), buffer.size()};
    alignas(cmsghdr) std::uint8_t control[64];
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    const ssize_t got = recvmsg(receive_fd, &message, MSG_DONTWAIT);
    if (got <= 0) continue;
    const auto size = static_cast<std::size_t>(got);
    if (options.work) {
      for (std::size_t offset = 0; offset < size; offset += options.segment_bytes) {
        const std::size_t bytes = std::min<std::size_t>(options.segment_bytes, size - offset);
        crc = crc32_gzip_refl(crc, buffer.data() + offset, bytes);
        if (at + bytes > target.size()) at = 0;
        std::memcpy(target.data() + at, buffer.data() + offset, bytes);
        at += bytes;
      }
    }
    exchange.received.fetch_add(size, std::memory_order_release);
  }
  exchange.result[15] = crc;
}

void raw_stream_client(Exchange& exchange, const RawOptions& options) {
  const int fd = connected(options.server);
  const std::size_t total = std::size_t{options.segment_bytes} * options.segments;
  std::vector<std::uint8_t> headers(kHeaderBytes * options.segments), data(8 << 20);
  for (std::size_t i = kSlotByte; i < headers.size(); i += kHeaderBytes) headers[i] = options.server_slot;
  for (std::size_t i = kSlotByte; i < data.size(); ++i) data[i] = options.server_slot;  // wherever a datagram starts
  std::vector<iovec> parts;
  alignas(cmsghdr) std::uint8_t control[CMSG_SPACE(2)] = {};
  msghdr message{};
  if (options.segments > 1) {
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_UDP;
    header->cmsg_type = UDP_SEGMENT;
    header->cmsg_len = CMSG_LEN(2);
    std::memcpy(CMSG_DATA(header), &options.segment_bytes, 2);
  }
  std::uint64_t sent = 0;
  std::size_t at = 0;
  barrier(exchange, 1);
  const Instant start = monotonic_now();
  const Instant end = start + Duration::from_ns(static_cast<std::int64_t>(options.seconds * 1e9));
  while (monotonic_now() < end) {
    if (sent + total - exchange.received.load(std::memory_order_acquire) > kWindowBytes) {
      io::cpu_relax();
      continue;
    }
    parts.clear();
    if (at + total > data.size()) at = 0;
    if (options.work) {
      const std::size_t payload = options.segment_bytes - kHeaderBytes;
      for (unsigned i = 0; i < options.segments; ++i) {
        std::uint8_t* header = headers.data() + i * kHeaderBytes;
        std::uint32_t crc = crc32_gzip_refl(0, header, kHeaderBytes - 4);
        crc = crc32_gzip_refl(crc, data.data() + at, payload);
        std::memcpy(header + kHeaderBytes - 4, &crc, 4);
        parts.push_back({header, kHeaderBytes});
        parts.push_back({data.data() + at, payload});
        at += payload;
      }
    } else {
      parts.push_back({data.data() + at, total});
      at += total;
    }
    message.msg_iov = parts.data();
    message.msg_iovlen = parts.size();
    must(sendmsg(fd, &message, 0) >= 0, "sendmsg");
    sent += total;
  }
  const double seconds = static_cast<double>((monotonic_now() - start).ns()) / 1e9;
  const auto received = static_cast<double>(exchange.received.load());
  exchange.finished.store(1);
  exchange.result[0] = received * 8 / seconds / 1e9;
  exchange.result[1] = received / options.segment_bytes / seconds / 1e3;
  close(fd);
}

void raw_ping_server(Exchange& exchange, int receive_fd, const RawOptions& options) {
  enlarge(receive_fd);
  const int fd = connected(options.client);
  std::uint8_t buffer[2048];
  barrier(exchange, 1);
  while (exchange.finished.load(std::memory_order_relaxed) == 0) {
    const ssize_t got = recv(receive_fd, buffer, sizeof(buffer), MSG_DONTWAIT);
    if (got <= 0) continue;
    buffer[kSlotByte] = options.client_slot;
    must(send(fd, buffer, static_cast<std::size_t>(got), 0) >= 0, "send");
  }
}

void raw_ping_client(Exchange& exchange, int receive_fd, const RawOptions& options) {
  enlarge(receive_fd);
  const int fd = connected(options.server);
  std::uint8_t buffer[2048] = {};
  std::vector<std::int64_t> times;
  times.reserve(4'000'000);
  barrier(exchange, 1);
  const Instant end = monotonic_now() + Duration::from_ns(static_cast<std::int64_t>(options.seconds * 1e9));
  for (Instant sent = monotonic_now(); sent < end;) {
    buffer[kSlotByte] = options.server_slot;
    must(send(fd, buffer, 64, 0) >= 0, "send");
    while (recv(receive_fd, buffer, sizeof(buffer), MSG_DONTWAIT) < 0) {
    }
    const Instant now = monotonic_now();
    times.push_back((now - sent).ns());
    sent = now;
  }
  exchange.finished.store(1);
  std::sort(times.begin(), times.end());
  exchange.result[0] = static_cast<double>(times[times.size() / 2]) / 2e3;
  exchange.result[1] = static_cast<double>(times[times.size() * 99 / 100]) / 2e3;
  close(fd);
}

void raw_mmsg_client(Exchange& exchange, const RawOptions& options) {
  constexpr unsigned kMessages = 32, kBytes = 64;
  const int fd = connected(options.server);
  std::vector<std::uint8_t> data(kMessages * kBytes, options.server_slot);
  std::vector<iovec> parts(kMessages);
  std::vector<mmsghdr> messages(kMessages);
  for (unsigned i = 0; i < kMessages; ++i) {
    parts[i] = {data.data() + i * kBytes, kBytes};
    messages[i].msg_hdr.msg_iov = &parts[i];
    messages[i].msg_hdr.msg_iovlen = 1;
  }
  std::uint64_t sent = 0;
  barrier(exchange, 1);
  const Instant start = monotonic_now();
  const Instant end = start + Duration::from_ns(static_cast<std::int64_t>(options.seconds * 1e9));
  while (monotonic_now() < end) {
    if (sent + kMessages * kBytes - exchange.received.load(std::memory_order_acquire) > kWindowBytes / 16) {
      io::cpu_relax();
      continue;
    }
    const int count = sendmmsg(fd, messages.data(), kMessages, 0);
    must(count > 0, "sendmmsg");
    sent += static_cast<std::uint64_t>(count) * kBytes;
  }
  const double seconds = static_cast<double>((monotonic_now() - start).ns()) / 1e9;
  exchange.finished.store(1);
  exchange.result[1] = static_cast<double>(exchange.received.load()) / kBytes / seconds / 1e3;
  close(fd);
}

}  // namespace brdma::bench
