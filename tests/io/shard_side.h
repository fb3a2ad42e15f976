// shard_side.h - one side of two shards that tests drive by hand.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "io/shard/clock.h"
#include "io/shard/shard.h"
#include "test_lease.h"

namespace brdma::io {

// A queue pair on a shard that is driven by hand; it writes the first half of its memory, or the beginning of that, to
// the second half of the peer's.
struct Side {
  static constexpr std::uint32_t kTokenBytes = 8;
  // A busy machine does not release held acknowledgements.
  static constexpr Duration kAckHoldMax = 20_s;

  explicit Side(Lease given, std::uint32_t bytes = kTokenBytes, std::uint32_t requests = 4,
                std::uint16_t destination_port = kRoceUdpPort, Duration ack_hold_max = kAckHoldMax,
                Duration poll_stay_max = 50_us)
      : lease(std::move(given)), half(bytes), memory(std::size_t{2} * bytes) {
    Intake intake{ReceiveSocket{lease.socket_fd, lease.dual_stack}};
    std::vector<TransmitSocket> transmit_sockets;
    transmit_sockets.push_back(TransmitSocket::open({.destination_port = destination_port}).value());
    EngineConfig config;
    config.slot = lease.slot;
    config.slot_bits = lease.slot_bits;
    config.source_ports = {transmit_sockets[0].port()};
    config.segments_max = kSegmentsMax;
    config.recovery.congestion.control = CongestionControl::kNone;  // the tests decide how much leaves
    config.recovery.ack_hold_max = ack_hold_max;
    // Nor does it take the peer, which has no core, for silent.
    config.recovery.probe_timeout_min = config.recovery.retransmit_timeout_min = 20_s;
    shard = std::make_unique<Shard>(config, std::move(intake), std::move(transmit_sockets), *lease.statistics, nullptr,
                                    poll_stay_max);
    Engine& engine = shard->engine();
    ProtectionDomain* pd = engine.alloc_pd();
    cq = engine.create_cq(4 * requests, nullptr).value();
    key =
        engine
            .info(
                engine.register_memory(pd, at(0), memory.size(), at(0), kAccessLocalWrite | kAccessRemoteWrite).value())
            .lkey;
    QpCreate request{
        .pd = pd, .send_cq = cq, .receive_cq = cq, .capabilities = {.send_wr_max = requests, .send_sge_max = 1}};
    qp = engine.create_qp(request).value();
  }
  [[nodiscard]] std::uint64_t at(std::uint64_t offset) const {
    return reinterpret_cast<std::uint64_t>(memory.data()) + offset;
  }
  void connect(const Side& peer, const IpAddress& address = IpAddress::v4(127, 0, 0, 1)) {
    QpAttributes a;
    a.access = kAccessRemoteWrite;
    a.path_mtu = PathMtu::k1024;
    a.destination_qpn = peer.shard->engine().qp_num(peer.qp);
    a.local_address = a.peer_address = address;
    a.timeout = 18;
    a.retry_count = 7;
    const auto move = [&](QpState state, std::uint32_t mask) {
      a.state = state;
      ASSERT_TRUE(shard->engine().modify_qp(qp, a, mask | kQpAttrState, monotonic_now()).ok());
    };
    move(QpState::kInit, kQpAttrPkeyIndex | kQpAttrPort | kQpAttrAccess);
    move(QpState::kRtr,
         kQpAttrAv | kQpAttrPathMtu | kQpAttrDestQpn | kQpAttrRqPsn | kQpAttrMaxDestRdAtomic | kQpAttrMinRnrTimer);
    move(QpState::kRts, kQpAttrTimeout | kQpAttrRetryCount | kQpAttrRnrRetry | kQpAttrSqPsn | kQpAttrMaxRdAtomic);
    shard->settle(monotonic_now());
  }
  void write(const Side& peer, std::byte token) {
    memory[0] = token;
    write(peer, kTokenBytes);
  }
  void write(const Side& peer, std::uint32_t bytes) {
    const Sge sge{at(0), bytes, key};
    const SendRequest request{.sges = {&sge, 1},
                              .opcode = WorkOpcode::kRdmaWrite,
                              .flags = kSendSignaled,
                              .remote_address = peer.at(peer.half),
                              .rkey = peer.key};
    std::size_t posted = 0;
    ASSERT_TRUE(shard->post_send(qp, {&request, 1}, posted).ok());
  }
  bool poll() {
    Completion completion;
    if (shard->poll_cq(cq, {&completion, 1}) == 0) return false;
    EXPECT_EQ(completion.status, CompletionStatus::kSuccess);
    ++completed;
    return true;
  }
  [[nodiscard]] bool agreed() const { return lease.statistics->get(Counter::kBitmapQps) != 0; }
  [[nodiscard]] bool got(std::byte token) const { return memory[half] == token; }
  [[nodiscard]] std::uint64_t acks() const { return lease.statistics->get(Counter::kAcksSent); }

  Lease lease;
  std::uint32_t half;  // bytes
  std::vector<std::byte> memory;
  std::unique_ptr<Shard> shard;
  CompletionQueue* cq = nullptr;
  QueuePair* qp = nullptr;
  std::uint32_t key = 0;
  unsigned completed = 0;
};

}  // namespace brdma::io
