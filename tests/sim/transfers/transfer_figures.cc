// Latency of large transfers, in segments and undivided, and of a small command while large ones run, in virtual time:
// the same engine without a real machine. One line of tab-separated values a point; tests/figures/make draws them.
//   transfer_figures [--quick]
//   size      MODE  LOSS%  BYTES  MEDIAN_US  P99_US  -  NETWORK     from the post to the receiver's event, and ...
//   done      MODE  LOSS%  BYTES  MEDIAN_US  P99_US  -  NETWORK     ... to the sender's completion
//   beside    MODE  K      BYTES  MEDIAN_US  P99_US  GBIT_S  NETWORK
//             a WRITE of 64 bytes, post to the receiver's event, beside K queue pairs that keep large WRITEs in flight;
//             their goodput
// The hosts: 25 Gbit/s of output a core, one batch at a time; a network of 40 Gbit/s and 5 us; path MTU 4096.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "fabric/network.h"
#include "sim/world.h"
#include "support/arena.h"
#include "support/endpoint.h"

namespace brdma::test {
namespace {

constexpr std::uint64_t kRate = 25'000'000'000, kLinkRate = 40'000'000'000;
constexpr std::uint32_t kThreshold = 128 * 1024, kSegment = 64 * 1024, kMemory = 16u << 20;
constexpr std::uint32_t kSmallBytes = 64;

// One queue for all commands; two; two, with large ones divided; one, with go-back-N recovery.
enum class Mode { kUndivided, kQueues, kSegments, kPlain };
constexpr const char* kModeNames[] = {"undivided", "queues", "segments", "plain"};

sim::HostConfig host_config(std::uint8_t number, Mode mode) {
  sim::HostConfig config;
  config.address = IpAddress::v4(10, 77, 0, number);
  config.engine.seed = number;
  config.engine.segments_max = 64;
  config.engine.batch_bytes_max = 65'507;
  config.engine.receive_packets = 4096;
  config.engine.receive_bytes = 16u << 20;
  const bool queues = mode == Mode::kQueues || mode == Mode::kSegments;
  config.engine.transfer.threshold_bytes = queues ? kThreshold : 0;
  config.engine.transfer.segment_bytes = mode == Mode::kSegments ? kSegment : 0;
  if (mode == Mode::kPlain) config.engine.recovery.mode = RecoveryMode::kGoBackN;
  config.output_rate = Bandwidth::from_bps(kRate);
  return config;
}

Arena make_arena(std::uint64_t iova, std::uint32_t bytes) {
  Arena arena{iova, Random{1, "figures"}};
  arena.allocate(bytes);
  return arena;
}

// One queue pair from the first host to the second.
struct Connection {
  Connection(sim::World& world, sim::Host& a, sim::Host& b, std::uint32_t number, std::uint32_t bytes)
      : from(make_arena(0x1000'0000'0000ull + (std::uint64_t{number} << 32), bytes)),
        to(make_arena(0x2000'0000'0000ull + (std::uint64_t{number} << 32), bytes)),
        tx(world, a, config(), from),
        rx(world, b, config(), to) {
    from.freeze();
    to.freeze();
    tx.start();
    rx.start();
    tx.connect(rx);
    rx.connect(tx);
  }
  static EndpointConfig config() {
    EndpointConfig config;
    config.mtu = PathMtu::k4096;
    config.timeout = 10;  // 4 ms: go-back-N waits so long for a lost tail
    return config;
  }
  void post(std::uint32_t bytes, Instant now) {
    const Sge sge{from.iova(), bytes, tx.key()};
    SendRequest request;
    request.sges = {&sge, 1};
    request.opcode = WorkOpcode::kRdmaWrite;
    request.flags = kSendSignaled;
    request.remote_address = to.iova();
    request.rkey = rx.key();
    BRDMA_CHECK(tx.host().engine().post_send(tx.qp(), request, now).ok());
    tx.host().touch();
    ++posted;
  }
  // Completions that have come since.
  std::size_t poll() {
    Completion completions[16];
    const std::size_t count = tx.host().engine().poll_cq(tx.cq(), completions);
    for (std::size_t i = 0; i < count; ++i) BRDMA_CHECK(completions[i].status == CompletionStatus::kSuccess);
    done += count;
    return count;
  }
  Arena from, to;
  Endpoint tx, rx;
  std::size_t posted = 0, done = 0;
};

struct Setting {
  sim::World world{1};
  sim::Host& a;
  sim::Host& b;
  std::vector<std::unique_ptr<Connection>> connections;

  Setting(Mode mode, std::uint32_t loss_ppm)
      : a(world.add_host(host_config(1, mode))), b(world.add_host(host_config(2, mode))) {
    fabric::LinkConfig link;
    link.delay = 5_us;
    link.rate = Bandwidth::from_bps(kLinkRate);
    link.queue_bytes = 16u << 20;
    world.join(a, b, link, link);
    link.impairments.loss_ppm = loss_ppm;
    faulty = link;
  }
  Connection& add(std::uint32_t bytes) {
    const auto number = static_cast<std::uint32_t>(connections.size());
    connections.push_back(std::make_unique<Connection>(world, a, b, number, bytes));
    return *connections.back();
  }
  void ready() {
    BRDMA_CHECK(world.run_until_idle(1_s));
    world.configure_links(faulty);
  }
  // Until the receiver has reported the WRITE to `to`.
  Instant arrival(const Connection& to) {
    Instant when;
    const bool came = world.run_until(
        [&] {
          bool mine = false;
          while (const auto event = b.engine().poll_write_arrival()) mine = mine || event->user == &to;
          when = world.now();
          return mine;
        },
        10_s);
    BRDMA_CHECK(came);
    return when;
  }
  fabric::LinkConfig faulty;
  [[nodiscard]] std::string network() const { return fabric::network_text({.link = faulty}); }
};

void watch(Setting& setting, Connection& connection) {
  BRDMA_CHECK(setting.b.engine().watch_writes(connection.rx.region(), &connection).ok());
}

void print(const char* kind, Mode mode, double second, std::uint32_t bytes, std::vector<Duration>& times,
           const std::string& more = "") {
  std::sort(times.begin(), times.end());
  const auto at = [&](std::size_t percent) {
    return static_cast<double>(times[(times.size() - 1) * percent / 100].ns()) / 1000;
  };
  std::printf("%s\t%s\t%g\t%u\t%.2f\t%.2f%s\n", kind, kModeNames[static_cast<std::size_t>(mode)], second, bytes, at(50),
              at(99), more.c_str());
  std::fflush(stdout);
}

void transfer(Mode mode, std::uint32_t loss_ppm, std::uint32_t bytes, unsigned rounds) {
  Setting setting{mode, loss_ppm};
  Connection& connection = setting.add(kMemory);
  setting.ready();
  watch(setting, connection);
  std::vector<Duration> arrived, done;
  for (unsigned round = 0; round < rounds; ++round) {
    const Instant begin = setting.world.now();
    connection.post(bytes, begin);
    arrived.push_back(setting.arrival(connection) - begin);
    BRDMA_CHECK(setting.world.run_until([&] { return connection.poll() > 0; }, 10_s));
    done.push_back(setting.world.now() - begin);
    setting.world.run_for(100_us);
  }
  print("size", mode, loss_ppm / 1e4, bytes, arrived, "\t\t" + setting.network());
  print("done", mode, loss_ppm / 1e4, bytes, done, "\t\t" + setting.network());
}

// K queue pairs with two large WRITEs in flight each; every 100 to 300 us a small WRITE on one of its own.
void beside(Mode mode, std::uint32_t large, std::uint32_t bytes, unsigned rounds) {
  Setting setting{mode, 0};
  Random random{7, "posts"};
  Connection& small = setting.add(4096);
  std::vector<Connection*> busy;
  for (std::uint32_t i = 0; i < large; ++i) busy.push_back(&setting.add(bytes));
  setting.ready();
  watch(setting, small);
  const auto keep_going = [&] {
    for (Connection* each : busy) {
      each->poll();
      while (each->posted - each->done < 2) each->post(bytes, setting.world.now());
    }
    return false;
  };
  setting.world.run_until(keep_going, 5_ms);
  const auto moved = [&] {
    std::size_t sum = 0;
    for (const Connection* each : busy) sum += each->done;
    return sum;
  };
  const std::size_t before = moved();
  const Instant start = setting.world.now();
  std::vector<Duration> times;
  for (unsigned round = 0; round < rounds; ++round) {
    const Instant begin = setting.world.now();
    small.post(kSmallBytes, begin);
    bool came = false;
    setting.world.run_until(
        [&] {
          keep_going();
          while (const auto event = setting.b.engine().poll_write_arrival()) came = came || event->user == &small;
          return came;
        },
        1_s);
    BRDMA_CHECK(came);
    times.push_back(setting.world.now() - begin);
    setting.world.run_until(keep_going, 100_us + Duration::from_ns(static_cast<std::int64_t>(random.below(200'000))));
    small.poll();
  }
  // With two queues only the batch that is leaving comes first, for any number of large ones.
  const Duration longest = Bandwidth::from_bps(kRate).time_for(65'507) + 5_us + 1_us;
  const bool queues = mode == Mode::kQueues || mode == Mode::kSegments;
  if (queues) BRDMA_CHECK(*std::max_element(times.begin(), times.end()) <= longest);
  const double seconds = static_cast<double>((setting.world.now() - start).ns()) / 1e9;
  char more[32];
  std::snprintf(more, sizeof more, "\t%.2f", static_cast<double>(moved() - before) * bytes * 8 / seconds / 1e9);
  print("beside", mode, large, bytes, times, more + ("\t" + setting.network()));
}

}  // namespace
}  // namespace brdma::test

int main(int argc, char** argv) {
  using namespace brdma::test;
  const bool quick = argc > 1 && std::strcmp(argv[1], "--quick") == 0;
  const unsigned rounds = quick ? 2 : 40;
  std::printf("kind\tway\tsecond\tbytes\tmedian_us\tp99_us\tgbit_s\tnetwork\n");
  for (const Mode mode : {Mode::kUndivided, Mode::kQueues, Mode::kSegments, Mode::kPlain}) {
    for (const std::uint32_t loss : {0u, 10'000u}) {
      for (std::uint32_t bytes = 4096; bytes <= (quick ? 262'144u : 16u << 20); bytes *= 2) {
        transfer(mode, loss, bytes, loss == 0 ? std::min(rounds, 5u) : rounds);
      }
    }
    for (const std::uint32_t large : {0u, 1u, 2u, 4u, 8u, 16u}) {
      if (!quick || large <= 2) beside(mode, large, 1u << 20, quick ? 3 : 200);
    }
  }
  return 0;
}
