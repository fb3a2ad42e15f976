// The engine's cost of a packet, without sockets: WRITEs from one engine to another through memory.
//   tx   post_send and poll_transmit, ICRC included        ack  acknowledgements at the sender, completions polled
//   rx   handle_datagram at the receiver: ICRC and placing
// Arguments: message bytes, path MTU code, bitmap mode (0/1), large transfers as operations of 64 KB (0/1).
#include <benchmark/benchmark.h>

#include <ctime>
#include <vector>

#include "two_hosts.h"

namespace {

using namespace brdma;  // a program, no header
using namespace brdma::bench_micro;

// Time of this thread's own: other programs on the machine do not count. Reading it costs a system call (0.2 us), so
// whole batches are timed.
class Clock {
 public:
  void start() { started_ = read(); }
  void stop() { spent_ += read() - started_; }
  [[nodiscard]] double ns() const { return static_cast<double>(spent_); }

 private:
  static std::int64_t read() {
    timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * 1'000'000'000 + now.tv_nsec;
  }
  std::int64_t started_ = 0, spent_ = 0;
};

void BM_Write(benchmark::State& state) {
  const auto bytes = static_cast<std::uint32_t>(state.range(0));
  const auto mtu = static_cast<PathMtu>(state.range(1));
  Host a, b;
  make(a, 1, state.range(2) != 0, state.range(3) != 0);
  make(b, 2, state.range(2) != 0, state.range(3) != 0);
  Instant now = Instant::from_ns(1'000'000);
  connect(a, b, mtu, now);
  connect(b, a, mtu, now);
  Clock tx, rx, ack, other;
  std::vector<Wire> wires;
  const auto sends = [&now](Clock& clock) {
    return [&clock, &now](Engine& engine, TransmitBuffer& buffer, Transmit& transmit) {
      clock.start();
      const bool more = engine.poll_transmit(buffer, transmit, now);
      clock.stop();
      return more;
    };
  };
  const auto takes = [&now](Clock& clock) {
    return [&clock, &now](Engine& engine, const std::vector<Datagram>& datagrams) {
      clock.start();
      for (const Datagram& datagram : datagrams) engine.handle_datagram(datagram, now);
      clock.stop();
    };
  };
  for (int i = 0; i < 4; ++i) {
    drain(a, wires, sends(other));
    deliver(a, b, wires, takes(other));
    drain(b, wires, sends(other));
    deliver(b, a, wires, takes(other));
  }
  const Sge sge{a.at(), bytes, a.key};
  std::uint64_t packets = 0, messages = 0;
  std::vector<Completion> completions(64);
  for (auto _ : state) {
    tx.start();
    for (int i = 0; i < 16; ++i) {
      SendRequest request{.wr_id = messages++,
                          .sges = {&sge, 1},
                          .opcode = WorkOpcode::kRdmaWrite,
                          .flags = i % 4 == 3 ? kSendSignaled : 0,
                          .remote_address = b.at(),
                          .rkey = b.key};
      if (!a.engine->post_send(a.qp, request, now).ok()) state.SkipWithError("post");
    }
    tx.stop();
    for (bool busy = true; busy;) {
      const std::size_t sent = drain(a, wires, sends(tx));
      packets += sent;
      deliver(a, b, wires, takes(rx));
      now = now + 20_us;
      if (const auto due = b.engine->next_timeout(); due && *due <= now) b.engine->handle_timeout(now);
      busy = sent > 0 || drain(b, wires, sends(other)) > 0;
      drain(b, wires, sends(other));
      deliver(b, a, wires, takes(ack));
      ack.start();
      while (a.engine->poll_cq(a.cq, completions) > 0) {
      }
      ack.stop();
      now = now + 20_us;
    }
  }
  if (b.statistics.get(Counter::kAcceptedPackets) < packets) state.SkipWithError("packets were dropped");
  const auto per_packet = [packets](const Clock& clock) { return clock.ns() / static_cast<double>(packets); };
  state.counters["tx_ns"] = per_packet(tx);
  state.counters["rx_ns"] = per_packet(rx);
  state.counters["ack_ns"] = per_packet(ack);
  state.counters["packets"] = static_cast<double>(packets) / static_cast<double>(state.iterations());
}

BENCHMARK(BM_Write)
    ->ArgNames({"bytes", "mtu", "bitmap", "segments"})
    ->Args({65536, 5, 1, 0})
    ->Args({65536, 5, 1, 1})
    ->Args({65536, 5, 0, 0})
    ->Args({65536, 3, 1, 0})
    ->Args({65536, 3, 1, 1})
    ->Args({4096, 5, 1, 0})
    ->Args({64, 5, 1, 0})
    ->Args({64, 5, 0, 0});

}  // namespace
