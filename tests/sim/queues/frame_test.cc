// Frames of models (sim/station.h) in a routed world: their size on links, notices of drops, flipped bits.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "fabric/routing/ip_header.h"
#include "sim/world.h"

namespace brdma::test {
namespace {

// Sends what it is given, keeps what arrives.
class Recorder : public sim::Station {
 public:
  Recorder(sim::PacketPool& pool, const IpAddress& address) : pool_(pool), address_(address) {}
  void send(const IpAddress& to, std::uint32_t bytes, std::uint8_t traffic_class = 0) {
    const sim::PacketIndex index = pool_.take();
    sim::Packet& packet = pool_[index];
    packet.source = address_;
    packet.destination = to;
    packet.source_port = 7;
    packet.traffic_class = traffic_class;
    packet.hop_limit = 64;
    packet.frame_bytes = bytes;
    packet.bytes.assign(3, std::byte{0x5A});
    waiting_.push_back(index);
    changed();
  }
  [[nodiscard]] const IpAddress& address() const override { return address_; }
  void handle_arrival(sim::PacketIndex packet, Instant now) override {
    arrived.push_back(pool_[packet]);
    times.push_back(now);
    pool_.give_back(packet);
  }
  [[nodiscard]] std::optional<Instant> next_wake(Instant now) const override {
    return waiting_.empty() ? std::nullopt : std::optional{now};
  }
  bool run(Instant /*now*/, SendPacket send) override {
    for (const sim::PacketIndex packet : waiting_) send(packet);
    waiting_.clear();
    return true;
  }
  std::vector<sim::Packet> arrived;
  std::vector<Instant> times;

 private:
  sim::PacketPool& pool_;
  IpAddress address_;
  std::vector<sim::PacketIndex> waiting_;
};

class Frames : public testing::Test {
 protected:
  Frames() : network_(world_.route_hosts()), router_(network_.add_router()) { world_.run_only_due(); }
  Recorder& add(std::uint8_t number, const fabric::LinkConfig& down) {
    auto made = std::make_unique<Recorder>(world_.packets(), IpAddress::v4(10, 0, 0, number));
    Recorder& recorder = *made;
    world_.add_station(std::move(made));
    network_.join(recorder, router_, {}, down);
    return recorder;
  }
  static fabric::LinkConfig slow() {
    fabric::LinkConfig config;
    config.rate = Bandwidth::from_bps(1'000'000'000);
    config.queue_bytes = 2500;
    return config;
  }

  sim::World world_{1};
  sim::RoutedNetwork& network_;
  sim::RouterNode& router_;
};

TEST_F(Frames, TakeTheTimeOfTheirSizeNotOfTheirBytes) {
  Recorder &from = add(1, {}), &to = add(2, slow());
  from.send(to.address(), 1250);
  ASSERT_TRUE(world_.run_until_idle(1_s));
  ASSERT_EQ(to.arrived.size(), 1u);
  EXPECT_EQ(to.times[0], Instant::from_ns(10'000));
  EXPECT_EQ(to.arrived[0].bytes.size(), 3u);
  EXPECT_EQ(network_.counters().bytes, 2u * 1250);
  EXPECT_EQ(world_.packets().in_use(), 0u);
}

TEST_F(Frames, DropsAreReportedByTheRouter) {
  Recorder &from = add(1, {}), &to = add(2, slow());
  network_.notify_frame_drops([this](const sim::Packet& frame, Instant) -> std::optional<sim::PacketIndex> {
    const sim::PacketIndex index = world_.packets().take();
    sim::Packet& notice = world_.packets()[index];
    notice = frame;
    std::swap(notice.source, notice.destination);
    notice.frame_bytes = 64;
    return index;
  });
  for (int i = 0; i < 5; ++i) from.send(to.address(), 1250);
  ASSERT_TRUE(world_.run_until_idle(1_s));
  EXPECT_EQ(to.arrived.size(), 2u);    // 2500 bytes of queue
  EXPECT_EQ(from.arrived.size(), 3u);  // notices of the others
  EXPECT_EQ(from.arrived[0].frame_bytes, 64u);
  EXPECT_EQ(world_.packets().in_use(), 0u);
}

TEST_F(Frames, MarksAndFlippedBitsAreSeenAndBytesStay) {
  fabric::LinkConfig marking = slow();
  marking.marking = fabric::MarkingConfig{.low = 1, .high = 1, .chance_ppm = 1'000'000};
  marking.queue_bytes = 1u << 20;
  marking.impairments.corrupt_ppm = 1'000'000;
  Recorder &from = add(1, {}), &to = add(2, marking);
  for (int i = 0; i < 2; ++i) from.send(to.address(), 1250, 2);  // ECT(0)
  ASSERT_TRUE(world_.run_until_idle(1_s));
  ASSERT_EQ(to.arrived.size(), 2u);
  EXPECT_EQ(fabric::ecn_of(to.arrived[0].traffic_class), 2);
  EXPECT_EQ(fabric::ecn_of(to.arrived[1].traffic_class), fabric::kCongested);
  for (const sim::Packet& packet : to.arrived) {
    EXPECT_TRUE(packet.spoilt);
    EXPECT_EQ(packet.bytes, std::vector<std::byte>(3, std::byte{0x5A}));
  }
}

}  // namespace
}  // namespace brdma::test
