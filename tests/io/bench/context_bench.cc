// context_bench - brdma::Context compared with raw UDP sockets on the same kernel in the same minute.
//   context_bench [--loopback] [--rounds N] [--seconds S] [--only NAME]... [--quick] [--nice] [--no-pin]
// --nice: at the highest ordinary priority (root), for a machine that does other work too.
// Each round measures every row once, so that baseline and library see the same disturbances; medians and their ratio
// are printed. Two processes as on two hosts: in two namespaces joined by veth (MTU 9000), or over loopback.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "private_network.h"
#include "raw_udp.h"
#include "test_lease.h"
#include "verbs_load.h"

namespace brdma::bench {
namespace {

struct Settings {
  bool loopback = false;
  int rounds = 3;
  double seconds = 1.0;
  bool pin = true;
  std::vector<std::string> only;
};

struct Row {
  std::string name;
  std::string unit;
  std::string baseline;  // name of the row it is compared with; empty: none
  unsigned figure = 0;   // index in Exchange::result
  std::function<bool(Exchange&)> run;
  std::vector<double> values, second;
};

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

class Bench {
 public:
  explicit Bench(const Settings& settings) : settings_(settings) {
    if (!settings_.loopback) network_ = std::make_unique<test::SecondNetwork>(9000);
    if (!settings_.loopback && !network_->ready()) std::exit(1);
    server_ = settings_.loopback ? IpAddress::v4(127, 0, 0, 1) : IpAddress::v4(10, 9, 0, 2);
    client_ = settings_.loopback ? IpAddress::v4(127, 0, 0, 1) : IpAddress::v4(10, 9, 0, 1);
    add_rows();
  }
  int run();

 private:
  // Leases of the server and the client, in their namespaces. They end with the measurement.
  struct Sides {
    io::Lease server, client;
  };
  Sides lease() const {
    Sides sides;
    if (settings_.loopback) {
      auto both = test::make_leases(2);
      sides.server = std::move(both[0]);
      sides.client = std::move(both[1]);
      return sides;
    }
    sides.client = std::move(test::make_leases(1)[0]);
    const test::SecondNetwork::Visit visit{*network_};
    sides.server = std::move(test::make_leases(1)[0]);
    return sides;
  }
  bool two(Exchange& exchange, const std::function<void(Exchange&, Sides&)>& server,
           const std::function<void(Exchange&, Sides&)>& client) const {
    Sides sides = lease();
    return run_two(
        [&](Exchange& shared) {
          // Its sending socket is made in its own namespace.
          if (settings_.loopback) return server(shared, sides);
          const test::SecondNetwork::Visit visit{*network_};
          server(shared, sides);
        },
        [&](Exchange& shared) { client(shared, sides); }, static_cast<unsigned>(settings_.seconds) + 30, settings_.pin,
        exchange);
  }
  RawOptions raw() const {
    RawOptions options;
    options.server = server_;
    options.client = client_;
    options.seconds = settings_.seconds;
    options.server_slot = test::kFirstSlot;
    options.client_slot = settings_.loopback ? test::kFirstSlot + 1 : test::kFirstSlot;
    return options;
  }
  LoadOptions load() const {
    LoadOptions options;
    options.server = server_;
    options.client = client_;
    options.seconds = settings_.seconds;
    return options;
  }
  void add(const std::string& name, const std::string& unit, const std::string& baseline, unsigned figure,
           std::function<bool(Exchange&)> run) {
    rows_.push_back({name, unit, baseline, figure, std::move(run), {}, {}});
  }
  void add_raw_stream(const std::string& name, RawOptions options) {
    add(name, "Gbit/s", "", 0, [this, options](Exchange& exchange) {
      return two(
          exchange, [&](Exchange& shared, Sides& sides) { raw_stream_server(shared, sides.server.socket_fd, options); },
          [&](Exchange& shared, Sides&) { raw_stream_client(shared, options); });
    });
  }
  void add_write_bw(const std::string& name, const std::string& unit, const std::string& baseline, unsigned figure,
                    LoadOptions options) {
    add(name, unit, baseline, figure, [this, options](Exchange& exchange) {
      return two(
          exchange, [&](Exchange& shared, Sides& sides) { write_bw_server(shared, std::move(sides.server), options); },
          [&](Exchange& shared, Sides& sides) { write_bw_client(shared, std::move(sides.client), options); });
    });
  }
  template <class Side>
  void add_latency(const std::string& name, const LoadOptions& options, Side side) {
    add(name, "us", "raw_ping", 0, [this, options, side](Exchange& exchange) {
      return two(
          exchange, [&](Exchange& shared, Sides& sides) { side(shared, std::move(sides.server), options, true); },
          [&](Exchange& shared, Sides& sides) { side(shared, std::move(sides.client), options, false); });
    });
  }
  void add_rows();

  Settings settings_;
  std::unique_ptr<test::SecondNetwork> network_;
  IpAddress server_, client_;
  std::vector<Row> rows_;
};

void Bench::add_rows() {
  RawOptions raw4096 = raw();
  add_raw_stream("raw_gso_4096", raw4096);
  raw4096.work = true;
  add_raw_stream("raw_gso_4096_work", raw4096);
  RawOptions raw1024 = raw();
  raw1024.segment_bytes = 1024 + 56;
  raw1024.segments = 60;
  add_raw_stream("raw_gso_1024", raw1024);
  raw1024.work = true;
  add_raw_stream("raw_gso_1024_work", raw1024);
  add_write_bw("write_bw_64k_mtu4096", "Gbit/s", "raw_gso_4096", 0, load());
  LoadOptions mtu1024 = load();
  mtu1024.mtu = PathMtu::k1024;
  add_write_bw("write_bw_64k_mtu1024", "Gbit/s", "raw_gso_1024", 0, mtu1024);
  LoadOptions standard = load();
  standard.context.recovery.mode = RecoveryMode::kStandard;
  add_write_bw("write_bw_64k_standard", "Gbit/s", "raw_gso_4096", 0, standard);
  LoadOptions large = load();
  large.bytes = 8 << 20;
  large.depth = 4;
  add_write_bw("write_bw_8m_mtu4096", "Gbit/s", "raw_gso_4096", 0, large);

  add("raw_ping", "us", "", 0, [this](Exchange& exchange) {
    return two(
        exchange, [&](Exchange& shared, Sides& sides) { raw_ping_server(shared, sides.server.socket_fd, raw()); },
        [&](Exchange& shared, Sides& sides) { raw_ping_client(shared, sides.client.socket_fd, raw()); });
  });
  LoadOptions small = load();
  small.bytes = 8;
  add_latency("write_lat_8", small, write_lat_side);
  add_latency("send_lat_8", small, send_lat_side);
  small.bytes = 64;
  add_latency("send_lat_64", small, send_lat_side);

  add("raw_mmsg_64", "k/s", "", 1, [this](Exchange& exchange) {
    return two(
        exchange, [&](Exchange& shared, Sides& sides) { raw_stream_server(shared, sides.server.socket_fd, raw()); },
        [&](Exchange& shared, Sides&) { raw_mmsg_client(shared, raw()); });
  });
  LoadOptions messages = load();
  messages.bytes = 64;
  add_write_bw("write_rate_64_single", "k/s", "raw_mmsg_64", 1, messages);
  messages.list = 64;
  add_write_bw("write_rate_64_list64", "k/s", "raw_mmsg_64", 1, messages);
}

int Bench::run() {
  const auto wanted = [&](const Row& row) {
    if (settings_.only.empty()) return true;
    return std::any_of(settings_.only.begin(), settings_.only.end(),
                       [&](const auto& name) { return row.name.find(name) != std::string::npos; });
  };
  for (int round = 0; round < settings_.rounds; ++round) {
    for (Row& row : rows_) {
      if (!wanted(row)) continue;
      Exchange exchange;
      if (!row.run(exchange)) {
        std::fprintf(stderr, "%s: a side failed\n", row.name.c_str());
        return 1;
      }
      row.values.push_back(exchange.result[row.figure]);
      row.second.push_back(exchange.result[1]);
      std::fprintf(stderr, "%-24s %10.2f %-7s |", row.name.c_str(), exchange.result[row.figure], row.unit.c_str());
      for (const double value : exchange.result) std::fprintf(stderr, " %.6g", value);
      std::fprintf(stderr, "\n");
    }
  }
  std::printf("%-24s %10s %-7s  ratio\n", "row", "median", "unit");
  for (const Row& row : rows_) {
    if (!wanted(row)) continue;
    std::printf("%-24s %10.2f %-7s", row.name.c_str(), median(row.values), row.unit.c_str());
    for (const Row& other : rows_) {
      if (other.name == row.baseline && !other.values.empty())
        std::printf("  %.2f x %s", median(row.values) / median(other.values), other.name.c_str());
    }
    std::printf("\n");
  }
  return 0;
}

}  // namespace

// Where the scheduler groups by session (autogroup), the group's weight counts before the process's.
void be_preferred() {
  setsid();
  std::ofstream{"/proc/self/autogroup"} << -20;
  if (setpriority(PRIO_PROCESS, 0, -20) != 0) std::perror("--nice");
}

}  // namespace brdma::bench

int main(int argc, char** argv) {
  brdma::bench::Settings settings;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const bool more = i + 1 < argc;
    if (word == "--loopback") {
      settings.loopback = true;
    } else if (word == "--quick") {
      settings.rounds = 1;
      settings.seconds = 0.1;
    } else if (word == "--no-pin") {
      settings.pin = false;
    } else if (word == "--nice") {
      brdma::bench::be_preferred();
    } else if (word == "--rounds" && more) {
      settings.rounds = std::atoi(argv[++i]);
    } else if (word == "--seconds" && more) {
      settings.seconds = std::atof(argv[++i]);
    } else if (word == "--only" && more) {
      settings.only.emplace_back(argv[++i]);
    } else {
      std::fprintf(stderr,
                   "usage: context_bench [--loopback] [--rounds N] [--seconds S] [--only NAME]... [--quick] [--nice] "
                   "[--no-pin]\n");
      return 2;
    }
  }
  if (!brdma::test::enter_private_network()) {
    std::fprintf(stderr, "context_bench: no network namespace to be had\n");
    return 77;
  }
  return brdma::bench::Bench{settings}.run();
}
