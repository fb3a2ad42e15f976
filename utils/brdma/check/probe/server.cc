// `brdma check --listen`: does what a client requests, one client at a time. A client chooses counts within kLimits and
// nothing else: data goes to the address that it connects from.

#include <sys/socket.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>

#include "check/probe/control.h"
#include "check/probe/ends.h"
#include "check/probe/measure.h"
#include "check/probe/probe.h"

namespace brdma::probe {
namespace {

class Server {
 public:
  explicit Server(io::FileDescriptor connection) : channel_(std::move(connection)) {}

  void serve() {
    for (unsigned step = 0; step < kLimits.steps; ++step) {
      const Json request = channel_.receive();
      const std::string name = word_of(request, "step");
      if (name == "bye") return;
      channel_.send(do_step(name, request));
    }
    throw StepFailed("a client made more requests than a measurement has", EPROTO, "peer_protocol");
  }

  void report(const StepFailed& failed) {
    try {
      channel_.send({{"error", failed.what()}, {"key", failed.key}});
    } catch (const StepFailed&) {  // it is gone
    }
  }

 private:
  Json do_step(const std::string& name, const Json& request) {
    if (name == "hello") return hello(request);
    if (!end_.device) throw StepFailed("a client did not begin with 'hello'", EPROTO, "peer_protocol");
    if (name == "datagrams") return open_datagrams(request);
    if (name == "expect" || name == "count" || name == "send") return on_datagrams(name, request);
    if (name == "connect") return connect(request);
    if (name == "write" && pair_) return {{"mbps", write_rate(*pair_, remote_)}};
    return on_tcp(name);
  }

  Json on_tcp(const std::string& name) {
    if (name == "echo") {
      channel_.send({{"ready", true}});
      echo(channel_);
      return {{"done", true}};
    }
    if (name == "tcp_receive") {
      channel_.send({{"ready", true}});
      return {{"bytes", receive_stream(channel_)}};
    }
    if (name == "tcp_send") {
      channel_.send({{"ready", true}});
      send_stream(channel_);
      return {{"done", true}};
    }
    throw StepFailed("unknown step '" + name + "'", EPROTO, "peer_protocol");
  }

  Json hello(const Json& request) {
    if (number_of(request, "protocol", 0, UINT32_MAX) != kProtocol) {
      throw StepFailed("the two ends speak different protocols: this one " + std::to_string(kProtocol), EPROTO,
                       "peer_protocol");
    }
    if (!end_.device) end_ = open_end(channel_);
    return {{"protocol", kProtocol},
            {"version", BRDMA_VERSION},
            {"device", end_.device->name()},
            {"mtu", end_.device->path_mtu()}};
  }

  Json open_datagrams(const Json& request) {
    const Remote remote = remote_of(end_, request, false);
    datagrams_.emplace(*end_.device, end_.gid_index);
    datagrams_->reach(remote);
    return numbers_of(end_, datagrams_->number());
  }

  Json on_datagrams(const std::string& name, const Json& request) {
    if (!datagrams_) throw StepFailed("there is no queue pair for datagrams", EPROTO, "peer_protocol");
    if (name == "count") {
      const auto counts = datagrams_->count(std::chrono::milliseconds{number_of(request, "quiet_ms", 1, 1000)});
      return {{"received", counts.received}, {"reordered", counts.reordered}, {"duplicated", counts.duplicated}};
    }
    const auto count = static_cast<std::uint32_t>(number_of(request, "count", 1, kLimits.datagrams));
    const auto bytes = static_cast<std::uint32_t>(number_of(request, "bytes", 4, end_.device->path_mtu()));
    const auto first = static_cast<std::uint32_t>(number_of(request, "first", 0, 1u << 20));
    if (name == "expect") datagrams_->expect(count, bytes, first);
    if (name == "send") datagrams_->send(count, bytes, first);
    return {{"done", true}};
  }

  Json connect(const Json& request) {
    remote_ = remote_of(end_, request, true);
    const auto path_mtu = static_cast<std::uint32_t>(number_of(request, "path_mtu", 256, end_.device->path_mtu()));
    pair_.emplace(*end_.device, IBV_QPT_RC);
    pair_->connect(remote_, end_.gid_index, path_mtu);
    return numbers_of(end_, pair_->number());
  }

  Channel channel_;
  End end_;
  std::optional<Datagrams> datagrams_;
  std::optional<QueuePair> pair_;
  Remote remote_;
};

// One client, whatever it does.
void serve_client(io::FileDescriptor connection) {
  Server server(std::move(connection));
  try {
    server.serve();
    std::fprintf(stderr, "brdma: measured\n");
  } catch (const StepFailed& failed) {
    std::fprintf(stderr, "brdma: a measurement ended: %s\n", failed.what());
    server.report(failed);
  }
}

}  // namespace

int run_listen(const std::string& port, bool once) {
  const io::FileDescriptor listener = listen_on(port);
  std::fprintf(stderr, "brdma: listening on TCP port %s; on the other host: brdma check ADDRESS --port %s\n",
               port.c_str(), port.c_str());
  do {
    io::FileDescriptor connection{::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)};
    if (!connection.valid() && errno != EINTR && errno != ECONNABORTED) {
      std::fprintf(stderr, "brdma: no client can be accepted: %s\n", std::strerror(errno));
      return 1;
    }
    if (connection.valid()) serve_client(std::move(connection));
  } while (!once);
  return 0;
}

}  // namespace brdma::probe
