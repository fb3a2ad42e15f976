#include "io/management/control_thread.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <new>
#include <system_error>

#include "io/daemon/lease_protocol.h"
#include "io/shard/start_thread.h"
#include "io/system/pass_descriptors.h"
#include "io/system/poll_open.h"

namespace brdma::io {
namespace {

constexpr int kLookMs = 500;    // where no descriptor reports a change
constexpr int kWriteMs = 5000;  // brdmad reads at once, or hangs: then the answer is dropped

}  // namespace

ControlThread::~ControlThread() {
  if (!thread_.joinable()) return;
  const std::uint64_t one = 1;
  static_cast<void>(!::write(stop_.get(), &one, sizeof one));
  thread_.join();
}

bool ControlThread::start(int connection_fd, Answer answer) {
  connection_fd_ = connection_fd;
  answer_ = std::move(answer);
  stop_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (connection_fd < 0 || !stop_.valid()) return false;
  thread_ = start_thread([this] { run(); });
  return thread_.joinable();
}

void ControlThread::start_again() {
  if (!thread_.joinable()) return;
  ::new (static_cast<void*>(&thread_)) std::thread;       // it names a thread that is not in this process
  stop_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));  // the old one is shared with the parent
  if (connection_fd_ >= 0 && stop_.valid()) thread_ = start_thread([this] { run(); });
}

void ControlThread::run() {
  pthread_setname_np(pthread_self(), "brdma-control");
  try {
    while (serve()) {
    }
  } catch (const std::bad_alloc&) {  // no answers from here on; brdmad reports it
  }
}

void ControlThread::watch(int fd, std::function<void()> on_readable) {
  watched_fd_ = fd;
  on_readable_ = std::move(on_readable);
}

// Handles one event. False: to stop.
bool ControlThread::serve() {
  std::array<pollfd, 4> fds{pollfd{stop_.get(), POLLIN, 0}, pollfd{connection_fd_, POLLIN, 0},
                            pollfd{watched_fd_, POLLIN, 0}, pollfd{revival_.lifeline(), POLLIN, 0}};
  const bool looks = watched_fd_ < 0 && on_readable_;
  const int timeout = timeout_ms();
  const int ready = poll_open(fds, looks && (timeout < 0 || timeout > kLookMs) ? kLookMs : timeout);
  if (ready < 0) return errno == EINTR;
  if (fds[0].revents != 0) return false;
  if (fds[1].revents != 0) serve_connection();
  if (fds[2].revents != 0 || (looks && ready == 0)) on_readable_();
  // The connection's data goes first: it may be the next lifeline, or the end.
  if (fds[3].revents != 0 && fds[1].revents == 0) revival_.daemon_died();
  revival_.act();
  return true;
}

void ControlThread::serve_connection() {
  if (read_more()) return answer_lines();
  connection_fd_ = -1;
  revival_ = {};
  if (on_hangup_) on_hangup_();
}

int ControlThread::timeout_ms() const {
  const auto deadline = revival_.deadline();
  return deadline ? milliseconds_left(*deadline) : -1;
}

// False: to stop, or time is up.
bool ControlThread::wait(int fd, short events, int timeout_ms) const {
  for (;;) {
    std::array<pollfd, 2> fds{pollfd{stop_.get(), POLLIN, 0}, pollfd{fd, events, 0}};
    const int ready = ::poll(fds.data(), fds.size(), timeout_ms);
    if (ready < 0 && errno == EINTR) continue;
    return ready > 0 && fds[0].revents == 0;
  }
}

// False: brdmad is gone.
bool ControlThread::read_more() {
  std::array<char, 4096> buffer{};
  std::array<FileDescriptor, kLeaseDescriptors> came;
  const ssize_t got = receive_with_descriptors(
      connection_fd_, {reinterpret_cast<std::byte*>(buffer.data()), buffer.size()}, came, MSG_DONTWAIT);
  // Several came with a repeated answer.
  if (came[0].valid() && !came[1].valid()) revival_.daemon_lives(std::move(came[0]));
  if (got < 0) return errno == EAGAIN || errno == EINTR;
  if (input_.size() > kQueryLineMax) input_.clear();  // no question is so long
  input_.append(buffer.data(), static_cast<std::size_t>(got));
  return got > 0;
}

void ControlThread::answer_lines() {
  for (std::size_t end = 0; (end = input_.find('\n')) != std::string::npos;) {
    const std::string line = input_.substr(0, end);
    input_.erase(0, end + 1);
    if (line.empty() || line.front() != '{') continue;
    const std::string reply = answer_(line);
    if (!reply.empty() && !write("\n" + reply)) return;  // the line feed ends an unfinished answer, if any
  }
}

bool ControlThread::write(std::string_view text) const {
  while (!text.empty()) {
    const ssize_t sent = ::send(connection_fd_, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      text.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN) {
      if (!wait(connection_fd_, POLLOUT, kWriteMs)) return false;
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

}  // namespace brdma::io
