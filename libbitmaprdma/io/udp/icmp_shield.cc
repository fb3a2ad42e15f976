#include "io/udp/icmp_shield.h"

#include <sys/socket.h>
#include <unistd.h>

#include "io/udp/open_socket.h"
#include "io/udp/socket_options.h"

namespace brdma::io {
namespace {

int open_shield(const sockaddr_in& from, const sockaddr_in* to) {
  const int fd = open_socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  ignore_path_mtu(fd, /*ipv6=*/false, /*sends=*/false);
  const bool good = receive_nothing(fd) && set_option(fd, SOL_SOCKET, SO_REUSEPORT, 1) &&
                    bind(fd, reinterpret_cast<const sockaddr*>(&from), sizeof from) == 0 &&
                    (to == nullptr || connect(fd, reinterpret_cast<const sockaddr*>(to), sizeof *to) == 0);
  if (good) return fd;
  close(fd);
  return -1;
}

}  // namespace

int open_icmp_shield(std::uint16_t port) {
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_port = htons(port);
  return open_shield(any, nullptr);
}

int open_icmp_shield(const sockaddr_in& from, const sockaddr_in& to) { return open_shield(from, &to); }

}  // namespace brdma::io
