#include "raw_sockets.h"

#include <arpa/inet.h>
#include <netinet/udp.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>

namespace raw {

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
  need(setsockopt(fd, IPPROTO_UDP, UDP_GRO, &on, sizeof on) == 0, "UDP_GRO");
  return fd;
}

sockaddr_in ipv4(const char* address, std::uint16_t port) {
  sockaddr_in out{};
  out.sin_family = AF_INET;
  out.sin_port = htons(port);
  if (address != nullptr) need(inet_pton(AF_INET, address, &out.sin_addr) == 1, "address");
  return out;
}

void bind_port(int fd, std::uint16_t port) {
  const sockaddr_in any = ipv4(nullptr, port);
  need(bind(fd, reinterpret_cast<const sockaddr*>(&any), sizeof any) == 0, "bind");
}

void connect_to(int fd, const sockaddr_in& peer) {
  need(connect(fd, reinterpret_cast<const sockaddr*>(&peer), sizeof peer) == 0, "connect");
}

bool receive(int fd, std::byte* buffer, std::size_t size, Received& out) {
  alignas(cmsghdr) std::array<char, 64> control;
  iovec io{buffer, size};
  msghdr message{};
  message.msg_name = &out.from;
  message.msg_namelen = sizeof out.from;
  message.msg_iov = &io;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t got = recvmsg(fd, &message, MSG_DONTWAIT);
  if (got < 0) return false;
  out.bytes = out.segment = static_cast<std::size_t>(got);
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level != IPPROTO_UDP || c->cmsg_type != UDP_GRO) continue;
    int segment = 0;
    std::memcpy(&segment, CMSG_DATA(c), sizeof segment);
    if (segment > 0) out.segment = static_cast<std::size_t>(segment);
  }
  return true;
}

Segmented::Segmented(msghdr& message, std::uint16_t bytes) {
  message.msg_control = control_.data();
  message.msg_controllen = control_.size();
  cmsghdr* c = CMSG_FIRSTHDR(&message);
  c->cmsg_level = IPPROTO_UDP;
  c->cmsg_type = UDP_SEGMENT;
  c->cmsg_len = CMSG_LEN(sizeof bytes);
  std::memcpy(CMSG_DATA(c), &bytes, sizeof bytes);
}

void send_segments(int fd, iovec* parts, std::size_t count, std::uint16_t segment) {
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = count;
  const Segmented control(message, segment);
  need(sendmsg(fd, &message, 0) > 0, "sendmsg");
}

}  // namespace raw
