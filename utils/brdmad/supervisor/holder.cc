#include "supervisor/holder.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lease/lease_book.h"
#include "process/shed.h"
#include "process/system_calls.h"
#include "supervisor/handover.h"
#include "supervisor/inheritance.h"
#include "supervisor/service_manager.h"
#include "udp/socket_guard.h"
#include "worker/worker.h"

namespace brdma::daemon {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// A worker that dies soon after its start is started again after a pause that doubles each time.
constexpr milliseconds kPauseFirst{10}, kPauseMax{5000}, kHealthyLife{1000};

void send_line(int fd, const std::string& line) {
  if (fd < 0) return;
  const std::string text = line + "\n";
  static_cast<void>(!::write(fd, text.data(), text.size()));
  ::close(fd);
}

// To the program that started it, or to the service manager. A daemon that a program started has its environment, and
// must not report for the program's service.
void report_serving(int ready_fd) {
  if (ready_fd < 0) return report_ready();
  send_line(ready_fd, "ready");
}

class Holder {
 public:
  Holder(const Options& options, io::FileDescriptor life, Inheritance held)
      : options_(options), ready_fd_(options.ready_fd), life_(std::move(life)), held_(std::move(held)) {
    for (std::uint32_t slot = 0; slot < held_.kept.leases.size(); ++slot) {
      if (held_.kept.leases[slot].connection.valid()) unannounced_.push_back({slot, held_.state->slots[slot].lease_id});
    }
  }

  // False: errno has the reason.
  bool prepare();
  int run();

 private:
  bool start_worker();                  // returns in the holder; the worker never comes back from it
  std::optional<int> handle_signals();  // exit code when it is time to end
  std::optional<int> reap_worker();
  void announce();
  [[nodiscard]] int poll_timeout() const;

  const Options options_;
  int ready_fd_;
  io::FileDescriptor life_;  // be_the_only_one()
  Inheritance held_;
  io::FileDescriptor signals_, holder_end_, worker_end_;
  io::FileDescriptor lifeline_, alive_;  // the programs' end; the one that closes with holder and worker
  struct Adopted {
    std::uint32_t slot;
    std::uint64_t lease_id;
  };
  std::vector<Adopted> unannounced_;  // programs that do not know yet that this daemon replaces the previous one
  pid_t worker_ = -1;
  Clock::time_point worker_started_;
  milliseconds pause_{0};
  std::optional<Clock::time_point> restart_at_;
};

bool Holder::prepare() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGCHLD, SIGTERM, SIGINT, SIGHUP}) sigaddset(&set, signal);
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  signals_.reset(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  std::array<int, 2> ends{};
  if (!signals_.valid() || ::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) return false;
  holder_end_.reset(ends[0]);
  worker_end_.reset(ends[1]);
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return false;
  lifeline_.reset(ends[0]);
  alive_.reset(ends[1]);
  return true;
}

// Programs of the previous daemon get this one's lifeline. A program that waits for a lease gets it with the answer,
// which the worker repeats; one that does not read gets it later.
void Holder::announce() {
  std::erase_if(unannounced_, [this](const Adopted& adopted) {
    const SlotRecord& record = held_.state->slots[adopted.slot];
    const int connection = held_.kept.leases[adopted.slot].connection.get();
    if (connection < 0 || record.state != SlotState::kLeased || record.lease_id != adopted.lease_id) return true;
    return send_lifeline(connection, lifeline_.get()) || errno != EAGAIN;
  });
}

bool Holder::start_worker() {
  ++held_.state->worker_starts;
  worker_started_ = Clock::now();
  restart_at_.reset();
  const pid_t holder = ::getpid();
  worker_ = ::fork();
  if (worker_ != 0) return worker_ > 0;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != holder) ::_exit(1);  // the holder died before the line above
  ::prctl(PR_SET_NAME, "brdmad-worker");
  ::signal(SIGINT, SIG_IGN);  // from a terminal: the holder decides
  ::signal(SIGHUP, SIG_IGN);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  signals_.reset();
  holder_end_.reset();
  if (ready_fd_ >= 0) ::close(ready_fd_);
  ::_exit(run_worker({options_, worker_end_.get(), lifeline_.get(), held_}));
}

std::optional<int> Holder::reap_worker() {
  int status = 0;
  if (worker_ <= 0 || ::waitpid(worker_, &status, WNOHANG) != worker_) return std::nullopt;
  worker_ = -1;
  receive_handovers(holder_end_.get(), held_.kept, held_.group);  // messages sent before the worker died
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
  constexpr milliseconds kAnnounceAgain{100};
  if (!restart_at_) return unannounced_.empty() ? -1 : static_cast<int>(kAnnounceAgain.count());
  const auto left = std::chrono::ceil<milliseconds>(*restart_at_ - Clock::now());
  return static_cast<int>(std::max<milliseconds::rep>(left.count(), 0));
}

int Holder::run() {
  announce();
  if (!start_worker()) return 1;
  spdlog::info("serves UDP port 4791, {}, as pid {}", held_.group.dual_stack ? "IPv4 and IPv6" : "IPv4", ::getpid());
  report_serving(std::exchange(ready_fd_, -1));
  for (;;) {
    std::array<pollfd, 2> events{pollfd{signals_.get(), POLLIN, 0}, pollfd{holder_end_.get(), POLLIN, 0}};
    ::poll(events.data(), events.size(), poll_timeout());
    if (events[1].revents != 0) receive_handovers(holder_end_.get(), held_.kept, held_.group);
    if (!unannounced_.empty()) announce();
    if (events[0].revents != 0) {
      if (const auto code = handle_signals()) return *code;
    }
    if (restart_at_ && Clock::now() >= *restart_at_ && !start_worker()) {
      restart_at_ = Clock::now() + kPauseMax;  // no memory or processes left: keep trying, leases must live
    }
  }
}

// A program starts a daemon only to adopt a vault. A service adopts its vault if it can; else it drops it and starts
// empty.
Result<Inheritance, ContextError> inherit(Options& options) {
  const bool service = options.ready_fd < 0;
  std::vector<io::FileDescriptor> guard;
  if (options.system && !options.users_trust) {
    auto guarded = guard_sockets();
    if (!guarded) return guarded.reason();
    guard = std::move(guarded).value();
  }
  if (options.vault_fd >= 0) {
    auto adopted = adopt_inheritance(io::FileDescriptor{std::exchange(options.vault_fd, -1)}, options, service);
    if (adopted) adopted.value().guard = std::move(guard);
    if (adopted || !service) return adopted;
    spdlog::warn("{}", adopted.reason().message);
  }
  auto made = make_inheritance(options);
  if (made) made.value().guard = std::move(guard);
  if (made && service) store_vault(made.value().vault.fd());
  return made;
}

}  // namespace

int run_holder(Options options) {
  const auto refuse = [&options](const ContextError& reason) {
    const bool taken = reason.error == EADDRINUSE && reason.message.empty();
    if (taken)
      spdlog::info("another brdmad serves this network namespace");
    else
      spdlog::error("{}", reason.message);
    send_line(options.ready_fd, taken ? "taken" : "error " + std::to_string(reason.error) + " " + reason.message);
    return taken && options.ready_fd >= 0 ? 0 : 1;
  };
  auto life = be_the_only_one();
  if (!life) return refuse(life.reason());
  auto held = inherit(options);
  if (!held) return refuse(held.reason());
  held.value().kept.steerings.merge(XdpSteering::find_all());  // steering of a daemon that left no vault
  shed_rights();
  Holder holder(options, std::move(life).value(), std::move(held).value());
  if (!holder.prepare()) return refuse({EIO, std::string("cannot set up: ") + std::strerror(errno)});
  if (const ContextError open = confine_system_calls(); open.error != 0)
    spdlog::info("goes on with all system calls: {}", open.message);
  return holder.run();
}

}  // namespace brdma::daemon
