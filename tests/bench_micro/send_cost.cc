// Cost of turns and rate at the sender, in instructions: queue pairs towards a peer that does not acknowledge, batch by
// batch, until so many packets have left. For callgrind:
//   valgrind --tool=callgrind --toggle-collect='*run_batches*' build/bin/send_cost QUEUE_PAIRS CONTROL BYTES
//   CONTROL: window, timely, dcqcn, both, paced;  BYTES: of each WRITE, path MTU 4096
// Prints how many packets left; divide by that.
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "device/engine.h"

namespace {

using namespace brdma;  // a program, no header

constexpr std::uint32_t kPackets = 20'000;
constexpr std::size_t kMemory = 1u << 20;

CongestionControl control_of(const std::string& name) {
  constexpr const char* kNames[] = {"window", "timely", "dcqcn", "none", "paced", "both"};
  for (std::size_t i = 0; i < std::size(kNames); ++i) {
    if (name == kNames[i]) return static_cast<CongestionControl>(i);
  }
  std::fprintf(stderr, "send_cost QUEUE_PAIRS window|timely|dcqcn|both|paced BYTES\n");
  std::exit(2);
}

// Standard mode: no negotiation, and as many packets as the window may be in flight.
EngineConfig config_of(CongestionControl control) {
  EngineConfig config;
  config.recovery.mode = RecoveryMode::kStandard;
  config.recovery.window_packets = 1u << 15;
  config.recovery.standard_window_packets = 1u << 15;
  config.recovery.congestion.control = control;
  config.recovery.congestion.rate_first_mbps = config.recovery.congestion.rate_max_mbps = 100'000;
  config.transfer.threshold_bytes = 0;
  config.segments_max = 64;
  return config;
}

QueuePair* connected(Engine& engine, ProtectionDomain* pd, CompletionQueue* cq, std::uint32_t requests, Instant now) {
  QpCreate create;
  create.pd = pd;
  create.send_cq = create.receive_cq = cq;
  create.capabilities = {.send_wr_max = requests, .receive_wr_max = 1, .send_sge_max = 1, .receive_sge_max = 1};
  QueuePair* const qp = engine.create_qp(create).value();
  QpAttributes to;
  to.path_mtu = PathMtu::k4096;
  to.destination_qpn = engine.qp_num(qp);
  to.local_address = IpAddress::v4(10, 0, 0, 1);
  to.peer_address = IpAddress::v4(10, 0, 0, 2);
  const auto move = [&](QpState state, std::uint32_t mask) {
    to.state = state;
    if (!engine.modify_qp(qp, to, mask | kQpAttrState, now).ok()) std::abort();
  };
  move(QpState::kInit, kQpAttrPkeyIndex | kQpAttrPort | kQpAttrAccess);
  move(QpState::kRtr,
       kQpAttrAv | kQpAttrPathMtu | kQpAttrDestQpn | kQpAttrRqPsn | kQpAttrMaxDestRdAtomic | kQpAttrMinRnrTimer);
  move(QpState::kRts, kQpAttrTimeout | kQpAttrRetryCount | kQpAttrRnrRetry | kQpAttrSqPsn | kQpAttrMaxRdAtomic);
  return qp;
}

// Time advances by the duration of a batch at the rate.
[[gnu::noinline]] std::uint64_t run_batches(Engine& engine, TransmitBuffer& buffer, Instant now) {
  std::uint64_t packets = 0;
  Transmit out;
  while (packets < kPackets) {
    engine.handle_timeout(now);
    if (engine.poll_transmit(buffer, out, now)) packets += out.segments;
    now = now + 6_us;
  }
  return packets;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) control_of("");
  const auto pairs = static_cast<std::uint32_t>(std::strtoul(argv[1], nullptr, 10));
  const auto bytes = static_cast<std::uint32_t>(std::strtoul(argv[3], nullptr, 10));
  const Instant now = Instant::from_ns(1'000'000);
  Statistics statistics;
  Engine engine{config_of(control_of(argv[2])), statistics, nullptr};
  std::vector<std::byte> memory(kMemory, std::byte{0x5A});
  const auto at = reinterpret_cast<std::uint64_t>(memory.data());
  ProtectionDomain* const pd = engine.alloc_pd();
  CompletionQueue* const cq = engine.create_cq(64, nullptr).value();
  MemoryRegion* const region = engine.register_memory(pd, at, kMemory, at, kAccessLocalWrite).value();
  const Sge sge{at, bytes, engine.info(region).lkey};
  SendRequest request;
  request.sges = {&sge, 1};
  request.opcode = WorkOpcode::kRdmaWrite;
  request.remote_address = 0x1000;
  const std::uint32_t each = (bytes + 4095) / 4096, requests = kPackets / each / pairs * 5 / 4 + 64;
  for (std::uint32_t i = 0; i < pairs; ++i) {
    QueuePair* const qp = connected(engine, pd, cq, requests, now);
    for (std::uint32_t k = 0; k < requests; ++k) {
      if (!engine.post_send(qp, request, now).ok()) std::abort();
    }
  }
  const auto buffer = std::make_unique<TransmitBuffer>();
  std::printf("%llu packets\n", static_cast<unsigned long long>(run_batches(engine, *buffer, now)));
  return 0;
}
