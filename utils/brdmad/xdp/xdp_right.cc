#include "xdp/xdp_right.h"

#include <sys/socket.h>

#include <cstdint>
#include <optional>

#include "io/system/file_descriptor.h"

namespace brdma::daemon {
namespace {

constexpr int kNetnsCookie = 71;  // SO_NETNS_COOKIE, Linux 5.14; older headers lack it

template <class T>
std::optional<T> option(int fd, int name) {
  T value{};
  socklen_t size = sizeof value;
  if (::getsockopt(fd, SOL_SOCKET, name, &value, &size) != 0 || size != sizeof value) return std::nullopt;
  return value;
}

}  // namespace

bool proves_right_to_transmit(int shown) {
  if (shown < 0 || option<int>(shown, SO_DOMAIN) != AF_PACKET) return false;
  const io::FileDescriptor ours{::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
  const auto here = option<std::uint64_t>(ours.get(), kNetnsCookie);
  return here && option<std::uint64_t>(shown, kNetnsCookie) == here;
}

}  // namespace brdma::daemon
