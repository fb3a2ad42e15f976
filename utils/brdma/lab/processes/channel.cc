#include "lab/processes/channel.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <span>
#include <system_error>
#include <utility>

#include "io/system/pass_descriptors.h"
#include "lab/network/system_failure.h"

namespace brdma::lab {
namespace {

struct AbstractAddress {
  sockaddr_un address{};
  socklen_t size = 0;
  explicit AbstractAddress(const std::string& name) {
    address.sun_family = AF_UNIX;
    if (name.size() + 1 > sizeof address.sun_path) {
      errno = ENAMETOOLONG;
      fail(name);
    }
    std::memcpy(address.sun_path + 1, name.data(), name.size());
    size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  }
  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
};

}  // namespace

std::string keeper_socket_name(const std::string& lab) { return "brdma-lab/" + std::to_string(geteuid()) + "/" + lab; }
std::string switch_socket_name(const std::string& lab) { return keeper_socket_name(lab) + "/switch"; }

io::FileDescriptor listen_abstract(const std::string& name, int type) {
  io::FileDescriptor socket{::socket(AF_UNIX, type | SOCK_CLOEXEC, 0)};
  const AbstractAddress address{name};
  if (!socket.valid() || ::bind(socket.get(), address.get(), address.size) != 0 || ::listen(socket.get(), 16) != 0) {
    fail("socket " + name);
  }
  return socket;
}

io::FileDescriptor connect_abstract(const std::string& name, int type) {
  io::FileDescriptor socket{::socket(AF_UNIX, type | SOCK_CLOEXEC, 0)};
  const AbstractAddress address{name};
  if (!socket.valid() || ::connect(socket.get(), address.get(), address.size) != 0) fail("socket " + name);
  if (!peer_is_own_user(socket.get())) {
    errno = EACCES;
    fail("socket " + name + " belongs to another user");
  }
  return socket;
}

bool peer_is_own_user(int socket) {
  ucred credentials{};
  socklen_t size = sizeof credentials;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) return false;
  return credentials.uid == geteuid() || credentials.uid == 0;
}

void send_message(int socket, const std::string& text, const std::vector<int>& descriptors) {
  if (io::send_with_descriptors(socket, std::as_bytes(std::span{text}), descriptors) < 0)
    fail("cannot send to the lab");
}

ChannelMessage receive_message(int socket) {
  std::string text(kChannelTextMax, '\0');
  std::array<io::FileDescriptor, kChannelDescriptorsMax> came;
  const ssize_t size = io::receive_with_descriptors(socket, std::as_writable_bytes(std::span{text}), came);
  if (size < 0) fail("no answer from the lab");
  text.resize(static_cast<std::size_t>(size));
  ChannelMessage result{std::move(text), {}};
  for (io::FileDescriptor& descriptor : came) {
    if (descriptor.valid()) result.descriptors.push_back(std::move(descriptor));
  }
  return result;
}

}  // namespace brdma::lab
