#include "process/system_log.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <syslog.h>
#include <unistd.h>

#include <cstring>
#include <string_view>

namespace brdma::daemon {
namespace {

constexpr int kTries = 2;  // after a restart of the log the old connection refuses once

int priority_of(spdlog::level::level_enum level) {
  if (level >= spdlog::level::critical) return LOG_CRIT;
  if (level >= spdlog::level::err) return LOG_ERR;
  if (level >= spdlog::level::warn) return LOG_WARNING;
  return level >= spdlog::level::info ? LOG_INFO : LOG_DEBUG;
}

}  // namespace

bool SystemLog::connect() {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path_.size() >= sizeof address.sun_path) return false;
  std::memcpy(address.sun_path, path_.data(), path_.size());
  socket_.reset(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (socket_.valid() && ::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0)
    return true;
  socket_.reset();
  return false;
}

void SystemLog::sink_it_(const spdlog::details::log_msg& message) {
  const std::string line = "<" + std::to_string(LOG_DAEMON | priority_of(message.level)) + ">brdmad[" +
                           std::to_string(::getpid()) +
                           "]: " + std::string(std::string_view(message.payload.data(), message.payload.size()));
  for (int attempt = 0; attempt < kTries; ++attempt) {
    if (!socket_.valid() && !connect()) return;
    if (::send(socket_.get(), line.data(), line.size(), MSG_NOSIGNAL) >= 0 || errno == EAGAIN) return;
    socket_.reset();
  }
}

}  // namespace brdma::daemon
