// What the engine costs a packet, socket excluded: WRITEs from one engine to another through memory.
//   tx   post_send and poll_transmit, ICRC included        ack  acknowledgements at the sender, completions polled
//   rx   handle_datagram at the receiver: ICRC and placing
// Arguments: message bytes, path MTU code, bitmap mode (0/1), large transfers as operations of 64 KB (0/1).
#include <benchmark/benchmark.h>

#include <ctime>
#include <memory>
#include <vector>

#include "device/engine.h"

namespace {

using namespace brdma;  // a program, no header

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

struct Host {
  IpAddress address;
  EngineConfig config;
  Statistics statistics;
  std::unique_ptr<Engine> engine;
  ProtectionDomain* pd = nullptr;
  CompletionQueue* cq = nullptr;
  QueuePair* qp = nullptr;
  std::uint32_t key = 0;
  std::vector<std::byte> memory = std::vector<std::byte>(1u << 20, std::byte{0x5A});
  [[nodiscard]] std::uint64_t at() const { return reinterpret_cast<std::uint64_t>(memory.data()); }
};

void make(Host& host, std::uint8_t number, bool bitmap, bool segments) {
  host.address = IpAddress::v4(10, 0, 0, number);
  host.config.seed = number;
  host.config.segments_max = 64;
  host.config.receive_packets = 4096;
  host.config.receive_bytes = 16u << 20;
  if (segments) host.config.transfer = {.threshold_bytes = 1024, .segment_bytes = 64 * 1024};
  host.config.recovery.mode = bitmap ? RecoveryMode::kBitmap : RecoveryMode::kStandard;
  host.config.recovery.standard_window_packets = 1024;
  host.engine = std::make_unique<Engine>(host.config, host.statistics, nullptr);
  host.pd = host.engine->alloc_pd();
  host.cq = host.engine->create_cq(4096, nullptr).value();
  QpCreate create{.pd = host.pd,
                  .send_cq = host.cq,
                  .receive_cq = host.cq,
                  .capabilities = {.send_wr_max = 1024, .receive_wr_max = 16, .send_sge_max = 1, .receive_sge_max = 1}};
  host.qp = host.engine->create_qp(create).value();
  const std::uint32_t all = kAccessLocalWrite | kAccessRemoteWrite;
  MemoryRegion* region = host.engine->register_memory(host.pd, host.at(), host.memory.size(), host.at(), all).value();
  host.key = host.engine->info(region).lkey;
}

void connect(Host& host, const Host& peer, PathMtu mtu, Instant now) {
  QpAttributes a;
  a.path_mtu = mtu;
  a.access = kAccessRemoteWrite;
  a.destination_qpn = peer.engine->qp_num(peer.qp);
  a.local_address = host.address;
  a.peer_address = peer.address;
  const auto move = [&](QpState state, std::uint32_t mask) {
    a.state = state;
    if (!host.engine->modify_qp(host.qp, a, mask | kQpAttrState, now).ok()) std::abort();
  };
  move(QpState::kInit, kQpAttrPkeyIndex | kQpAttrPort | kQpAttrAccess);
  move(QpState::kRtr,
       kQpAttrAv | kQpAttrPathMtu | kQpAttrDestQpn | kQpAttrRqPsn | kQpAttrMaxDestRdAtomic | kQpAttrMinRnrTimer);
  move(QpState::kRts, kQpAttrTimeout | kQpAttrRetryCount | kQpAttrRnrRetry | kQpAttrSqPsn | kQpAttrMaxRdAtomic);
}

struct Wire {
  std::vector<std::byte> bytes;
  std::size_t segment = 0;
};

// Everything that `from` has to send now, as it would lie in the receiver's buffers.
std::size_t drain(Host& from, std::vector<Wire>& out, Instant now, Clock& clock) {
  static TransmitBuffer buffer;
  Transmit transmit;
  std::size_t packets = 0;
  while (true) {
    clock.start();
    const bool more = from.engine->poll_transmit(buffer, transmit, now);
    clock.stop();
    if (!more) return packets;
    packets += transmit.segments;
    Wire wire;
    wire.segment = transmit.segment_bytes;
    for (const Slice& slice : transmit.slices) {
      const auto* data = static_cast<const std::byte*>(slice.data);
      wire.bytes.insert(wire.bytes.end(), data, data + slice.size);
    }
    out.push_back(std::move(wire));
  }
}

void deliver(const Host& from, Host& to, std::vector<Wire>& wires, Instant now, Clock& clock) {
  for (const Wire& wire : wires) {
    Datagram datagram;
    datagram.source = from.address;
    datagram.destination = to.address;
    datagram.source_port = 0xC000;
    clock.start();
    for (std::size_t at = 0, i = 0; at < wire.bytes.size(); at += wire.segment, ++i) {
      datagram.ip_id_known = true;
      datagram.ip_id = static_cast<std::uint16_t>(i);
      datagram.bytes = ConstBytes{wire.bytes}.subspan(at, std::min(wire.segment, wire.bytes.size() - at));
      to.engine->handle_datagram(datagram, now);
    }
    clock.stop();
  }
  wires.clear();
}

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
  for (int i = 0; i < 4; ++i) {
    drain(a, wires, now, other);
    deliver(a, b, wires, now, other);
    drain(b, wires, now, other);
    deliver(b, a, wires, now, other);
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
      const std::size_t sent = drain(a, wires, now, tx);
      packets += sent;
      deliver(a, b, wires, now, rx);
      now = now + 20_us;
      if (const auto due = b.engine->next_timeout(); due && *due <= now) b.engine->handle_timeout(now);
      busy = sent > 0 || drain(b, wires, now, other) > 0;
      drain(b, wires, now, other);
      deliver(b, a, wires, now, ack);
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
