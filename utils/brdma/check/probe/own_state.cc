#include "check/probe/own_state.h"

#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "io/daemon/daemon_client.h"

namespace brdma::probe {
namespace {

constexpr std::uint16_t kRocePort = 4791;
constexpr int kDescriptorsMax = 4096;

bool is_on_port(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return false;
  if (address.ss_family == AF_INET) {
    return reinterpret_cast<const sockaddr_in*>(&address)->sin_port == htons(kRocePort);
  }
  return address.ss_family == AF_INET6 &&
         reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port == htons(kRocePort);
}

int option(int fd, int level, int name) {
  int value = 0;
  socklen_t size = sizeof value;
  return ::getsockopt(fd, level, name, &value, &size) == 0 ? value : 0;
}

// The object of this process in the answer to `query`.
Json own_answer(const nlohmann::json& query) {
  const auto reply = io::query_daemon(query);
  if (!reply.ok()) return Json::object();
  const auto answers = reply.value().find("answers");
  if (answers == reply.value().end() || !answers->is_array()) return Json::object();
  for (const Json& answer : *answers) {
    if (answer.is_object() && answer.value("pid", Json(nullptr)) == ::getpid()) return answer;
  }
  return answers->size() == 1 && answers->front().is_object() ? answers->front() : Json::object();
}

}  // namespace

OwnSocket own_socket() {
  OwnSocket own;
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  const int end = static_cast<int>(std::min<rlim_t>(files.rlim_cur, kDescriptorsMax));
  for (int fd = 3; fd < end; ++fd) {
    if (option(fd, SOL_SOCKET, SO_TYPE) != SOCK_DGRAM || !is_on_port(fd)) continue;
    own.receive_buffer = std::max(own.receive_buffer, static_cast<std::uint64_t>(option(fd, SOL_SOCKET, SO_RCVBUF)));
    own.merges = own.merges || option(fd, SOL_UDP, UDP_GRO) != 0;
  }
  return own;
}

Json queue_pair_row(const std::string& device, std::uint32_t number) {
  const Json answer = own_answer({{"query", "resource"}, {"what", "qp"}, {"device", device}, {"qp", number}});
  const auto rows = answer.find("rows");
  if (rows == answer.end() || !rows->is_array()) return Json::object();
  for (const Json& row : *rows) {
    if (row.is_object() && row.value("lqpn", Json(nullptr)) == number) return row;
  }
  return Json::object();
}

Json datapath_of(const std::string& device) {
  const Json answer = own_answer({{"query", "resource"}, {"what", "objects"}, {"device", device}});
  const auto datapath = answer.find("datapath");
  return datapath != answer.end() && datapath->is_object() ? *datapath : Json::object();
}

std::string text_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string{};
}

}  // namespace brdma::probe
