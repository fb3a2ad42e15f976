#include "lab/channel.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <system_error>

namespace brdma::lab {
namespace {

[[noreturn]] void fail(const std::string& what) { throw std::system_error(errno, std::generic_category(), what); }

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
  iovec data{const_cast<char*>(text.data()), text.size()};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int) * kChannelDescriptorsMax)> control{};
  if (!descriptors.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(sizeof(int) * descriptors.size());
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int) * descriptors.size());
    std::memcpy(CMSG_DATA(header), descriptors.data(), sizeof(int) * descriptors.size());
  }
  if (::sendmsg(socket, &message, MSG_NOSIGNAL) < 0) fail("cannot send to the lab");
}

ChannelMessage receive_message(int socket) {
  std::string text(kChannelTextMax, '\0');
  iovec data{text.data(), text.size()};
  msghdr message{};
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int) * kChannelDescriptorsMax)> control{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  ssize_t size = 0;
  do {
    size = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  } while (size < 0 && errno == EINTR);
  if (size < 0) fail("no answer from the lab");
  text.resize(static_cast<std::size_t>(size));
  ChannelMessage result{std::move(text), {}};
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof fd, sizeof fd);
      result.descriptors.emplace_back(fd);
    }
  }
  return result;
}

}  // namespace brdma::lab
