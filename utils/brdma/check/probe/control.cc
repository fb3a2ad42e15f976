#include "check/probe/control.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "check/probe/probe.h"
#include "control/json_text.h"

namespace brdma::probe {
namespace {

constexpr int kConnectMs = 5000;

[[noreturn]] void fail(const std::string& what, int error, const char* key = "peer_failed") {
  throw StepFailed(what + (error == 0 ? "" : std::string{": "} + std::strerror(error)), error, key);
}

Address address_of(const sockaddr_storage& from) {
  Address address{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF};
  if (from.ss_family == AF_INET6) {
    std::memcpy(address.data(), &reinterpret_cast<const sockaddr_in6&>(from).sin6_addr, address.size());
  } else {
    std::memcpy(address.data() + 12, &reinterpret_cast<const sockaddr_in&>(from).sin_addr, 4);
  }
  return address;
}

// 0, or an errno value.
int connect_within(int fd, const addrinfo& to) {
  if (::connect(fd, to.ai_addr, to.ai_addrlen) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  pollfd wait{fd, POLLOUT, 0};
  if (::poll(&wait, 1, kConnectMs) != 1) return ETIMEDOUT;
  int error = 0;
  socklen_t size = sizeof error;
  return ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
}

}  // namespace

Channel::Channel(io::FileDescriptor connection)
    : fd_(std::move(connection)), deadline_(Clock::now() + std::chrono::seconds{kLimits.seconds}) {
  const int on = 1;
  ::setsockopt(fd_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

Channel Channel::connect(const std::string& host, const std::string& port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (const int error = ::getaddrinfo(host.c_str(), port.c_str(), &hints, &list); error != 0) {
    throw StepFailed(host + ": " + ::gai_strerror(error), EHOSTUNREACH, "peer_unreachable");
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> found{list, ::freeaddrinfo};
  int error = EHOSTUNREACH;
  for (const addrinfo* one = list; one != nullptr; one = one->ai_next) {
    io::FileDescriptor fd{::socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
    error = fd.valid() ? connect_within(fd.get(), *one) : errno;
    if (error == 0) return Channel{std::move(fd)};
  }
  fail("no connection to " + host + " by TCP port " + port, error, "peer_unreachable");
}

Address Channel::own_address() const {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) fail("getsockname", errno);
  return address_of(address);
}

Address Channel::peer_address() const {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getpeername(fd_.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) fail("getpeername", errno);
  return address_of(address);
}

void Channel::wait_for(short event) {
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline_ - Clock::now()).count();
    if (left <= 0) fail("the measurement took longer than " + std::to_string(kLimits.seconds) + " s", 0);
    pollfd wait{fd_.get(), event, 0};
    const int ready = ::poll(&wait, 1, static_cast<int>(left));
    if (ready > 0) return;
    if (ready < 0 && errno != EINTR) fail("poll", errno);
  }
}

std::size_t Channel::receive_some(void* into, std::size_t room) {
  const ssize_t got = ::recv(fd_.get(), into, room, MSG_DONTWAIT);
  if (got == 0) fail("the peer closed the connection", 0, "peer_protocol");
  if (got < 0 && errno != EAGAIN && errno != EINTR) fail("the connection to the peer ended", errno);
  return got > 0 ? static_cast<std::size_t>(got) : 0;
}

void Channel::fill() {
  std::array<char, 4096> buffer;
  wait_for(POLLIN);
  pending_.append(buffer.data(), receive_some(buffer.data(), buffer.size()));
}

void Channel::send_bytes(std::span<const std::uint8_t> bytes) {
  while (!bytes.empty()) {
    wait_for(POLLOUT);
    const ssize_t sent = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno != EAGAIN && errno != EINTR) fail("the connection to the peer ended", errno);
    if (sent > 0) bytes = bytes.subspan(static_cast<std::size_t>(sent));
  }
}

void Channel::receive_bytes(std::span<std::uint8_t> bytes) {
  const std::size_t known = std::min(pending_.size(), bytes.size());
  std::memcpy(bytes.data(), pending_.data(), known);
  pending_.erase(0, known);
  for (bytes = bytes.subspan(known); !bytes.empty();) {
    wait_for(POLLIN);
    bytes = bytes.subspan(receive_some(bytes.data(), bytes.size()));
  }
}

void Channel::send(const Json& message) {
  const std::string line = line_of(message);
  send_bytes({reinterpret_cast<const std::uint8_t*>(line.data()), line.size()});
}

Json Channel::receive() {
  std::size_t end = std::string::npos;
  while ((end = pending_.find('\n')) == std::string::npos) {
    if (pending_.size() > kLimits.line_bytes) fail("the peer sent a line that is too long", 0, "peer_protocol");
    fill();
  }
  Json message = control::parse_json(std::string_view{pending_}.substr(0, end),
                                     {.bytes_max = kLimits.line_bytes, .depth_max = 4, .values_max = 64});
  pending_.erase(0, end + 1);
  if (!message.is_object()) fail("the peer does not speak the protocol of 'brdma check'", 0, "peer_protocol");
  return message;
}

Json Channel::ask(const Json& request) {
  send(request);
  Json reply = receive();
  if (!reply.contains("error")) return reply;
  const std::string key = word_of(reply, "key"), text = word_of(reply, "error");
  // The key becomes one of ours: only those that a server sends.
  const bool known = key == "peer_no_device" || key == "peer_protocol" || key == "peer_failed";
  throw StepFailed("the peer reports: " + (text.empty() ? "an error" : text), EIO, known ? key : "peer_failed");
}

io::FileDescriptor listen_on(const std::string& port) {
  addrinfo hints{};
  hints.ai_flags = AI_PASSIVE;
  hints.ai_socktype = SOCK_STREAM;
  const std::string where = "TCP port " + port;
  int error = EAFNOSUPPORT;
  for (const int family : {AF_INET6, AF_INET}) {
    hints.ai_family = family;
    addrinfo* list = nullptr;
    if (::getaddrinfo(nullptr, port.c_str(), &hints, &list) != 0) continue;
    const std::unique_ptr<addrinfo, void (*)(addrinfo*)> found{list, ::freeaddrinfo};
    io::FileDescriptor fd{::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    const int on = 1, off = 0;
    ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (family == AF_INET6) ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (fd.valid() && ::bind(fd.get(), list->ai_addr, list->ai_addrlen) == 0 && ::listen(fd.get(), 4) == 0) return fd;
    error = errno;
    if (error != EAFNOSUPPORT && error != EADDRNOTAVAIL) break;
  }
  fail(where + " cannot be listened on", error);
}

std::uint64_t number_of(const Json& message, const char* key, std::uint64_t least, std::uint64_t most) {
  const auto found = message.find(key);
  if (found != message.end() && found->is_number_unsigned()) {
    const auto value = found->get<std::uint64_t>();
    if (value >= least && value <= most) return value;
  }
  fail(std::string{"the peer's '"} + key + "' is missing or beyond its range", 0, "peer_protocol");
}

std::string word_of(const Json& message, const char* key) {
  const auto found = message.find(key);
  if (found == message.end() || !found->is_string()) return {};
  const std::string text = found->get<std::string>().substr(0, 200);
  const bool plain = std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; });
  return plain ? text : std::string{};
}

std::string line_of(const Json& message) {
  return message.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace) + "\n";
}

}  // namespace brdma::probe
