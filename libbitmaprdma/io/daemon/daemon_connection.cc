#include "io/daemon/daemon_connection.h"

#include <poll.h>
#include <pwd.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

#include "io/daemon/refusal.h"
#include "io/udp/open_socket.h"

namespace brdma::io {
namespace {

constexpr uid_t kOverflowUid = 65534;  // a user outside our user namespace, as seen inside it

void set_timeout(int fd, int option, int milliseconds) {
  const timeval timeout{milliseconds / 1000, (milliseconds % 1000) * 1000};
  ::setsockopt(fd, SOL_SOCKET, option, &timeout, sizeof timeout);
}

std::string own_uid_map() {
  std::ifstream file("/proc/self/uid_map");
  return {std::istreambuf_iterator<char>(file), {}};
}

// Root serves everybody; inside a user namespace the machine's root is nobody.
bool trusted(uid_t daemon_uid) {
  if (daemon_uid == ::geteuid() || daemon_uid == ::getuid() || daemon_uid == 0) return true;
  return daemon_uid == kOverflowUid && is_whoever_is_outside(own_uid_map(), kOverflowUid);
}

}  // namespace

int milliseconds_left(Deadline deadline) {
  const auto left = deadline - std::chrono::steady_clock::now();
  if (left <= left.zero()) return 0;
  return static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(left).count()) + 1;
}

Result<FileDescriptor, ContextError> connect_to_daemon(Deadline deadline, std::string_view name) {
  FileDescriptor fd{open_socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  if (!fd.valid()) {
    const int error = errno;
    return ContextError{error, refusal("no Unix socket, by which brdmad is asked, can be made", error)};
  }
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (name.size() >= sizeof address.sun_path) return ContextError{ENAMETOOLONG, "the socket's name is too long"};
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  for (;;) {
    set_timeout(fd.get(), SO_SNDTIMEO, milliseconds_left(deadline));  // bounds connect() on a full backlog
    if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), length) == 0) break;
    if (errno == EINTR && milliseconds_left(deadline) > 0) continue;
    if (errno == EAGAIN || errno == EINTR) return ContextError{ETIMEDOUT, std::string(name) + " does not answer"};
    const int error = errno;
    return ContextError{error, refusal("cannot connect to " + std::string(name), error)};
  }
  return fd;
}

// Lines of `first inside`, `first outside`, `count`.
bool is_whoever_is_outside(std::string_view uid_map, unsigned uid) {
  std::istringstream lines{std::string(uid_map)};
  bool any = false;
  for (unsigned long long first = 0, outside = 0, count = 0; lines >> first >> outside >> count; any = true) {
    if (uid >= first && uid - first < count) return false;
  }
  return any;
}

ContextError check_owner(int fd) {
  ucred peer{};
  socklen_t peer_length = sizeof peer;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &peer_length) != 0) {
    return {errno, "cannot read the owner of brdmad"};
  }
  if (!trusted(peer.uid)) {
    return {EACCES, "brdmad (pid " + std::to_string(peer.pid) + ") in this network namespace belongs to " +
                        user_text(peer.uid) +
                        " and serves only that user: run as that user, or have an administrator end it "
                        "(brdmad --stop) "
                        "and run 'brdmad --system' as a service"};
  }
  return {};
}

ContextError daemon_silent() {
  return {ETIMEDOUT, "brdmad does not answer: continue it if it is stopped ('kill -CONT PID', unpause its container)"};
}

ContextError daemon_left(int error) {
  return {error, "brdmad closed the connection: start the program again; brdmad's log has the reason"};
}

ContextError daemon_foreign(std::string_view what) {
  return {EPROTO,
          "another program listens at @brdmad, and sends " + std::string(what) + ": find it by 'ss -xlp' and end it"};
}

Status send_all(int fd, const void* data, std::size_t size, Deadline deadline) {
  const auto* next = static_cast<const std::byte*>(data);
  while (size > 0) {
    const int left = milliseconds_left(deadline);
    if (left == 0) return Status{ETIMEDOUT};
    set_timeout(fd, SO_SNDTIMEO, left);
    const ssize_t sent = ::send(fd, next, size, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return Status{errno == EAGAIN ? ETIMEDOUT : EPIPE};
    next += sent;
    size -= static_cast<std::size_t>(sent);
  }
  return Status::success();
}

bool wait_readable(int fd, Deadline deadline) {
  for (;;) {
    pollfd poll_fd{fd, POLLIN, 0};
    const int ready = ::poll(&poll_fd, 1, milliseconds_left(deadline));
    if (ready > 0) return true;
    if (ready < 0 && errno == EINTR) continue;
    return false;
  }
}

std::string user_text(unsigned uid) {
  std::array<char, 4096> buffer{};
  passwd entry{};
  passwd* found = nullptr;
  const std::string number = "uid " + std::to_string(uid);
  if (::getpwuid_r(uid, &entry, buffer.data(), buffer.size(), &found) != 0 || found == nullptr) return number;
  return std::string(entry.pw_name) + " (" + number + ")";
}

}  // namespace brdma::io
