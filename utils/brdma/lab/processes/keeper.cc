#include "lab/processes/keeper.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <nlohmann/json.hpp>
#include <span>
#include <system_error>
#include <vector>

#include "io/system/file_descriptor.h"
#include "lab/commands/topology_option.h"
#include "lab/network/host_networks.h"
#include "lab/network/host_systems.h"
#include "lab/network/system_failure.h"
#include "lab/processes/channel.h"
#include "lab/processes/switch_process.h"

namespace brdma::lab {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kRequestTimeoutMs = 2'000;
constexpr int kFarewellMs = 1'000;  // time for the lab's processes between SIGTERM and the end

class Keeper {
 public:
  explicit Keeper(const KeeperDescription& description)
      : description_(description), plan_(description.plan), networks_(plan_), systems_(plan_) {}
  int run();

 private:
  void set_up();
  void watch();
  void reap_children();
  void listen_on_hosts();
  void serve_requests(std::span<const pollfd> listeners);
  void serve_request(int listener);
  Json answer(const Json& request, bool from_host, std::vector<int>& descriptors);
  [[nodiscard]] Json enter(const std::string& host, std::vector<int>& descriptors) const;
  Json describe() const;
  void end_processes();

  const KeeperDescription& description_;
  const LabPlan& plan_;
  io::FileDescriptor user_, pid_;
  HostNetworks networks_;
  HostSystems systems_;
  std::vector<io::FileDescriptor> on_hosts_;  // where it listens in each host's network
  SwitchProcess switch_;
  bool down_ = false;
};

void Keeper::set_up() {
  // Mounts a /proc for this PID namespace, so that its process numbers match. Not allowed where /proc is masked
  // (containers): then tools like ps show the outer one, with no other effect.
  if (mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr) != 0) fail("cannot keep the lab's mounts to itself");
  (void)mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr);
  if (description_.user_namespace) user_ = open_own_namespace("user");
  pid_ = open_own_namespace("pid");
  systems_.set_up();
  networks_.set_up();
  listen_on_hosts();
  if (networks_.need_switch()) {
    switch_.start(description_.switch_program, plan_, description_.switch_fd);
    networks_.adapt_to_switch(switch_.takes_batches());
  }
  networks_.wait_until_running();
}

// An abstract socket belongs to a network: programs on a host enter other hosts through these.
void Keeper::listen_on_hosts() {
  const io::FileDescriptor middle = open_own_namespace("net");
  for (std::uint32_t host = 1; host <= plan_.hosts; ++host) {
    if (setns(networks_.host_fd(host), CLONE_NEWNET) != 0) fail("cannot enter " + host_name(host));
    on_hosts_.push_back(listen_abstract(keeper_socket_name(plan_.name), SOCK_SEQPACKET));
  }
  if (setns(middle.get(), CLONE_NEWNET) != 0) fail("cannot return to the lab's middle");
}

void Keeper::reap_children() {
  int status = 0;
  for (pid_t pid = waitpid(-1, &status, WNOHANG); pid > 0; pid = waitpid(-1, &status, WNOHANG)) {
    if (pid != switch_.pid()) continue;  // a daemon whose parent has ended
    switch_.handle_exit(status);
  }
}

Json Keeper::describe() const {
  Json hosts = Json::array();
  for (std::uint32_t host = 1; host <= plan_.hosts; ++host) {
    hosts.push_back({{"host", host_name(host)},
                     {"ipv4", plan_.host_ipv4(host)},
                     {"ipv6", plan_.host_ipv6(host)},
                     {"interface", kHostInterface}});
  }
  return {{"ok", true},
          {"name", plan_.name},
          {"hosts", std::move(hosts)},
          {"interface_mtu", plan_.interface_mtu()},
          {"names_trouble", systems_.trouble()},
          {"topology", plan_.topology != nullptr},
          {"switch", switch_.running()},
          {"switch_error", switch_.error()}};
}

Json failure(const std::string& error) { return {{"ok", false}, {"error", error}}; }

Json Keeper::enter(const std::string& name, std::vector<int>& descriptors) const {
  for (std::uint32_t host = 1; host <= plan_.hosts; ++host) {
    if (name != host_name(host) && name != plan_.host_ipv4(host) && name != plan_.host_ipv6(host)) continue;
    if (user_.valid()) descriptors.push_back(user_.get());
    descriptors.insert(descriptors.end(),
                       {pid_.get(), systems_.mount_fd(host), systems_.uts_fd(host), networks_.host_fd(host)});
    return {{"ok", true},
            {"host", host_name(host)},
            {"user_namespace", user_.valid()},
            {"paths", plan_.paths()},
            {"port_rate_mbps", plan_.port_rate_mbps(host)},
            {"controller", plan_.controller},
            {"controller_key", plan_.controller_key}};
  }
  return failure("no host '" + name + "' in lab '" + plan_.name + "': it has h1 to " + host_name(plan_.hosts));
}

Json Keeper::answer(const Json& request, bool from_host, std::vector<int>& descriptors) {
  const auto word = [&](const char* key) {
    const auto found = request.is_object() ? request.find(key) : request.end();
    return found != request.end() && found->is_string() ? found->get<std::string>() : std::string{};
  };
  const std::string command = word("command");
  if (command == "describe") return describe();
  if (command == "enter") return enter(word("host"), descriptors);
  if (from_host) return failure("this is a host of lab '" + plan_.name + "': end the lab from where it was started");
  if (command == "down") {
    end_processes();
    down_ = true;
    return {{"ok", true}};
  }
  return failure("unknown command");
}

void Keeper::serve_request(int listener) {
  const io::FileDescriptor connection{accept4(listener, nullptr, nullptr, SOCK_CLOEXEC)};
  if (!connection.valid() || !peer_is_own_user(connection.get())) return;
  const timeval timeout{kRequestTimeoutMs / 1000, 0};
  setsockopt(connection.get(), SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
  setsockopt(connection.get(), SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
  try {
    const ChannelMessage message = receive_message(connection.get());
    std::vector<int> descriptors;
    const Json reply =
        answer(Json::parse(message.text, nullptr, false), listener != description_.control_fd, descriptors);
    send_message(connection.get(), reply.dump(-1, ' ', false, Json::error_handler_t::replace), descriptors);
  } catch (const std::system_error&) {
    // The client is gone.
  }
}

void Keeper::serve_requests(std::span<const pollfd> listeners) {
  for (const pollfd& listener : listeners) {
    if (listener.revents != 0) serve_request(listener.fd);
  }
}

void Keeper::end_processes() {
  const timespec step{0, 2'000'000};
  for (const int signal : {SIGTERM, SIGKILL}) {
    kill(-1, signal);  // all of this PID namespace except this process
    for (int waited = 0; waited < kFarewellMs; waited += 2) {
      while (waitpid(-1, nullptr, WNOHANG) > 0) {
      }
      if (kill(-1, 0) != 0 && errno == ESRCH) return;  // none is left
      nanosleep(&step, nullptr);
    }
  }
}

void Keeper::watch() {
  sigset_t watched;
  sigemptyset(&watched);
  sigaddset(&watched, SIGCHLD);
  sigaddset(&watched, SIGTERM);
  const io::FileDescriptor signals{signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK)};
  std::vector<pollfd> polled{{signals.get(), POLLIN, 0},
                             {description_.life_fd, POLLIN, 0},
                             {-1, POLLIN, 0},
                             {description_.control_fd, POLLIN, 0}};
  for (const io::FileDescriptor& listener : on_hosts_) polled.push_back({listener.get(), POLLIN, 0});
  while (!down_) {
    polled[2].fd = switch_.output_fd();
    if (poll(polled.data(), polled.size(), -1) < 0) continue;
    signalfd_siginfo signal{};
    while (read(signals.get(), &signal, sizeof signal) == static_cast<ssize_t>(sizeof signal)) {
      if (signal.ssi_signo == SIGTERM) down_ = true;
    }
    reap_children();
    if (polled[2].revents != 0) switch_.read_words();
    if (polled[1].revents != 0) return;  // the owner is gone, maybe killed
    serve_requests(std::span{polled}.subspan(3));
  }
}

int Keeper::run() {
  // Process 1 of its namespace gets only signals that it has requested; these are read in watch().
  sigset_t blocked;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGCHLD);
  sigaddset(&blocked, SIGTERM);
  sigprocmask(SIG_BLOCK, &blocked, nullptr);
  signal(SIGPIPE, SIG_IGN);
  Json result{{"ok", true}};
  try {
    set_up();
  } catch (const std::exception& error) {
    result = failure(error.what());
  }
  const std::string text = result.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  (void)!write(description_.ready_fd, text.data(), text.size());
  close(description_.ready_fd);
  if (!result["ok"].get<bool>()) return 1;
  close(description_.switch_fd);
  watch();
  return 0;
}

}  // namespace

std::string to_text(const KeeperDescription& description) {
  const Json json{{"name", description.plan.name},
                  {"hosts", description.plan.hosts},
                  {"network", description.plan.network},
                  {"topology", description.plan.topology_text},
                  {"controller", description.plan.controller},
                  {"controller_key", description.plan.controller_key},
                  {"user_namespace", description.user_namespace},
                  {"switch_program", description.switch_program},
                  {"control_fd", description.control_fd},
                  {"switch_fd", description.switch_fd},
                  {"ready_fd", description.ready_fd},
                  {"life_fd", description.life_fd}};
  return json.dump();
}

KeeperDescription keeper_description(const std::string& text) {
  const Json json = Json::parse(text);
  KeeperDescription description;
  description.plan.name = json.at("name");
  description.plan.hosts = json.at("hosts");
  for (const auto& [option, value] : json.at("network").items()) description.plan.network[option] = value;
  take_topology(description.plan, json.at("topology"), "topology");
  description.plan.controller = json.at("controller");
  description.plan.controller_key = json.at("controller_key");
  description.user_namespace = json.at("user_namespace");
  description.switch_program = json.at("switch_program");
  description.control_fd = json.at("control_fd");
  description.switch_fd = json.at("switch_fd");
  description.ready_fd = json.at("ready_fd");
  description.life_fd = json.at("life_fd");
  return description;
}

int run_keeper(const KeeperDescription& description) {
  prctl(PR_SET_NAME, "brdma-lab");
  for (const int fd : {description.control_fd, description.switch_fd, description.ready_fd, description.life_fd}) {
    if (fd >= 0) fcntl(fd, F_SETFD, FD_CLOEXEC);
  }
  return Keeper{description}.run();
}

}  // namespace brdma::lab
