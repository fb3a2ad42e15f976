#include "lab/keeper.h"

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

#include <array>
#include <cerrno>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <vector>

#include "io/file_descriptor.h"
#include "lab/channel.h"
#include "lab/netlink.h"
#include "lab/offload.h"

namespace brdma::lab {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kRequestTimeoutMs = 2'000;
constexpr int kFarewellMs = 1'000;  // what the lab's processes have between SIGTERM and the end
constexpr std::size_t kSwitchWordsMax = 4'096;

[[noreturn]] void fail(const std::string& what) { throw std::system_error(errno, std::generic_category(), what); }

io::FileDescriptor open_namespace(const char* kind) {
  io::FileDescriptor fd{open((std::string{"/proc/self/ns/"} + kind).c_str(), O_RDONLY | O_CLOEXEC)};
  if (!fd.valid()) fail(std::string{"cannot open the "} + kind + " namespace");
  return fd;
}

// Of the calling thread's network namespace. Best effort: /proc/sys may be read-only, and all that happens then is a
// little IPv6 chatter.
void set_sysctl(const std::string& name, const char* value) {
  const io::FileDescriptor file{open(("/proc/sys/net/" + name).c_str(), O_WRONLY | O_CLOEXEC)};
  if (file.valid()) (void)!write(file.get(), value, 1);
}

class Keeper {
 public:
  explicit Keeper(const KeeperDescription& description) : description_(description), plan_(description.plan) {}
  int run();

 private:
  void set_up();
  void make_hosts();
  void join_directly();
  void join_by_bridge();
  void join_by_switch();
  void wait_until_running();
  void configure_host(std::uint32_t host);
  void connect_to_middle(std::uint32_t host);
  void start_switch();
  bool wait_for_switch(int ready_fd);
  void watch();
  void reap_children();
  void read_switch_words();
  void serve_request();
  Json answer(const Json& request, std::vector<int>& descriptors);
  Json describe() const;
  void end_processes();

  const KeeperDescription& description_;
  const LabPlan& plan_;
  io::FileDescriptor user_, pid_, mount_, middle_;  // middle: the network namespace where the hosts' links meet
  std::vector<io::FileDescriptor> hosts_;
  std::vector<Netlink> host_links_;  // a socket in each host, while setting up
  std::optional<Netlink> middle_links_;
  bool uses_switch_ = false;
  pid_t switch_pid_ = -1;
  bool switch_takes_batches_ = false;
  io::FileDescriptor switch_output_;
  std::string switch_words_;  // what it wrote to standard error
  std::string switch_error_;
  bool down_ = false;
};

void Keeper::set_up() {
  // Our own /proc, so that process numbers in it are those of this PID namespace. Not allowed where /proc is masked
  // (containers): then tools like ps see the outer one, which is all that is lost.
  if (mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr) == 0) {
    (void)mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr);
  }
  if (description_.user_namespace) user_ = open_namespace("user");
  pid_ = open_namespace("pid");
  mount_ = open_namespace("mnt");
  middle_ = open_namespace("net");
  middle_links_.emplace();
  middle_links_->set_up("lo");
  set_sysctl("ipv6/conf/default/disable_ipv6", "1");
  make_hosts();
  if (plan_.wants_switch()) {
    join_by_switch();
  } else if (plan_.hosts == 2) {
    join_directly();
  } else if (plan_.hosts > 2) {
    join_by_bridge();
  }
  for (std::uint32_t host = 1; host <= plan_.hosts; ++host) configure_host(host);
  if (uses_switch_) start_switch();
  wait_until_running();
  host_links_.clear();
  middle_links_.reset();
}

void Keeper::make_hosts() {
  for (std::uint32_t host = 1; host <= plan_.hosts; ++host) {
    if (unshare(CLONE_NEWNET) != 0) fail("cannot make the network namespace of " + host_name(host));
    hosts_.push_back(open_namespace("net"));
    host_links_.emplace_back().set_up("lo");
    // Link-local addresses usable at once; nobody here is a router.
    set_sysctl("ipv6/conf/default/accept_dad", "0");
    set_sysctl("ipv6/conf/default/router_solicitations", "0");
  }
  if (setns(middle_.get(), CLONE_NEWNET) != 0) fail("cannot return to the lab's middle");
}

void Keeper::join_directly() {
  middle_links_->create_veth({kHostInterface, host_index(1), host_mac(1), hosts_[0].get()},
                             {kHostInterface, host_index(2), host_mac(2), hosts_[1].get()}, plan_.interface_mtu());
}

void Keeper::connect_to_middle(std::uint32_t host) {
  middle_links_->create_veth({host_name(host), switch_index(host), switch_mac(host), -1},
                             {kHostInterface, host_index(host), host_mac(host), hosts_[host - 1].get()},
                             plan_.interface_mtu());
  middle_links_->set_up(host_name(host));
}

void Keeper::join_by_bridge() {
  try {
    middle_links_->create_bridge("bridge", plan_.interface_mtu());
  } catch (const std::system_error& error) {
    if (error.code().value() != EOPNOTSUPP) throw;
    return join_by_switch();  // a kernel without bridges: the switch forwards too, only slower
  }
  for (std::uint32_t host = 1; host <= plan_.hosts; ++host) {
    connect_to_middle(host);
    middle_links_->set_master(host_name(host), "bridge");
  }
  middle_links_->set_up("bridge");
}

void Keeper::join_by_switch() {
  uses_switch_ = true;
  for (std::uint32_t host = 1; host <= plan_.hosts; ++host) connect_to_middle(host);
}

void Keeper::wait_until_running() {
  for (std::uint32_t host = 1; host <= plan_.hosts && plan_.hosts > 1; ++host) {
    host_links_[host - 1].wait_until_running(kHostInterface);
  }
}

// Addresses, and every neighbour's: nothing to resolve, so nothing to lose.
void Keeper::configure_host(std::uint32_t host) {
  Netlink& links = host_links_[host - 1];
  if (plan_.hosts == 1) return;  // a host with nobody to talk to has its loopback
  links.add_address(kHostInterface, host_ipv4(host), 24);
  links.add_address(kHostInterface, host_ipv6(host), 64);
  links.set_up(kHostInterface);
  for (std::uint32_t other = 1; other <= plan_.hosts; ++other) {
    if (other == host) continue;
    links.add_neighbour(kHostInterface, host_ipv4(other), host_mac(other));
    links.add_neighbour(kHostInterface, host_ipv6(other), host_mac(other));
  }
}

void Keeper::start_switch() {
  std::array<int, 2> ready{}, output{};
  if (pipe2(ready.data(), O_CLOEXEC) != 0 || pipe2(output.data(), O_CLOEXEC) != 0) fail("cannot make a pipe");
  const io::FileDescriptor ready_read{ready[0]};
  io::FileDescriptor ready_write{ready[1]}, output_write{output[1]};
  switch_output_.reset(output[0]);

  std::vector<std::string> words{description_.switch_program, "--control-fd", std::to_string(description_.switch_fd),
                                 "--ready-fd", std::to_string(ready[1])};
  for (std::uint32_t host = 1; host <= plan_.hosts; ++host) {
    words.insert(words.end(), {"--port", host_name(host) + "=" + host_name(host)});
  }
  for (const auto& [option, value] : plan_.network) words.insert(words.end(), {"--" + option, value});
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  switch_pid_ = fork();
  if (switch_pid_ < 0) fail("cannot start the switch");
  if (switch_pid_ == 0) {
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    fcntl(ready[1], F_SETFD, 0);
    fcntl(description_.switch_fd, F_SETFD, 0);
    dup2(output[1], STDERR_FILENO);
    execv(argv[0], argv.data());
    dprintf(STDERR_FILENO, "cannot run %s: %s\n", argv[0], strerror(errno));
    _exit(127);
  }
  ready_write.reset();
  output_write.reset();
  if (!wait_for_switch(ready_read.get())) {
    read_switch_words();
    throw std::runtime_error("the switch did not start: " + switch_words_);
  }
  fcntl(switch_output_.get(), F_SETFL, O_NONBLOCK);
  for (std::uint32_t host = 1; host <= plan_.hosts; ++host) {
    if (setns(hosts_[host - 1].get(), CLONE_NEWNET) != 0) fail("cannot enter " + host_name(host));
    leave_no_segmentation_to(kHostInterface, switch_takes_batches_);
  }
  if (setns(middle_.get(), CLONE_NEWNET) != 0) fail("cannot return to the lab's middle");
}

bool Keeper::wait_for_switch(int ready_fd) {
  std::array<char, 64> line{};
  const ssize_t size = read(ready_fd, line.data(), line.size());
  if (size <= 0) return false;
  switch_takes_batches_ = std::string_view{line.data(), static_cast<std::size_t>(size)}.starts_with("ready batches");
  return true;
}

void Keeper::read_switch_words() {
  std::array<char, 1024> bytes{};
  for (;;) {
    const ssize_t size = read(switch_output_.get(), bytes.data(), bytes.size());
    if (size == 0) switch_output_.reset();
    if (size <= 0) return;
    if (switch_words_.size() < kSwitchWordsMax) switch_words_.append(bytes.data(), static_cast<std::size_t>(size));
  }
}

void Keeper::reap_children() {
  int status = 0;
  for (pid_t pid = waitpid(-1, &status, WNOHANG); pid > 0; pid = waitpid(-1, &status, WNOHANG)) {
    if (pid != switch_pid_) continue;  // a daemon whose parent had gone
    switch_pid_ = -1;
    if (switch_output_.valid()) read_switch_words();
    switch_error_ = "the switch has ended " +
                    (WIFSIGNALED(status) ? "by signal " + std::to_string(WTERMSIG(status))
                                         : "with code " + std::to_string(WEXITSTATUS(status))) +
                    (switch_words_.empty() ? "" : ": " + switch_words_);
  }
}

Json Keeper::describe() const {
  Json hosts = Json::array();
  for (std::uint32_t host = 1; host <= plan_.hosts; ++host) {
    hosts.push_back({{"host", host_name(host)},
                     {"ipv4", host_ipv4(host)},
                     {"ipv6", host_ipv6(host)},
                     {"interface", kHostInterface}});
  }
  return {{"ok", true},
          {"name", plan_.name},
          {"hosts", std::move(hosts)},
          {"interface_mtu", plan_.interface_mtu()},
          {"switch", switch_pid_ > 0},
          {"switch_error", switch_error_}};
}

Json failure(const std::string& error) { return {{"ok", false}, {"error", error}}; }

Json Keeper::answer(const Json& request, std::vector<int>& descriptors) {
  const auto word = [&](const char* key) {
    const auto found = request.is_object() ? request.find(key) : request.end();
    return found != request.end() && found->is_string() ? found->get<std::string>() : std::string{};
  };
  const std::string command = word("command");
  if (command == "describe") return describe();
  if (command == "down") {
    end_processes();
    down_ = true;
    return {{"ok", true}};
  }
  if (command != "enter") return failure("unknown command");
  for (std::uint32_t host = 1; host <= plan_.hosts; ++host) {
    if (host_name(host) != word("host")) continue;
    if (user_.valid()) descriptors.push_back(user_.get());
    descriptors.insert(descriptors.end(), {pid_.get(), mount_.get(), hosts_[host - 1].get()});
    return {{"ok", true}, {"user_namespace", user_.valid()}};
  }
  return failure("no host '" + word("host") + "' in lab '" + plan_.name + "': it has h1 to " + host_name(plan_.hosts));
}

void Keeper::serve_request() {
  const io::FileDescriptor connection{accept4(description_.control_fd, nullptr, nullptr, SOCK_CLOEXEC)};
  if (!connection.valid() || !peer_is_own_user(connection.get())) return;
  const timeval timeout{kRequestTimeoutMs / 1000, 0};
  setsockopt(connection.get(), SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
  setsockopt(connection.get(), SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
  try {
    const ChannelMessage message = receive_message(connection.get());
    std::vector<int> descriptors;
    const Json reply = answer(Json::parse(message.text, nullptr, false), descriptors);
    send_message(connection.get(), reply.dump(-1, ' ', false, Json::error_handler_t::replace), descriptors);
  } catch (const std::system_error&) {
    // Whoever asked has gone.
  }
}

void Keeper::end_processes() {
  const timespec step{0, 2'000'000};
  for (const int signal : {SIGTERM, SIGKILL}) {
    kill(-1, signal);  // all of this PID namespace but ourselves
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
  while (!down_) {
    std::array<pollfd, 4> polled{pollfd{description_.control_fd, POLLIN, 0}, pollfd{signals.get(), POLLIN, 0},
                                 pollfd{description_.life_fd, POLLIN, 0},
                                 pollfd{switch_output_.valid() ? switch_output_.get() : -1, POLLIN, 0}};
    if (poll(polled.data(), polled.size(), -1) < 0) continue;
    signalfd_siginfo signal{};
    while (read(signals.get(), &signal, sizeof signal) == static_cast<ssize_t>(sizeof signal)) {
      if (signal.ssi_signo == SIGTERM) down_ = true;
    }
    reap_children();
    if (polled[3].revents != 0) read_switch_words();
    if (polled[2].revents != 0) return;  // the owner has gone, maybe killed
    if (polled[0].revents != 0) serve_request();
  }
}

int Keeper::run() {
  // Process 1 of its namespace gets no signal it has not asked for; these are read in watch().
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
