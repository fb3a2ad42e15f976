#include "supervisor/service_manager.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "io/system/file_descriptor.h"
#include "io/system/pass_descriptors.h"

namespace brdma::daemon {
namespace {

constexpr int kFirstListenFd = 3;  // sd_listen_fds(3): SD_LISTEN_FDS_START
constexpr std::string_view kName = "vault";

std::string_view variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string_view{} : std::string_view{value};
}

void notify(std::string_view text, std::span<const int> descriptors) {
  const std::string_view path = variable("NOTIFY_SOCKET");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) return;
  std::copy(path.begin(), path.end(), std::begin(address.sun_path));
  if (path.front() == '@') address.sun_path[0] = '\0';
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
  const io::FileDescriptor fd{::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
  if (!fd.valid() || ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0) return;
  static_cast<void>(
      io::send_with_descriptors(fd.get(), {reinterpret_cast<const std::byte*>(text.data()), text.size()}, descriptors));
}

}  // namespace

int stored_vault() {
  if (variable("LISTEN_PID") != std::to_string(::getpid())) return -1;
  std::string_view names = variable("LISTEN_FDNAMES");
  for (int fd = kFirstListenFd; !names.empty(); ++fd) {
    const std::string_view name = names.substr(0, names.find(':'));
    if (name == kName) return fd;
    names.remove_prefix(std::min(names.size(), name.size() + 1));
  }
  return -1;
}

void store_vault(int vault_fd) {
  notify("FDSTOREREMOVE=1\nFDNAME=vault", {});
  notify("FDSTORE=1\nFDNAME=vault", {&vault_fd, 1});
}

void report_ready() { notify("READY=1", {}); }

}  // namespace brdma::daemon
