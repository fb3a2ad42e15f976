// tests/bench/raw/raw_sockets.h - shared by the baselines of plain UDP sockets. Any error is an exception.
#pragma once
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace raw {

using Clock = std::chrono::steady_clock;

// Throws, with errno's text, unless `ok`.
void need(bool ok, const char* what);

// An IPv4 socket with UDP_GRO and a receive buffer of 8 MiB, if the system allows it.
[[nodiscard]] int udp_socket();
[[nodiscard]] sockaddr_in ipv4(const char* address, std::uint16_t port);  // nullptr: any
void bind_port(int fd, std::uint16_t port);
void connect_to(int fd, const sockaddr_in& peer);

// Result of one recvmsg: packets of `segment` bytes, the last may be shorter.
struct Received {
  std::size_t bytes = 0, segment = 0;
  sockaddr_in from{};
};
// False: there is nothing.
[[nodiscard]] bool receive(int fd, std::byte* buffer, std::size_t size, Received& out);

// The ancillary data of one sendmsg: the message is cut into packets of this size.
class Segmented {
 public:
  Segmented(msghdr& message, std::uint16_t bytes);

 private:
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(std::uint16_t))> control_;
};
// One sendmsg on a connected socket.
void send_segments(int fd, iovec* parts, std::size_t count, std::uint16_t segment);

}  // namespace raw
