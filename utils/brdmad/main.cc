// brdmad - opens UDP port 4791 once for all RDMA programs of a network namespace and leases a share to each.
#include <fcntl.h>
#include <pwd.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>

#include "control/config.h"
#include "control/unknown_words.h"
#include "controller-session/endpoint.h"
#include "io/daemon/daemon_client.h"
#include "options.h"
#include "process/shed.h"
#include "process/system_log.h"
#include "supervisor/holder.h"
#include "supervisor/service_manager.h"

namespace brdma::daemon {
namespace {

constexpr const char* kDescription =
    "brdmad - leases shares of UDP port 4791 (RoCEv2) to RDMA programs.\n\n"
    "One brdmad serves a network namespace. The first program that opens a device starts it, as that user and for "
    "that\n"
    "user, and it ends by itself some seconds after the last one; nobody needs to start it by hand. An administrator\n"
    "who wants to serve every user of a machine runs 'brdmad --system --foreground --idle-seconds 0' as a service.\n";
constexpr const char* kFooter =
    "\nFiles: /etc/bitmaprdma.toml, ~/.config/bitmaprdma.toml ([daemon] idle_seconds; [controller] address, "
    "key_file).\n"
    "Environment: BRDMA_IDLE_SECONDS, BRDMA_CONTROLLER, BRDMA_CONTROLLER_KEY, BRDMA_CONTROLLER_NAME.\n"
    "Exit codes: 0 done, 1 it cannot serve (the message says why), 2 misuse.\n"
    "See: docs/explanation/daemon.md; 'brdma system show' asks a running brdmad.\n";

// The starter may have left any attribute.
void shed_inheritance(const Options& options) {
  shed_signals();
  shed_descriptors(std::array{options.ready_fd, options.vault_fd});
  if (options.ready_fd < 0) return;  // started by hand or by a service manager: the rest is as intended
  shed_scheduling();
  shed_limits();
}

bool is_null(int fd) {
  struct stat status {};
  return ::fstat(fd, &status) != 0 || (S_ISCHR(status.st_mode) && status.st_rdev == makedev(1, 3));
}

// Standard error if somebody reads it; else the system's log.
void open_log(const Options& options) {
  const bool seen = options.foreground && !is_null(STDERR_FILENO);
  spdlog::sink_ptr sink = std::make_shared<SystemLog>();
  if (seen) sink = std::make_shared<spdlog::sinks::stderr_sink_st>();
  auto logger = std::make_shared<spdlog::logger>("brdmad", std::move(sink));
  logger->set_level(options.verbose ? spdlog::level::debug : spdlog::level::info);
  logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e brdmad[%P] %l: %v");
  spdlog::set_default_logger(std::move(logger));
}

std::string everything_from(int fd) {
  std::string text;
  std::array<char, 1024> buffer{};
  ssize_t got = 0;
  while ((got = ::read(fd, buffer.data(), buffer.size())) > 0)
    text.append(buffer.data(), static_cast<std::size_t>(got));
  return text;
}

// Waits for the daemon's answer, one line as for --ready-fd, and exits accordingly.
[[noreturn]] void exit_when_answered(int ready_pipe) {
  std::string answer = everything_from(ready_pipe);
  while (!answer.empty() && answer.back() == '\n') answer.pop_back();
  if (answer == "ready") std::exit(0);
  if (answer == "taken") answer = "another brdmad serves this network namespace";
  if (answer.starts_with("error ")) answer.erase(0, answer.find(' ', 6) + 1);
  std::fprintf(stderr, "brdmad: %s\n", answer.empty() ? "it ended before it was ready" : answer.c_str());
  std::exit(1);
}

// Continues in a process of its own session with ready_fd set; in the calling one, waits for its answer and exits.
void go_to_background(Options& options) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) std::exit(1);
  const pid_t child = ::fork();
  if (child < 0) std::exit(1);
  if (child > 0) {
    ::close(ends[1]);
    exit_when_answered(ends[0]);
  }
  ::setsid();
  if (::fork() != 0) ::_exit(0);  // never again a session leader: no terminal can become ours
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int fd = 0; fd < 3; ++fd) ::dup2(null, fd);
  ::close(ends[0]);
  ::close(null);
  static_cast<void>(!::chdir("/"));
  options.ready_fd = ends[1];
}

// Ends the daemon of this network namespace; its leases only with `force`.
int stop_running(bool force) {
  const auto answer = io::query_daemon({{"query", "shutdown"}, {"force", force}});
  if (answer) return 0;
  const bool busy = answer.reason().error == EBUSY;
  std::fprintf(stderr, "brdmad: %s\n",
               busy ? "programs use it ('brdma resource show ctx' lists them): --force ends it all the same"
                    : answer.reason().message.c_str());
  return 1;
}

// From the settings, or from the command line. Bad settings are no reason not to serve: programs start this daemon.
bool take_controller(const std::string& address, const std::string& key_file, const std::string& name, bool named,
                     ControllerOptions& options) {
  if (address.empty()) return true;
  try {
    if (key_file.empty())
      throw std::runtime_error("no key file is named: give it by --key FILE or controller.key_file");
    options.keys = session::key_of(session::read_keys(key_file), name);
    (void)session::parse_endpoint(address);
    options.address = address;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "brdmad: no session with a controller: %s\n", error.what());
    return !named;
  }
  return true;
}

std::optional<std::uint32_t> uid_of(const std::string& user) {
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(user.data(), user.data() + user.size(), number);
  if (error == std::errc{} && end == user.data() + user.size()) return number;
  const passwd* const entry = ::getpwnam(user.c_str());
  return entry == nullptr ? std::nullopt : std::optional{static_cast<std::uint32_t>(entry->pw_uid)};
}

bool take_transmitters(const std::vector<std::string>& users, Options& options) {
  for (const std::string& user : users) {
    const auto uid = uid_of(user);
    if (!uid) {
      std::fprintf(stderr, "brdmad: --xdp-transmit: there is no user %s\n", user.c_str());
      return false;
    }
    options.xdp_transmit_users.push_back(*uid);
  }
  return true;
}

int run(int argc, char** argv) {
  Options options;
  const control::LoadedSettings loaded = control::load_settings();
  options.idle_seconds = loaded.settings.idle_seconds;
  options.alarms = loaded.settings.alarms;
  CLI::App app{kDescription, "brdmad"};
  app.footer(kFooter);
  app.set_version_flag("-V,--version", std::string("brdmad ") + BRDMA_VERSION);
  app.add_flag("--foreground", options.foreground, "stay in the foreground and log to standard error");
  CLI::Option* system_flag =
      app.add_flag("--system", options.system, "serve every user, keeping them apart (root only)");
  app.add_flag("--users-trust-each-other", options.users_trust,
               "with --system: serve users even where they cannot be kept apart (each could take another's packets)")
      ->needs(system_flag);
  app.add_option("--user-leases", options.user_leases, "with --system: maximum leases of one user at a time")
      ->capture_default_str()
      ->check(CLI::Range(1, 8190));
  app.add_option("--idle-seconds", options.idle_seconds,
                 "seconds without lease and client after which it ends; 0: never")
      ->capture_default_str()
      ->check(CLI::Range(0, 86'400));
  bool stop = false, force = false;
  CLI::Option* stop_flag =
      app.add_flag("--stop", stop, "end the brdmad that serves this network namespace (its user, root)");
  app.add_flag("--force", force, "with --stop: also while programs use it, which then lose their device")
      ->needs(stop_flag);
  std::string controller = loaded.settings.controller_address, key_file = loaded.settings.controller_key_file;
  CLI::Option* controller_option =
      app.add_option("--controller", controller,
                     "keep a session with this brdma-controller: ADDRESS:PORT, unix:PATH (docs/explanation/wan.md)");
  app.add_option("--key", key_file, "with --controller: the file with this host's key")->needs(controller_option);
  std::vector<std::string> transmitters;
  app.add_option("--xdp-transmit", transmitters,
                 "let these users (names or numbers) send packets by AF_XDP: any packets, with any source address; "
                 "users with CAP_NET_RAW need not be named");
  app.add_flag("--verbose", options.verbose, "log each query too");
  app.add_option("--ready-fd", options.ready_fd, "write one line to this descriptor when ready (for the library)")
      ->check(CLI::Range(3, 1'000'000));
  app.add_option("--vault-fd", options.vault_fd,
                 "adopt the descriptors that a dead brdmad left in this vault (likewise)")
      ->check(CLI::Range(3, 1'000'000));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (stop) return stop_running(force);
  if (options.system && ::geteuid() != 0) {
    std::fprintf(stderr, "brdmad: --system serves every user, so root must start it\n");
    return 1;
  }
  if (!take_transmitters(transmitters, options)) return 2;
  if (!take_controller(controller, key_file, loaded.settings.controller_name, controller_option->count() != 0,
                       options.controller)) {
    return 1;
  }
  if (options.vault_fd < 0 && options.foreground) options.vault_fd = stored_vault();
  shed_inheritance(options);
  for (const std::string& error : loaded.errors) std::fprintf(stderr, "brdmad: %s\n", error.c_str());
  if (options.foreground) {  // else a program has started it, and reports them itself
    for (const std::string& one : control::unknown_variables()) std::fprintf(stderr, "brdmad: %s\n", one.c_str());
  } else {
    go_to_background(options);
  }
  open_log(options);
  return run_holder(options);
}

}  // namespace
}  // namespace brdma::daemon

int main(int argc, char** argv) { return brdma::daemon::run(argc, argv); }
