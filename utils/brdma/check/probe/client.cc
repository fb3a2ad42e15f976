// `brdma check PEER`: requests each step of the server and measures.

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <optional>

#include "check/probe/control.h"
#include "check/probe/ends.h"
#include "check/probe/measure.h"
#include "check/probe/own_state.h"
#include "check/probe/probe.h"

namespace brdma::probe {
namespace {

constexpr std::uint32_t kTries = 4;  // datagrams of a size

struct Way {
  std::uint32_t sent = 0, received = 0, reordered = 0, duplicated = 0, path_mtu = 0;
  double mbps = 0, tcp_mbps = 0;

  [[nodiscard]] Json json() const {
    return {{"sent", sent},         {"received", received}, {"reordered", reordered}, {"duplicated", duplicated},
            {"path_mtu", path_mtu}, {"mbps", mbps},         {"tcp_mbps", tcp_mbps}};
  }
};

double mbps_of(std::uint64_t bytes, Clock::time_point began) {
  const double us = std::chrono::duration<double, std::micro>(Clock::now() - began).count();
  return static_cast<double>(bytes) * 8 / std::max(1.0, us);
}

class Client {
 public:
  Client(const std::string& host, const std::string& port, Json& result)
      : channel_(Channel::connect(host, port)), result_(result) {}

  void run() {
    hello();
    open_datagrams();
    // Reported also where a later step fails.
    measure_datagrams(to_peer_, true);
    measure_datagrams(from_peer_, false);
    report();
    measure_tcp();
    if (to_peer_.path_mtu != 0 && from_peer_.path_mtu != 0) measure_reliable();
    report();
    channel_.send({{"step", "bye"}});
  }

 private:
  void hello() {
    end_ = open_end(channel_);
    result_["own_device"] = end_.device->name();
    result_["own_mtu"] = end_.device->path_mtu();
    const auto began = Clock::now();
    const Json reply = channel_.ask({{"step", "hello"}, {"protocol", kProtocol}, {"version", BRDMA_VERSION}});
    const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - began).count();
    quiet_ = std::chrono::milliseconds{std::clamp<std::int64_t>(3 * took, 100, 1000)};
    result_["version"] = word_of(reply, "version");
    result_["device"] = word_of(reply, "device");
    peer_mtu_ = static_cast<std::uint32_t>(number_of(reply, "mtu", 256, 4096));
    result_["mtu"] = peer_mtu_;
    if (number_of(reply, "protocol", 0, UINT32_MAX) != kProtocol) {
      throw StepFailed("the peer speaks another protocol", EPROTO, "peer_protocol");
    }
  }

  void open_datagrams() {
    datagrams_.emplace(*end_.device, end_.gid_index);
    Json request = numbers_of(end_, datagrams_->number());
    request["step"] = "datagrams";
    datagrams_->reach(remote_of(end_, channel_.ask(request), false));
  }

  // One round in one direction.
  Datagrams::Counts round(bool to_peer, std::uint32_t count, std::uint32_t bytes) {
    const Json numbers{{"count", count}, {"bytes", bytes}, {"first", next_}};
    const auto request = [&numbers](const char* step) {
      Json message = numbers;
      message["step"] = step;
      return message;
    };
    Datagrams::Counts counts;
    if (to_peer) {
      static_cast<void>(channel_.ask(request("expect")));
      datagrams_->send(count, bytes, next_);
      const Json reply = channel_.ask({{"step", "count"}, {"quiet_ms", quiet_.count()}});
      counts.received = static_cast<std::uint32_t>(number_of(reply, "received", 0, count));
      counts.reordered = static_cast<std::uint32_t>(number_of(reply, "reordered", 0, count));
      counts.duplicated = static_cast<std::uint32_t>(number_of(reply, "duplicated", 0, UINT32_MAX));
    } else {
      datagrams_->expect(count, bytes, next_);
      static_cast<void>(channel_.ask(request("send")));
      counts = datagrams_->count(quiet_);
    }
    next_ += count;
    return counts;
  }

  // The largest size that arrives, then loss and reordering of many.
  void measure_datagrams(Way& way, bool to_peer) {
    const std::uint32_t most = std::min(end_.device->path_mtu(), peer_mtu_);
    for (std::uint32_t bytes = 256; bytes <= most; bytes *= 2) {
      const auto counts = round(to_peer, kTries, bytes);
      if (bytes == 256) way.sent += kTries, way.received += counts.received;
      if (counts.received == 0) break;
      way.path_mtu = bytes;
    }
    if (way.path_mtu == 0) return;
    const auto until = Clock::now() + std::chrono::seconds{5};
    for (std::uint32_t i = 0; i < kLimits.rounds && Clock::now() < until; ++i) {
      const auto counts = round(to_peer, kLimits.datagrams, std::min(kLimits.datagram_bytes, way.path_mtu));
      way.sent += kLimits.datagrams;
      way.received += counts.received;
      way.reordered += counts.reordered;
      way.duplicated += counts.duplicated;
    }
  }

  void measure_tcp() {
    static_cast<void>(channel_.ask({{"step", "echo"}}));
    result_["tcp_us"] = tcp_round_trip(channel_);
    static_cast<void>(channel_.receive());
    static_cast<void>(channel_.ask({{"step", "tcp_receive"}}));
    auto began = Clock::now();
    send_stream(channel_);
    const Json done = channel_.receive();
    to_peer_.tcp_mbps = mbps_of(number_of(done, "bytes", 0, UINT64_MAX), began);
    static_cast<void>(channel_.ask({{"step", "tcp_send"}}));
    began = Clock::now();
    from_peer_.tcp_mbps = mbps_of(receive_stream(channel_), began);
    static_cast<void>(channel_.receive());
  }

  void measure_reliable() {
    const std::uint32_t path_mtu = std::min(to_peer_.path_mtu, from_peer_.path_mtu);
    QueuePair pair(*end_.device, IBV_QPT_RC);
    Json request = numbers_of(end_, pair.number());
    request["step"] = "connect";
    request["path_mtu"] = path_mtu;
    const Remote remote = remote_of(end_, channel_.ask(request), true);
    pair.connect(remote, end_.gid_index, path_mtu);
    to_peer_.mbps = write_rate(pair, remote);
    const Json reply = channel_.ask({{"step", "write"}});
    const auto rate = reply.find("mbps");
    from_peer_.mbps = rate != reply.end() && rate->is_number() ? rate->get<double>() : 0;
    result_["read_us"] = read_round_trip(pair, remote);
    const Json row = queue_pair_row(end_.device->name(), pair.number());
    result_["mode"] = text_of(row, "mode");
    result_["data"] = text_of(row, "data");
    result_["receive"] = text_of(row, "datapath");
    result_["transmit"] = text_of(row, "transmits_by");
  }

  void report() {
    result_["to_peer"] = to_peer_.json();
    result_["from_peer"] = from_peer_.json();
  }

  Channel channel_;
  Json& result_;
  End end_;
  std::optional<Datagrams> datagrams_;
  std::chrono::milliseconds quiet_{100};
  std::uint32_t peer_mtu_ = 0, next_ = 0;
  Way to_peer_, from_peer_;
};

}  // namespace

int run_connect(const std::string& host, const std::string& port) {
  Json result = Json::object();
  try {
    Client(host, port, result).run();
  } catch (const StepFailed& failed) {
    result["error"] = failed.what();
    result["error_key"] = failed.key;
  }
  std::printf("%s", line_of(result).c_str());
  return 0;
}

}  // namespace brdma::probe
