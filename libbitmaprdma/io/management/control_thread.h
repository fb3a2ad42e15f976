// io/management/control_thread.h - answers brdmad's queries on the lease's connection (io/management/management.h).
//
// A thread of its own, because no other is always available: the progress thread spins while packets come and does not
// exist before the first queue pair, and the application may compute for hours. It sleeps in poll() until brdmad writes
// or dies (io/daemon/revival.h), or a further descriptor is readable (io/netdev/netdev_watch.h); all signals are
// blocked in it. fork(): the child has no such thread.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "io/daemon/revival.h"
#include "io/system/file_descriptor.h"

namespace brdma::io {

class ControlThread {
 public:
  using Answer = std::function<std::string(std::string_view line)>;  // empty: none

  ControlThread() = default;
  ~ControlThread();
  ControlThread(const ControlThread&) = delete;
  ControlThread& operator=(const ControlThread&) = delete;

  // Before start(): `on_readable` is called when `fd` is; both outlive the thread. -1: it is called twice a second.
  void watch(int fd, std::function<void()> on_readable);
  // Likewise: called once, when the other end of the connection has closed.
  void at_hangup(std::function<void()> on_hangup) { on_hangup_ = std::move(on_hangup); }
  // Likewise: the actions when brdmad is dead.
  void survive(Revival revival) { revival_ = std::move(revival); }
  // `connection_fd` outlives the thread. False: the system gives no thread or descriptor; queries are not answered
  // then.
  bool start(int connection_fd, Answer answer);
  // In a forked child, which lacks the thread: starts it there, if there was one.
  void start_again();

 private:
  void run();
  bool serve();
  bool wait(int fd, short events, int timeout_ms) const;
  [[nodiscard]] int timeout_ms() const;
  void serve_connection();
  bool read_more();
  void answer_lines();
  bool write(std::string_view text) const;

  int connection_fd_ = -1;
  Answer answer_;
  int watched_fd_ = -1;
  std::function<void()> on_readable_, on_hangup_;
  Revival revival_;
  std::string input_;
  FileDescriptor stop_;
  std::thread thread_;
};

}  // namespace brdma::io
