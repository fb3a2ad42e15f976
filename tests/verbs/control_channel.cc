#include "control_channel.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <thread>

namespace {

[[noreturn]] void fail(const char* what) { throw std::runtime_error(std::string(what) + ": " + std::strerror(errno)); }

int accept_one(std::uint16_t port) {
  const int listener = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (listener < 0) fail("socket");
  const int on = 1, off = 0;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  setsockopt(listener, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_port = htons(port);
  if (bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) fail("bind");
  if (listen(listener, 1) != 0) fail("listen");
  const int fd = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  if (fd < 0) fail("accept");
  close(listener);
  return fd;
}

int connect_to(const std::string& address, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) {
    throw std::runtime_error("unknown address " + address);
  }
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  for (;;) {
    const int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) fail("socket");
    if (connect(fd, found->ai_addr, found->ai_addrlen) == 0) {
      freeaddrinfo(found);
      return fd;
    }
    close(fd);
    if (std::chrono::steady_clock::now() > give_up) fail("connect");
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // the server is not listening yet
  }
}

}  // namespace

ControlChannel::ControlChannel(const std::string& address, std::uint16_t port)
    : fd_(address.empty() ? accept_one(port) : connect_to(address, port)) {
  const int on = 1;
  setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

ControlChannel::~ControlChannel() { close(fd_); }

void ControlChannel::meet(std::uint32_t step) {
  if (exchange(step) != step) throw std::runtime_error("the two sides are at different steps");
}

void ControlChannel::write_all(const void* data, std::size_t size) {
  const char* at = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t n = send(fd_, at, size, MSG_NOSIGNAL);
    if (n <= 0) fail("peer gone while writing");
    at += n;
    size -= static_cast<std::size_t>(n);
  }
}

void ControlChannel::read_all(void* data, std::size_t size) {
  char* at = static_cast<char*>(data);
  while (size > 0) {
    const ssize_t n = recv(fd_, at, size, 0);
    if (n == 0) throw std::runtime_error("peer closed the connection");
    if (n < 0) fail("peer gone while reading");
    at += n;
    size -= static_cast<std::size_t>(n);
  }
}
