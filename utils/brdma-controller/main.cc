// brdma-controller - the controller of a wide-area network (docs/design, WT-11 to WT-13): docs/explanation/wan.md.
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <boost/asio/signal_set.hpp>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "configuration.h"
#include "controller-session/key_file.h"
#include "server.h"
#include "status_port.h"

namespace brdma::controller_program {
namespace {

struct Options {
  std::vector<std::string> listen;
  std::string key_file, configuration, control = "@brdma-controller", metrics;
  int control_fd = -1, ready_fd = -1;
  bool verbose = false;
};

// A listening socket in the abstract namespace, "@name".
int listen_at(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (name.size() < 2 || name[0] != '@' || name.size() > sizeof address.sun_path) {
    throw std::invalid_argument("--control: expected @NAME, at most 107 characters");
  }
  std::memcpy(address.sun_path + 1, name.data() + 1, name.size() - 1);
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0 || ::bind(fd, reinterpret_cast<sockaddr*>(&address), size) != 0 || ::listen(fd, 8) != 0) {
    throw std::runtime_error("cannot listen at " + name + ": " + std::strerror(errno));
  }
  return fd;
}

int serve(const Options& options) {
  auto logger = std::make_shared<spdlog::logger>("controller", std::make_shared<spdlog::sinks::stderr_sink_st>());
  logger->set_level(options.verbose ? spdlog::level::info : spdlog::level::warn);
  logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e brdma-controller %l: %v");
  spdlog::set_default_logger(std::move(logger));
  std::signal(SIGPIPE, SIG_IGN);
  Configuration configuration = read_configuration(options.configuration);
  asio::io_context context{1};
  Server server{context, session::read_keys(options.key_file), std::move(configuration.map), configuration.settings};
  for (const std::string& endpoint : options.listen) server.listen(endpoint);
  serve_control(context, options.control_fd >= 0 ? options.control_fd : listen_at(options.control), server);
  if (!options.metrics.empty()) serve_metrics(context, options.metrics, server);
  asio::signal_set signals{context, SIGTERM, SIGINT};
  signals.async_wait([&](boost::system::error_code, int) { context.stop(); });
  if (options.ready_fd >= 0) {
    (void)!::write(options.ready_fd, "ready\n", 6);
    ::close(options.ready_fd);
  }
  context.run();
  return 0;
}

// The controller's file with all keys, and one file for each member.
int make_keys(const std::string& controller_file, const std::vector<std::string>& members) {
  session::Keys keys;
  for (const std::string& member : members) {
    if (member != session::kAnybody && !session::good_name(member)) {
      throw std::invalid_argument("'" + member + "' is no name: letters, digits, . _ - : and at most 64");
    }
    keys[member] = session::make_key();
  }
  session::write_new_keys(controller_file, keys);
  for (const auto& [name, key] : keys) {
    if (name != session::kAnybody) session::write_new_keys(name + ".key", {{name, key}});
  }
  return 0;
}

int run(int argc, char** argv) {
  CLI::App app{
      "Controller of a wide-area network: moves routes away from congested and broken links, asks senders to lower "
      "their rate\n",
      "brdma-controller"};
  app.set_version_flag("-V,--version", std::string("brdma-controller ") + BRDMA_VERSION);
  app.footer("\nExit codes: 0 done, 1 it cannot serve (the message says why), 2 misuse.\nSee: docs/explanation/wan.md");
  Options options;
  app.add_option("--listen", options.listen, "ADDRESS:PORT, [ADDRESS]:PORT or unix:PATH for switches and hosts");
  app.add_option("--key", options.key_file, "the keys of all members; made by keygen");
  app.add_option("--config", options.configuration, "the known network, and limits (TOML)");
  auto* control = app.add_option("--control", options.control, "socket for 'brdma controller'")->capture_default_str();
  app.add_option("--control-fd", options.control_fd, "the same: an open listening descriptor")->excludes(control);
  app.add_option("--prometheus", options.metrics, "ADDRESS:PORT for GET /metrics");
  app.add_option("--ready-fd", options.ready_fd, "descriptor that gets a line when the controller is ready");
  app.add_flag("--verbose", options.verbose, "log members that connect or leave, and each order");
  std::string controller_file = "controller.keys";
  std::vector<std::string> members;
  CLI::App* keygen = app.add_subcommand("keygen", "make keys: MEMBER.key here for each, and the controller's file");
  keygen->add_option("--out", controller_file, "the controller's file")->capture_default_str();
  keygen->add_option("MEMBER", members, "names of switches and hosts, or '*': one key for any holder")->required();
  try {
    app.parse(argc, argv);
    if (keygen->parsed()) return make_keys(controller_file, members);
    if (options.listen.empty()) throw CLI::RequiredError("--listen");
    if (options.key_file.empty()) throw CLI::RequiredError("--key");
    return serve(options);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "brdma-controller: %s\n", error.what());
    return 1;
  }
}

}  // namespace
}  // namespace brdma::controller_program

int main(int argc, char** argv) { return brdma::controller_program::run(argc, argv); }
