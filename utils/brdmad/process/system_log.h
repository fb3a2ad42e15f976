// brdmad/process/system_log.h - lines for the system's log (journald, syslogd), by its socket /dev/log, for a daemon
// without a terminal. Never waits: a line that the log does not take is lost.
#pragma once

#include <spdlog/sinks/base_sink.h>

#include <mutex>
#include <string>

#include "io/system/file_descriptor.h"

namespace brdma::daemon {

class SystemLog final : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
 public:
  explicit SystemLog(std::string path = "/dev/log") : path_(std::move(path)) {}

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override;
  void flush_() override {}

 private:
  bool connect();

  std::string path_;
  io::FileDescriptor socket_;
};

}  // namespace brdma::daemon
