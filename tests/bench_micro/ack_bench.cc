// What an acknowledgement costs on a path that holds WINDOW packets of 256 bytes, for callgrind, which counts
// instructions whatever else runs; tests/bench_micro/acknowledgements makes a table of it.
//   valgrind --tool=callgrind --instr-atstart=no build/bin/ack_bench WINDOW POLICY MISSING_PERCENT
// POLICY: bitmap | selective | wan | wan_ffm.  Counted, behind three round trips: run_sender (acknowledgements taken,
// timers), run_receiver (data and timers, acknowledgements and feedback made). One packet leaves each 333 ns.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <vector>

#include "base/random.h"
#include "two_hosts.h"
#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#else
#define CALLGRIND_START_INSTRUMENTATION
#define CALLGRIND_STOP_INSTRUMENTATION
#endif

using namespace brdma;  // a program, no header
using namespace brdma::bench_micro;

namespace {

constexpr std::uint32_t kStep = 64;  // packets a round of the loop
constexpr Duration kStepTime = Duration::from_ns(std::int64_t{kStep} * 333);
constexpr std::uint32_t kMessageBytes = 1u << 20, kMeasuredSteps = 200;

void make(Host& host, std::uint8_t number, RecoveryMode mode, std::uint32_t window) {
  host.config.segments_max = kStep;
  host.config.receive_packets = 1u << 20;
  host.config.receive_bytes = 1u << 30;
  RecoveryConfig& recovery = host.config.recovery;
  recovery.mode = mode;
  for (recovery.window_packets = 4096; recovery.window_packets < window * 3;) recovery.window_packets *= 2;
  recovery.state_bytes_max = 1u << 30;
  recovery.hold_bytes_max = 256u << 20;
  recovery.congestion.control = CongestionControl::kNone;
  open(host, number);
}

struct Packet {
  Instant due;
  std::uint16_t place = 0;  // in its batch
  std::vector<std::byte> bytes;
};
using Packets = std::deque<Packet>;

// One batch; how many packets.
std::uint32_t take_batch(Host& from, Packets& out, Instant due, Instant now) {
  static TransmitBuffer buffer;
  Transmit transmit;
  if (!from.engine->poll_transmit(buffer, transmit, now)) return 0;
  std::vector<std::byte> whole;
  for (const Slice& slice : transmit.slices) {
    const auto* data = static_cast<const std::byte*>(slice.data);
    whole.insert(whole.end(), data, data + slice.size);
  }
  for (std::size_t at = 0, i = 0; at < whole.size(); at += transmit.segment_bytes, ++i) {
    const auto end = std::min(whole.size(), at + transmit.segment_bytes);
    out.push_back(
        {due,
         static_cast<std::uint16_t>(i),
         {whole.begin() + static_cast<std::ptrdiff_t>(at), whole.begin() + static_cast<std::ptrdiff_t>(end)}});
  }
  return transmit.segments;
}

void hand_over(const Host& from, Host& to, Packets& packets, Instant now) {
  for (; !packets.empty() && packets.front().due <= now; packets.pop_front()) {
    Datagram datagram;
    datagram.source = from.address;
    datagram.destination = to.address;
    datagram.source_port = 0xC000;
    datagram.ip_id_known = true;
    datagram.ip_id = packets.front().place;
    datagram.bytes = packets.front().bytes;
    to.engine->handle_datagram(datagram, now);
  }
  if (const auto due = to.engine->next_timeout(); due && *due <= now) to.engine->handle_timeout(now);
}

}  // namespace

extern "C" {  // names that callgrind_annotate can tell
__attribute__((noinline)) void run_sender(const Host& from, Host& to, Packets& packets, Instant now) {
  hand_over(from, to, packets, now);
}
__attribute__((noinline)) void run_receiver(const Host& from, Host& to, Packets& packets, Packets& out, Instant now) {
  hand_over(from, to, packets, now);
  while (take_batch(to, out, now, now) > 0) {
  }
}
}

namespace {

class Path {
 public:
  Path(RecoveryMode mode, std::uint32_t window) : window_(window) {
    make(a_, 1, mode, window);
    make(b_, 2, mode, window);
    connect(a_, b_, PathMtu::k256, now_, /*timeout=*/20);
    connect(b_, a_, PathMtu::k256, now_, /*timeout=*/20);
  }
  void step(std::uint32_t missing_ppm) {
    now_ = now_ + kStepTime;
    post();
    const Instant due = now_ + kStepTime * (std::int64_t{window_} / kStep);
    const std::size_t before = wire_.size();
    for (budget_ += kStep; budget_ > 0;) {
      const std::uint32_t sent = take_batch(a_, wire_, due, now_);
      if (sent == 0) break;
      budget_ -= static_cast<std::int64_t>(sent);
    }
    budget_ = std::min<std::int64_t>(budget_, 0);
    for (std::size_t i = before; i < wire_.size();) {
      if (missing_ppm != 0 && random_.below(1'000'000) < missing_ppm) {
        wire_.erase(wire_.begin() + static_cast<std::ptrdiff_t>(i));
      } else {
        ++i;
      }
    }
    run_receiver(a_, b_, wire_, back_, now_);
    run_sender(b_, a_, back_, now_);
  }
  [[nodiscard]] std::uint64_t of_sender(Counter counter) const { return a_.statistics.get(counter); }
  [[nodiscard]] std::uint64_t of_receiver(Counter counter) const { return b_.statistics.get(counter); }

 private:
  void post() {
    Completion taken[64];
    for (std::size_t n; (n = a_.engine->poll_cq(a_.cq, taken)) > 0; completed_ += n) {
      for (std::size_t i = 0; i < n; ++i)
        if (taken[i].status != CompletionStatus::kSuccess) std::abort();
    }
    const std::uint64_t wanted = std::min<std::uint64_t>(1000, 16 + std::uint64_t{window_} * 4 / (kMessageBytes / 256));
    const Sge sge{a_.at(), kMessageBytes, a_.key};
    for (; posted_ - completed_ < wanted; ++posted_) {
      const SendRequest request{.wr_id = posted_,
                                .sges = {&sge, 1},
                                .opcode = WorkOpcode::kRdmaWrite,
                                .flags = kSendSignaled,
                                .remote_address = b_.at(),
                                .rkey = b_.key};
      if (!a_.engine->post_send(a_.qp, request, now_).ok()) std::abort();
    }
  }

  Host a_, b_;
  Packets wire_, back_;
  std::uint32_t window_;
  std::int64_t budget_ = 0;
  std::uint64_t posted_ = 0, completed_ = 0;
  Instant now_ = Instant::from_ns(1'000'000'000);
  Random random_{1, "missing"};
};

RecoveryMode mode_of(const char* name) {
  if (std::strcmp(name, "bitmap") == 0) return RecoveryMode::kBitmap;
  if (std::strcmp(name, "selective") == 0) return RecoveryMode::kSelective;
  if (std::strcmp(name, "wan") == 0) return RecoveryMode::kWan;
  if (std::strcmp(name, "wan_ffm") == 0) return RecoveryMode::kWanFeedback;
  std::fprintf(stderr, "no such policy: %s\n", name);
  std::exit(2);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: ack_bench WINDOW POLICY MISSING_PERCENT\n");
    return 2;
  }
  const auto window = static_cast<std::uint32_t>(std::strtoul(argv[1], nullptr, 10));
  const auto ppm = static_cast<std::uint32_t>(std::strtod(argv[3], nullptr) * 10'000);
  Path path{mode_of(argv[2]), window};
  const std::uint32_t trip = window / kStep;  // steps
  for (std::uint32_t i = 0; i < 2 * trip + 64; ++i) path.step(0);
  for (std::uint32_t i = 0; i < 3 * trip + 64; ++i) path.step(ppm);
  const std::uint64_t taken = path.of_sender(Counter::kAcksReceived), got = path.of_receiver(Counter::kAcceptedPackets);
  const std::uint64_t again = path.of_sender(Counter::kSentDataPackets);
  CALLGRIND_START_INSTRUMENTATION;
  for (std::uint32_t i = 0; i < kMeasuredSteps; ++i) path.step(ppm);
  CALLGRIND_STOP_INSTRUMENTATION;
  std::printf("%s\t%s\t%s\t%llu\t%llu\t%llu\n", argv[1], argv[2], argv[3],
              static_cast<unsigned long long>(path.of_sender(Counter::kAcksReceived) - taken),
              static_cast<unsigned long long>(path.of_receiver(Counter::kAcceptedPackets) - got),
              static_cast<unsigned long long>(path.of_sender(Counter::kSentDataPackets) - again));
  return 0;
}
