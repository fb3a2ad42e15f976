#include "io/daemon/daemon_client.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <nlohmann/json.hpp>
#include <string>

#include "control/json_text.h"
#include "io/daemon/daemon_connection.h"

namespace brdma::io {
namespace {

using json = nlohmann::ordered_json;

constexpr std::size_t kReplyMax = 16u << 20;  // 254 processes with all their counters are under 1 MiB

Result<std::string, ContextError> read_line(int fd, const std::string& who, Deadline deadline) {
  std::string line;
  std::array<char, 16 * 1024> buffer{};
  for (;;) {
    if (!wait_readable(fd, deadline)) return ContextError{ETIMEDOUT, who + " does not answer"};
    const ssize_t got = ::recv(fd, buffer.data(), buffer.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0 || line.size() > kReplyMax) return ContextError{EPIPE, who + " closed the connection"};
    line.append(buffer.data(), static_cast<std::size_t>(got));
    if (line.back() == '\n') return line;
  }
}

}  // namespace

Result<json, ContextError> ask_at(std::string_view name, const nlohmann::json& request,
                                  std::chrono::milliseconds answer_within) {
  const Deadline deadline = std::chrono::steady_clock::now() + answer_within;
  auto connected = connect_to_daemon(deadline, name);
  if (!connected) return connected.reason();
  const int fd = connected.value().get();
  const std::string who{name};
  const std::string line = request.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace) + "\n";
  if (const Status sent = send_all(fd, line.data(), line.size(), deadline); !sent.ok()) {
    return ContextError{sent.error(), who + " closed the connection"};
  }
  const auto answer = read_line(fd, who, deadline);
  if (!answer) return answer.reason();
  json parsed = control::parse_json(answer.value(), {.bytes_max = 2 * kReplyMax, .values_max = kReplyMax});
  if (!parsed.is_object()) return ContextError{EPROTO, "the answer of " + who + " is not JSON"};
  return parsed;
}

Result<json, ContextError> query_daemon(const nlohmann::json& request) {
  auto answer = ask_at(kDaemonName, request);
  if (!answer) {
    if (answer.reason().error != ECONNREFUSED) return answer;
    return ContextError{ENOENT,
                        "no brdmad runs in this network namespace: the first program that opens a device starts it"};
  }
  json& parsed = answer.value();
  if (const auto error = parsed.find("error"); error != parsed.end() && error->is_object()) {
    const auto number = error->find("errno");
    const auto message = error->find("message");
    return ContextError{number != error->end() && number->is_number_integer() ? number->get<int>() : EPROTO,
                        message != error->end() && message->is_string() ? message->get<std::string>() : error->dump()};
  }
  return answer;
}

}  // namespace brdma::io
