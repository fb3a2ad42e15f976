#include "udp/port_owner.h"

#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>
#include <vector>

#include "io/daemon/daemon_connection.h"

namespace brdma::daemon {
namespace {

namespace fs = std::filesystem;

struct BoundSocket {
  unsigned uid = 0;
  std::string inode;
};

// Lines of /proc/net/udp: "sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode ...".
std::vector<BoundSocket> sockets_on_port(std::uint16_t port) {
  std::vector<BoundSocket> result;
  for (const char* path : {"/proc/self/net/udp", "/proc/self/net/udp6"}) {
    std::ifstream file(path);
    std::string line;
    std::getline(file, line);  // heading
    while (std::getline(file, line)) {
      std::istringstream fields(line);
      std::string slot, local, remote, state, queues, timer, retransmits, timeout;
      BoundSocket found;
      fields >> slot >> local >> remote >> state >> queues >> timer >> retransmits >> found.uid >> timeout >>
          found.inode;
      const std::size_t colon = local.rfind(':');
      if (!fields || colon == std::string::npos) continue;
      if (std::strtoul(local.c_str() + colon + 1, nullptr, 16) == port) result.push_back(found);
    }
  }
  return result;
}

bool holds_socket(const fs::path& process, const std::string& link) {
  std::error_code error;
  for (fs::directory_iterator entry(process / "fd", error), end; !error && entry != end; entry.increment(error)) {
    std::array<char, 64> target{};
    const ssize_t length = ::readlink(entry->path().c_str(), target.data(), target.size());
    if (length > 0 && std::string_view(target.data(), static_cast<std::size_t>(length)) == link) return true;
  }
  return false;
}

// "name (pid N)" of a process that has the socket; none: the kernel's own, or a process that we may not inspect.
std::optional<std::string> process_with(const std::string& inode) {
  const std::string link = "socket:[" + inode + "]";
  std::error_code error;
  for (fs::directory_iterator entry("/proc", error), end; !error && entry != end; entry.increment(error)) {
    const std::string pid = entry->path().filename();
    if (pid.find_first_not_of("0123456789") != std::string::npos || !holds_socket(entry->path(), link)) continue;
    std::ifstream file(entry->path() / "comm");
    std::string program;
    std::getline(file, program);
    return program + " (pid " + pid + ")";
  }
  return std::nullopt;
}

}  // namespace

std::string describe_port_owner(std::uint16_t port) {
  const std::vector<BoundSocket> sockets = sockets_on_port(port);
  for (const BoundSocket& socket : sockets) {
    if (const auto process = process_with(socket.inode)) {
      return "by " + *process + ": end it, or run in another network namespace (brdma lab)";
    }
  }
  std::error_code error;
  if (fs::exists("/sys/module/rdma_rxe", error)) {
    return "by the kernel's Soft-RoCE: remove its links (rdma link delete NAME) or its module (modprobe -r rdma_rxe), "
           "or "
           "run in another network namespace (brdma lab)";
  }
  const std::string whom = sockets.empty() ? "a process" : "a process of " + io::user_text(sockets.front().uid);
  return "by " + whom + " that this user can't see: find it with 'ss -ulpn sport = 4791' as root";
}

}  // namespace brdma::daemon
