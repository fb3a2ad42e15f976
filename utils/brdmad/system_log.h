// brdmad/system_log.h - lines for the system's log (journald, syslogd), by its socket /dev/log: for a daemon that
// nobody sees on a terminal. Never waits: where nobody takes a line, or there is no log, it is lost.
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
