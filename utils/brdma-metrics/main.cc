// brdma-metrics - counters of this host's RDMA devices for Prometheus: `brdma metrics show` prints them once,
// `brdma metrics serve` answers scrapes. A program beside brdmad, which has everybody's sockets and must parse nothing
// of a stranger (docs/howto/metrics.md).
#include <sys/prctl.h>

#include <CLI/CLI.hpp>
#include <boost/asio/signal_set.hpp>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>

#include "collector.h"
#include "control/config.h"
#include "controller-session/endpoint.h"
#include "http_server.h"

namespace brdma::metrics {
namespace {

struct Options {
  std::string listen;
  bool queue_pairs = false;
};

void print_error(const std::string& text) { std::fprintf(stderr, "brdma: %s\n", text.c_str()); }

// To standard output, all of it.
void print(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    throw std::runtime_error("cannot write to standard output: " + std::string(std::strerror(errno)));
  }
}

int show(const Options& options) {
  Collector collector{options.queue_pairs};
  const Answer& answer = collector.answer();
  if (answer.error != 0) print_error(answer.message);
  print(*answer.text);
  return answer.error == 0 || answer.error == ENOENT ? 0 : 1;
}

// The text of each scrape; a reason why brdmad does not answer is printed when it changes.
HttpServer::Text reader(const std::shared_ptr<Collector>& collector) {
  return [collector, printed = std::string{}]() mutable {
    const Answer& answer = collector->answer();
    if (answer.message != printed && !answer.message.empty()) print_error(answer.message);
    printed = answer.message;
    return answer.text;
  };
}

void listen(HttpServer& server, const std::string& at) {
  try {
    server.listen(session::parse_endpoint(at));
  } catch (const boost::system::system_error& error) {
    throw std::runtime_error("cannot listen at " + at + ": " + error.code().message() +
                             "; another address is chosen by --listen, or by the setting metrics.listen");
  }
}

int serve(const Options& options) {
  ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  std::signal(SIGPIPE, SIG_IGN);
  asio::io_context context{1};
  HttpServer server{context, reader(std::make_shared<Collector>(options.queue_pairs))};
  listen(server, options.listen);
  asio::signal_set signals{context, SIGTERM, SIGINT};
  signals.async_wait([&context](boost::system::error_code, int) { context.stop(); });
  const bool is_unix = options.listen.starts_with("unix:");
  print("metrics are at " + (is_unix ? options.listen + ", /metrics" : "http://" + options.listen + "/metrics") + "\n");
  context.run();
  return 0;
}

int run(int argc, char** argv) {
  CLI::App app{"Counters of this host's RDMA devices for Prometheus\n", "brdma metrics"};
  app.set_version_flag("-V,--version", std::string("brdma-metrics ") + BRDMA_VERSION);
  app.footer(
      "\nWithout a command: show.\nExit codes: 0 done, 1 failed (the message says why), 2 misuse.\nSee: "
      "docs/howto/metrics.md");
  Options options;
  const control::LoadedSettings loaded = control::load_settings();
  options.listen = loaded.settings.metrics_listen;
  for (const std::string& error : loaded.errors) print_error(error);
  CLI::App* const show_command = app.add_subcommand("show", "print the metrics once, in Prometheus' text");
  CLI::App* const serve_command = app.add_subcommand("serve", "answer GET /metrics until SIGTERM");
  app.require_subcommand(0, 1);
  serve_command->add_option("--listen", options.listen,
                            "ADDRESS:PORT, [ADDRESS]:PORT or unix:PATH; without: the setting metrics.listen");
  for (CLI::App* const command : {show_command, serve_command}) {
    command->add_flag("--queue-pairs", options.queue_pairs, "counters of each queue pair too, of at most 1024");
  }
  try {
    app.parse(argc, argv);
    if (!serve_command->parsed()) return show(options);
    if (options.listen.empty()) {
      throw std::invalid_argument("no address: name one by --listen, or by the setting metrics.listen");
    }
    return serve(options);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const std::invalid_argument& error) {
    print_error(error.what());
    return 2;
  } catch (const std::exception& error) {
    print_error(error.what());
    return 1;
  }
}

}  // namespace
}  // namespace brdma::metrics

int main(int argc, char** argv) { return brdma::metrics::run(argc, argv); }
