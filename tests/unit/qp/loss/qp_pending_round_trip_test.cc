// The RTT sample of an acknowledgement of everything in flight (qp/loss/ack_fast_path.h): when it waits for the reply,
// when it is applied at once.
#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "qp/loss/ack_fast_path.h"
#include "qp/queues/completion_queue.h"
#include "qp/send/pacing.h"

namespace brdma::qp {
namespace {

// In bitmap mode, PSN 1000 next, 16 s after the clock's start.
struct Sender {
  Sender() {
    config.source_ports = {0xC000};
    identity.state = QpState::kRts;
    identity.qpn = 17;
    identity.pd = memory.alloc_pd();
    identity.send_cq = &cq;
    identity.attributes.path_mtu = PathMtu::k1024;
    identity.bitmap_agreed = true;
    identity.peer_credit = {10'000, 1u << 30};
    identity.peer_window = 10'000;
    requester.start(Psn{1000});
    const auto address = reinterpret_cast<std::uintptr_t>(bytes.data());
    key = memory.add(identity.pd, address, bytes.size(), address, 0).value()->key;
  }
  void write() {
    const Sge sge{.address = reinterpret_cast<std::uintptr_t>(bytes.data()), .length = 64, .lkey = key};
    const SendRequest request{.sges = {&sge, 1}, .opcode = WorkOpcode::kRdmaWrite};
    std::size_t posted = 0;
    EXPECT_TRUE(requester.post_send({&request, 1}, posted).ok());
    TransmitBatch batch(*buffer, config);
    batch.begin({.source = IpAddress::v4(10, 0, 0, 1), .destination = IpAddress::v4(10, 0, 0, 2)});
    EXPECT_TRUE(impl().transmit_single(batch, 0, now)) << "which applies no sample";
    sent = now;
  }
  // The acknowledgement of the WRITE comes so much later than it left.
  void acknowledge_after(Duration round_trip) {
    now = sent + round_trip;
    CumulativeAck ack;
    ack.base = impl().scoreboard.next_psn();
    ack.credit_packets = 10'000;
    ack.credit_bytes = 1u << 30;
    ack.ts_echo = wire::timestamp_of(sent);
    ack.echo_valid = true;
    ASSERT_TRUE(impl().cumulative_acks().acknowledges_all(ack));
    impl().on_cumulative_ack(ack, now);
  }
  void write_and_acknowledge(Duration round_trip) {
    write();
    acknowledge_after(round_trip);
  }
  [[nodiscard]] bool waits() const { return environment.round_trip.requester != nullptr; }
  [[nodiscard]] const recovery::RttEstimator& rtt() { return impl().path.rtt; }
  Requester::Impl& impl() { return requester.impl(); }
  static Identity of(const RecoveryConfig& recovery) {
    Identity made;
    made.recovery = &recovery;
    made.capabilities = {.send_wr_max = 4, .send_sge_max = 1};
    return made;
  }

  EngineConfig config;
  memory::MemoryTable memory{SecretRandom{1, "keys"}};
  Statistics statistics;
  Environment environment{.config = config, .memory = memory, .telemetry = {.statistics = statistics}};
  RecoveryConfig recovery;
  Identity identity = of(recovery);
  CompletionQueue cq{16, nullptr};
  Requester requester{environment, identity};
  std::vector<std::byte> bytes = std::vector<std::byte>(64);
  std::uint32_t key = 0;
  std::unique_ptr<TransmitBuffer> buffer = std::make_unique<TransmitBuffer>();
  Instant now = Instant{} + 16_s, sent;
};

TEST(PendingRoundTrip, OnAShortPathItWaitsUntilTheStateIsRead) {
  for (const Duration length : {200_us, 201_us}) {
    Sender sender;
    sender.write_and_acknowledge(length);
    EXPECT_EQ(sender.waits(), length == 200_us);
    EXPECT_EQ(sender.rtt().has_sample(), length != 200_us);
    EXPECT_EQ(sender.requester.parts().path.rtt.smoothed(), length);
    EXPECT_FALSE(sender.waits());
  }
}

TEST(PendingRoundTrip, ARateGetsItAtOnce) {
  Sender sender;
  sender.write();
  sender.recovery.congestion.control = CongestionControl::kTimely;
  sender.impl().sending_rate().configure();
  ASSERT_TRUE(has_signals(sender.impl().path.signals, sender.recovery.wan));
  sender.acknowledge_after(20_us);
  EXPECT_FALSE(sender.waits());
  EXPECT_TRUE(sender.rtt().has_sample());
}

TEST(PendingRoundTrip, ItDecidesWhatATimeoutWasAtOnce) {
  Sender sender;
  sender.write();
  sender.impl().timers.add_undecided(1, sender.now);
  sender.acknowledge_after(20_us);
  EXPECT_FALSE(sender.waits());
  EXPECT_TRUE(sender.rtt().has_sample());
}

TEST(PendingRoundTrip, TheNextOneAppliesTheOneBeforeIt) {
  Sender sender;
  sender.write_and_acknowledge(20_us);
  sender.write_and_acknowledge(60_us);
  EXPECT_TRUE(sender.waits());
  EXPECT_EQ(sender.rtt().smoothed(), 20_us) << "the first";
  EXPECT_EQ(sender.requester.parts().path.congestion.base_rtt(), 20_us);
  EXPECT_GT(sender.rtt().smoothed(), 20_us) << "both";
}

TEST(PendingRoundTrip, AnImpossibleOneIsNone) {
  Sender sender;
  sender.write_and_acknowledge(Duration{});
  EXPECT_FALSE(sender.waits());
  EXPECT_FALSE(sender.requester.parts().path.rtt.has_sample());
}

}  // namespace
}  // namespace brdma::qp
