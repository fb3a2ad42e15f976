#include "holder.h"

#include <poll.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "handover.h"
#include "shared_state.h"
#include "socket_group.h"
#include "statistics_page.h"
#include "worker.h"

namespace brdma::daemon {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int kBacklog = 512;
// A worker that dies soon after its start is started again after a pause that doubles each time.
constexpr milliseconds kPauseFirst{10}, kPauseMax{5000}, kHealthyLife{1000};

void tell(int fd, const std::string& line) {
  if (fd < 0) return;
  const std::string text = line + "\n";
  static_cast<void>(!::write(fd, text.data(), text.size()));
  ::close(fd);
}

// Taking the name is what makes one brdmad per network namespace.
Result<io::FileDescriptor, ContextError> listen_at_name() {
  io::FileDescriptor fd{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, io::kDaemonName.data(), io::kDaemonName.size());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + io::kDaemonName.size());
  if (!fd.valid() || ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0 ||
      ::listen(fd.get(), kBacklog) != 0) {
    return ContextError{errno, std::string("cannot listen at @brdmad: ") + std::strerror(errno)};
  }
  return fd;
}

class Holder {
 public:
  Holder(const Options& options, io::FileDescriptor listener, SocketGroup group)
      : options_(options), ready_fd_(options.ready_fd), listener_(std::move(listener)), group_(std::move(group)) {}

  // False: errno tells.
  bool prepare();
  int run();

 private:
  bool start_worker();                  // returns in the holder; the worker never comes back from it
  std::optional<int> handle_signals();  // exit code when it is time to end
  std::optional<int> reap_worker();
  [[nodiscard]] int poll_timeout() const;

  const Options options_;
  int ready_fd_;
  io::FileDescriptor listener_;
  SocketGroup group_;
  KeptLeases kept_;
  SharedState* state_ = nullptr;
  UseTableMapping use_;
  io::FileDescriptor signals_, holder_end_, worker_end_;
  pid_t worker_ = -1;
  Clock::time_point worker_started_;
  milliseconds pause_{0};
  std::optional<Clock::time_point> restart_at_;
};

bool Holder::prepare() {
  void* memory = ::mmap(nullptr, sizeof(SharedState), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return false;
  state_ = new (memory) SharedState;
  use_ = UseTableMapping::create();
  if (!use_.valid()) return false;
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGCHLD, SIGTERM, SIGINT, SIGHUP}) sigaddset(&set, signal);
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  signals_.reset(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  std::array<int, 2> ends{};
  if (!signals_.valid() || ::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) return false;
  holder_end_.reset(ends[0]);
  worker_end_.reset(ends[1]);
  return true;
}

bool Holder::start_worker() {
  ++state_->worker_starts;
  worker_started_ = Clock::now();
  restart_at_.reset();
  const pid_t holder = ::getpid();
  worker_ = ::fork();
  if (worker_ != 0) return worker_ > 0;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != holder) ::_exit(1);  // it died before the line above
  ::prctl(PR_SET_NAME, "brdmad-worker");
  ::signal(SIGINT, SIG_IGN);  // of a terminal: the holder decides
  ::signal(SIGHUP, SIG_IGN);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  signals_.reset();
  holder_end_.reset();
  if (ready_fd_ >= 0) ::close(ready_fd_);
  ::_exit(run_worker({options_, listener_.get(), worker_end_.get(), group_, kept_, *state_, use_}));
}

std::optional<int> Holder::reap_worker() {
  int status = 0;
  if (worker_ <= 0 || ::waitpid(worker_, &status, WNOHANG) != worker_) return std::nullopt;
  worker_ = -1;
  receive_handovers(holder_end_.get(), kept_);  // what it sent before it died
  if (WIFEXITED(status) && WEXITSTATUS(status) == kWorkerDone) return 0;
  const bool healthy = Clock::now() - worker_started_ >= kHealthyLife;
  pause_ = healthy ? milliseconds{0} : std::clamp(pause_ * 2, kPauseFirst, kPauseMax);
  restart_at_ = Clock::now() + pause_;
  spdlog::warn("the worker {} {}; a new one starts in {} ms",
               WIFSIGNALED(status) ? "was killed by signal" : "ended with",
               WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), pause_.count());
  return std::nullopt;
}

std::optional<int> Holder::handle_signals() {
  signalfd_siginfo info{};
  while (::read(signals_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    if (info.ssi_signo == SIGHUP && !options_.foreground) continue;
    if (info.ssi_signo != SIGCHLD) {
      spdlog::info("ends on signal {}", info.ssi_signo);
      if (worker_ > 0) {
        ::kill(worker_, SIGKILL);
        ::waitpid(worker_, nullptr, 0);
      }
      return 0;
    }
    if (const auto code = reap_worker()) return code;
  }
  return std::nullopt;
}

int Holder::poll_timeout() const {
  if (!restart_at_) return -1;
  const auto left = std::chrono::ceil<milliseconds>(*restart_at_ - Clock::now());
  return static_cast<int>(std::max<milliseconds::rep>(left.count(), 0));
}

int Holder::run() {
  if (!start_worker()) return 1;
  spdlog::info("serves UDP port 4791, {}, as pid {}", group_.dual_stack ? "IPv4 and IPv6" : "IPv4", ::getpid());
  tell(std::exchange(ready_fd_, -1), "ready");
  for (;;) {
    std::array<pollfd, 2> events{pollfd{signals_.get(), POLLIN, 0}, pollfd{holder_end_.get(), POLLIN, 0}};
    ::poll(events.data(), events.size(), poll_timeout());
    if (events[1].revents != 0) receive_handovers(holder_end_.get(), kept_);
    if (events[0].revents != 0) {
      if (const auto code = handle_signals()) return *code;
    }
    if (restart_at_ && Clock::now() >= *restart_at_ && !start_worker()) {
      restart_at_ = Clock::now() + kPauseMax;  // no memory or processes left: keep trying, leases must live
    }
  }
}

}  // namespace

int run_holder(const Options& options) {
  auto listener = listen_at_name();
  if (!listener) {
    const bool taken = listener.reason().error == EADDRINUSE;
    if (taken)
      spdlog::info("another brdmad serves this network namespace");
    else
      spdlog::error("{}", listener.reason().message);
    tell(options.ready_fd,
         taken ? "taken" : "error " + std::to_string(listener.reason().error) + " " + listener.reason().message);
    return taken && options.ready_fd >= 0 ? 0 : 1;
  }
  auto group = open_socket_group();
  if (!group) {
    spdlog::error("{}", group.reason().message);
    listener.value().reset();  // who waits there sees it close, and hears the reason from a brdmad of its own
    tell(options.ready_fd, "error " + std::to_string(group.reason().error) + " " + group.reason().message);
    return 1;
  }
  Holder holder(options, std::move(listener).value(), std::move(group).value());
  if (!holder.prepare()) {
    const std::string message = std::string("cannot set up: ") + std::strerror(errno);
    spdlog::error("{}", message);
    tell(options.ready_fd, "error " + std::to_string(EIO) + " " + message);
    return 1;
  }
  return holder.run();
}

}  // namespace brdma::daemon
