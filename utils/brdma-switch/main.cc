// brdma-switch - an Ethernet switch in user space for the lab, or several routers: one port for each host; the fabric's
// links decide about each packet. `brdma lab` starts it inside the lab's own network namespace; docs/reference/lab.md
// describes it.

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "datapath/data_loop.h"
#include "datapath/run_promptly.h"
#include "fabric/network.h"
#include "forwarding/routed_core.h"
#include "forwarding/switch_core.h"
#include "requests/control.h"
#include "requests/controller_agent.h"
#include "topology/topology_file.h"

namespace {

using brdma::lab::DataLoop;
using brdma::lab::PortSpec;

struct Arguments {
  std::vector<std::string> ports;
  std::map<std::string, std::string, std::less<>> network;
  std::string topology;
  std::string control;
  std::string controller, key_file;
  int control_fd = -1;
  int ready_fd = -1;
};

std::vector<PortSpec> parse_ports(const std::vector<std::string>& texts) {
  std::vector<PortSpec> ports;
  for (const std::string& text : texts) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
      throw CLI::ValidationError("--port", "'" + text + "': expected HOST=INTERFACE");
    }
    ports.push_back({text.substr(0, equals), text.substr(equals + 1)});
  }
  return ports;
}

brdma::fabric::NetworkConfig parse_network(const Arguments& arguments) {
  brdma::fabric::NetworkConfig config;
  for (const auto& [name, value] : arguments.network) {
    if (const auto error = brdma::fabric::set_option(config, name, value)) {
      throw CLI::ValidationError("--" + name, *error);
    }
  }
  if (const auto error = brdma::fabric::check_network(config)) throw CLI::ValidationError(*error);
  return config;
}

// A listening socket in the abstract namespace, "@name".
int listen_at(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (name.size() < 2 || name[0] != '@' || name.size() > sizeof address.sun_path) {
    throw CLI::ValidationError("--control", "expected @NAME, at most 107 characters");
  }
  std::memcpy(address.sun_path + 1, name.data() + 1, name.size() - 1);
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0 || bind(fd, reinterpret_cast<sockaddr*>(&address), size) != 0 || listen(fd, 8) != 0) {
    throw std::runtime_error("cannot listen at " + name + ": " + std::strerror(errno));
  }
  return fd;
}

void report_ready(int fd, const std::string& line) {
  if (fd < 0) return;
  (void)!write(fd, line.data(), line.size());
  close(fd);
}

// One switch, or those of a topology.
DataLoop::MakeCore core_maker(const Arguments& arguments, const std::vector<PortSpec>& ports,
                              const brdma::fabric::NetworkConfig& config) {
  if (arguments.topology.empty()) {
    return [&ports, config](brdma::fabric::PacketPool& pool) {
      std::vector<std::string> hosts;
      for (const PortSpec& port : ports) hosts.push_back(port.host);
      return std::make_unique<brdma::lab::SwitchCore>(pool, hosts, config);
    };
  }
  const auto topology = brdma::topology::parse_topology(arguments.topology, "--topology");
  if (topology.hosts.size() != ports.size()) {
    throw CLI::ValidationError("--topology", "as many hosts as --port are needed");
  }
  return [topology, config](brdma::fabric::PacketPool& pool) {
    return std::make_unique<brdma::lab::RoutedCore>(pool, topology, config);
  };
}

int run_switch(const Arguments& arguments) {
  const auto ports = parse_ports(arguments.ports);
  const auto config = parse_network(arguments);
  const int listener = arguments.control_fd >= 0 ? arguments.control_fd : listen_at(arguments.control);
  DataLoop loop{ports, core_maker(arguments, ports, config)};
  std::optional<brdma::lab::ControllerAgent> agent;
  if (auto* core = dynamic_cast<brdma::lab::RoutedCore*>(&loop.core()); core && !arguments.controller.empty()) {
    agent.emplace(loop, *core, arguments.controller, brdma::session::read_keys(arguments.key_file));
  }
  // Signals go to the control thread (this one), so block them before the other starts.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  std::thread data{[&loop] {
    brdma::lab::run_promptly();
    loop.run();
  }};
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  report_ready(arguments.ready_fd, loop.passes_batches() ? "ready batches\n" : "ready\n");
  brdma::lab::serve_control(listener, loop);
  agent.reset();
  data.join();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  Arguments arguments;
  CLI::App app{"Switches of the lab: forward packets between host interfaces and impair them", "brdma-switch"};
  app.add_option("--port", arguments.ports, "HOST=INTERFACE, once for each host")->required()->allow_extra_args(false);
  app.add_option("--topology", arguments.topology,
                 "several switches: a topology's text (TOML), one --port for each host");
  auto* control = app.add_option("--control", arguments.control, "control socket: @NAME (abstract Unix socket)");
  app.add_option("--control-fd", arguments.control_fd, "control socket: an open listening descriptor")
      ->excludes(control);
  auto* controller =
      app.add_option("--controller", arguments.controller,
                     "with --topology: the controller, ADDRESS:PORT or unix:PATH (docs/explanation/wan.md)");
  app.add_option("--key", arguments.key_file, "the switches' keys for it")->needs(controller);
  app.add_option("--ready-fd", arguments.ready_fd, "descriptor that gets a line when the switch is ready");
  for (const auto& option : brdma::fabric::network_options()) {
    const std::string name{option.name};
    app.add_option_function<std::string>(
           "--" + name, [&arguments, name](const std::string& value) { arguments.network[name] = value; },
           std::string{option.help})
        ->type_name(std::string{option.value})
        ->group("Network");
  }
  try {
    app.parse(argc, argv);
    if (arguments.control.empty() && arguments.control_fd < 0) throw CLI::RequiredError("--control");
    return run_switch(arguments);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "brdma-switch: %s\n", error.what());
    return 1;
  }
}
