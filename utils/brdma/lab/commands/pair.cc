#include "lab/commands/pair.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string_view>

#include "base/units.h"
#include "io/shard/clock.h"
#include "lab/commands/report.h"
#include "lab/processes/client.h"
#include "lab/processes/host_process.h"
#include "lab/processes/listen_watch.h"
#include "lab/processes/start.h"

namespace brdma::lab {
namespace {

constexpr Duration kServerGrace = 10_s;      // after a client that succeeded
constexpr Duration kFailedPeerGrace = 5_s;   // after a client that failed
constexpr Duration kTerminationGrace = 2_s;  // between SIGTERM and SIGKILL
constexpr Duration kProgressInterval = 1_s;

// One of the two programs.
struct Side {
  std::string host, role;
  pid_t pid = -1;
  io::FileDescriptor output;
  std::string line, all;
  std::optional<int> exit_code;
  std::optional<Instant> deadline;  // must end by itself until then
  bool terminated = false;          // by this process

  [[nodiscard]] bool running() const { return pid > 0 && !exit_code; }
  [[nodiscard]] bool over() const { return !running() && !output.valid(); }
};

class Pair {
 public:
  Pair(const LabOptions& options, const OutputStyle& style)
      : options_(options), style_(style), show_progress_(!style.json && isatty(STDERR_FILENO) != 0) {
    server_.host = "h1";
    server_.role = "server";
    client_.host = "h2";
    client_.role = "client";
  }
  int run();

 private:
  void start(Side& side, std::vector<std::string> command);
  void start_client();
  void loop();
  // What the loop waits for, in this order: a signal, output of the server, output of the client, a listening server.
  using Polled = std::array<pollfd, 4>;
  [[nodiscard]] Polled to_poll() const;
  void handle(const Polled& polled);
  void handle_signals();
  void reap();
  void reap(Side& side, Side& other);
  void read_output(Side& side);
  void print_line(const Side& side, std::string_view line);
  void enforce_deadline(Side& side, Instant now);
  void show_progress(Instant now);
  void clear_progress();
  [[nodiscard]] int timeout_ms(Instant now) const;
  [[nodiscard]] int exit_code() const;
  void report();

  const LabOptions& options_;
  const OutputStyle& style_;
  bool show_progress_;
  std::string lab_;
  Instant started_{}, next_progress_{};
  io::FileDescriptor signals_;
  Side server_, client_;
  std::optional<ListenWatch> listen_watch_;
  bool client_started_ = false;
  int interrupted_by_ = 0;
};

void Pair::start(Side& side, std::vector<std::string> command) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) throw LabError("cannot make a pipe");
  side.output.reset(ends[0]);
  const io::FileDescriptor write_end{ends[1]};
  std::vector<std::string> words{"brdma", "lab", "exec", "--name", lab_, side.host, "--"};
  words.insert(words.end(), command.begin(), command.end());
  side.pid = fork();
  if (side.pid < 0) throw LabError("cannot start a process");
  if (side.pid != 0) return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  const int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
  dup2(null_fd, STDIN_FILENO);
  dup2(write_end.get(), STDOUT_FILENO);
  dup2(write_end.get(), STDERR_FILENO);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  execv("/proc/self/exe", argv.data());
  _exit(126);
}

void Pair::start_client() {
  listen_watch_.reset();
  if (client_started_) return;
  client_started_ = true;
  std::vector<std::string> command = options_.command;
  command.push_back(options_.plan.host_ipv4(1));
  start(client_, std::move(command));
}

void Pair::print_line(const Side& side, std::string_view line) {
  if (style_.json) return;
  clear_progress();
  std::printf("%s| %.*s\n", side.host.c_str(), static_cast<int>(line.size()), line.data());
  std::fflush(stdout);
}

void Pair::read_output(Side& side) {
  std::array<char, 8192> bytes{};
  const ssize_t size = read(side.output.get(), bytes.data(), bytes.size());
  if (size < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (size <= 0) {
    if (!side.line.empty()) print_line(side, side.line);
    side.line.clear();
    side.output.reset();
    return;
  }
  const std::string_view text{bytes.data(), static_cast<std::size_t>(size)};
  side.all.append(text);
  side.line.append(text);
  std::size_t from = 0;
  for (std::size_t end = side.line.find('\n'); end != std::string::npos; end = side.line.find('\n', from)) {
    print_line(side, std::string_view{side.line}.substr(from, end - from));
    from = end + 1;
  }
  side.line.erase(0, from);
}

void Pair::reap(Side& side, Side& other) {
  int status = 0;
  if (!side.running() || waitpid(side.pid, &status, WNOHANG) != side.pid) return;
  side.exit_code = shell_exit_code(status);
  const bool well = *side.exit_code == 0;
  if (other.running() && !other.deadline) {
    if (!well) other.deadline = io::monotonic_now() + kFailedPeerGrace;
    if (well && &side == &client_) other.deadline = io::monotonic_now() + kServerGrace;
  }
}

void Pair::reap() {
  reap(server_, client_);
  reap(client_, server_);
  if (server_.exit_code && !client_started_) {
    listen_watch_.reset();
    if (*server_.exit_code == 0 && interrupted_by_ == 0) start_client();  // no listening server, but no failure either
  }
}

void Pair::enforce_deadline(Side& side, Instant now) {
  if (!side.running() || !side.deadline || now < *side.deadline) return;
  kill(side.pid, side.terminated ? SIGKILL : SIGTERM);
  if (!side.terminated && interrupted_by_ == 0) {
    clear_progress();
    std::fprintf(stderr, "brdma: the %s on %s did not end after the other had: terminating it\n", side.role.c_str(),
                 side.host.c_str());
  }
  side.terminated = true;
  side.deadline = now + kTerminationGrace;
}

void Pair::handle_signals() {
  signalfd_siginfo signal{};
  while (read(signals_.get(), &signal, sizeof signal) == static_cast<ssize_t>(sizeof signal)) {
    if (signal.ssi_signo == SIGCHLD) continue;
    interrupted_by_ = static_cast<int>(signal.ssi_signo);
    listen_watch_.reset();
    for (Side* side : {&server_, &client_}) side->deadline = io::monotonic_now();
  }
}

int Pair::timeout_ms(Instant now) const {
  std::optional<Instant> next;
  const auto consider = [&](std::optional<Instant> time) {
    if (time && (!next || *time < *next)) next = time;
  };
  if (server_.running()) consider(server_.deadline);
  if (client_.running()) consider(client_.deadline);
  if (show_progress_) consider(next_progress_);
  if (!next) return -1;
  return *next <= now ? 0 : static_cast<int>((*next - now).ns() / 1'000'000) + 1;
}

void Pair::clear_progress() {
  if (show_progress_) std::fputs("\r\033[K", stderr);
}

void Pair::show_progress(Instant now) {
  if (!show_progress_ || now < next_progress_) return;
  next_progress_ = now + kProgressInterval;
  std::string text = client_started_ ? "running" : "waiting for the server on h1 to listen";
  if (client_started_ && options_.plan.wants_switch()) {
    const Json total = show_switch(lab_).at("total");
    text += ": " + grouped(total.value("offered", std::uint64_t{0})) + " packets, " +
            grouped(total.value("lost", std::uint64_t{0}) + total.value("burst_lost", std::uint64_t{0})) + " lost";
  }
  std::fprintf(stderr, "\r\033[K%lld s  %s", static_cast<long long>((now - started_).ns() / 1'000'000'000),
               text.c_str());
}

Pair::Polled Pair::to_poll() const {
  // poll(2) ignores -1, which a closed descriptor has.
  return {pollfd{signals_.get(), POLLIN, 0}, pollfd{server_.output.get(), POLLIN, 0},
          pollfd{client_.output.get(), POLLIN, 0}, pollfd{listen_watch_ ? listen_watch_->fd() : -1, POLLIN, 0}};
}

void Pair::handle(const Polled& polled) {
  if (polled[1].revents != 0) read_output(server_);
  if (polled[2].revents != 0) read_output(client_);
  if (polled[0].revents != 0) handle_signals();
  reap();
  if (polled[3].revents != 0 && server_.running()) start_client();
}

void Pair::loop() {
  while (!server_.over() || !client_.over()) {
    const Instant now = io::monotonic_now();
    enforce_deadline(server_, now);
    enforce_deadline(client_, now);
    show_progress(now);
    Polled polled = to_poll();
    if (poll(polled.data(), polled.size(), timeout_ms(now)) >= 0) handle(polled);
  }
  clear_progress();
}

int Pair::exit_code() const {
  if (interrupted_by_ != 0) return 128 + interrupted_by_;
  if (!client_started_) return server_.exit_code.value_or(1);
  if (client_.exit_code.value_or(1) != 0) return client_.exit_code.value_or(1);
  return server_.terminated ? 1 : server_.exit_code.value_or(1);
}

void Pair::report() {
  const Json show = options_.plan.wants_switch() ? show_switch(lab_) : Json{};
  std::vector<HostReport> hosts;
  for (const Side* side : {&server_, &client_})
    hosts.push_back({side->host + " " + side->role, host_counters(lab_, side->host)});
  if (!style_.json) {
    if (!show.is_null()) {
      std::printf("\n");
      print_network_table(show);
    }
    if (!hosts[0].counters.empty() || !hosts[1].counters.empty()) {
      std::printf("\n");
      print_recovery_table(hosts);
    }
    return;
  }
  Json sides = Json::array();
  for (const Side* side : {&server_, &client_}) {
    const Json code = side->exit_code ? Json(*side->exit_code) : Json(nullptr);
    sides.push_back({{"host", side->host},
                     {"role", side->role},
                     {"exit_code", code},
                     {"output", side->all},
                     {"counters", hosts[side == &server_ ? 0 : 1].counters}});
  }
  print_json({{"command", options_.command}, {"exit_code", exit_code()}, {"switch", show}, {"hosts", sides}}, style_);
}

int Pair::run() {
  LabPlan plan = options_.plan;
  if (!plan.topology) plan.hosts = 2;
  if (!options_.named) plan.name = "pair-" + std::to_string(getpid());
  lab_ = plan.name;
  sigset_t watched, before;
  sigemptyset(&watched);
  for (const int signal : {SIGCHLD, SIGINT, SIGTERM, SIGHUP}) sigaddset(&watched, signal);
  sigprocmask(SIG_BLOCK, &watched, &before);
  signals_.reset(signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK));
  started_ = next_progress_ = io::monotonic_now();
  const RunningLab lab = start_lab(plan, Lifetime::kWithCaller);
  const HostNamespaces first = open_host(lab_, "h1");
  start(server_, options_.command);
  listen_watch_.emplace(first, options_.wait_seconds);
  loop();
  if (interrupted_by_ == 0) report();
  listen_watch_.reset();
  sigprocmask(SIG_SETMASK, &before, nullptr);
  return exit_code();
}

}  // namespace

int run_pair(const LabOptions& options, const OutputStyle& style) { return Pair{options, style}.run(); }

}  // namespace brdma::lab
