// The switch learns, floods and forwards; faults and delay are met once between two hosts, the rate on both links.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "fabric/switch/switch.h"

namespace brdma::fabric {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr Instant at(Duration since_start) { return Instant::from_ns(1'000'000'000) + since_start; }
constexpr MacAddress kBroadcast = 0xFFFF'FFFF'FFFF;
constexpr MacAddress mac(std::uint32_t host) { return 0x0200'0A4D'0000 + host; }

struct Owner {
  std::optional<int> duplicate(const int& packet) {
    ++alive;
    return packet;
  }
  void corrupt(int& packet, std::uint64_t) { packet = -packet; }
  void discard(int) { --alive; }
  void dropped(const int&, Duration drain, Instant) { drains.push_back(drain); }
  int alive = 0;
  std::vector<Duration> drains{};
};

class SwitchTest : public testing::Test {
 protected:
  void send(std::uint32_t from, MacAddress to, int packet, Duration when = 0_us, FrameKind kind = FrameKind::kRoce,
            std::uint32_t bytes = 1000) {
    ++owner.alive;
    fabric.handle_packet(from, packet, {.destination = to, .source = mac(from), .kind = kind}, bytes, at(when), owner);
  }
  std::vector<int> receive(std::uint32_t port, Duration when = 0_us) {
    fabric.handle_timeout(at(when), owner);
    std::vector<int> out;
    while (const auto packet = fabric.poll(port, at(when), owner)) {
      --owner.alive;
      out.push_back(*packet);
    }
    return out;
  }
  void configure(std::string_view option, std::string_view value) {
    NetworkConfig config = fabric.config();
    ASSERT_EQ(set_option(config, option, value), std::nullopt);
    fabric.configure(config);
  }
  void learn_all() {
    for (std::uint32_t host = 0; host < 3; ++host) send(host, kBroadcast, 0);
    for (std::uint32_t host = 0; host < 3; ++host) (void)receive(host);
  }

  std::vector<std::string> names{"h1", "h2", "h3"};
  Owner owner;
  Switch<int> fabric{names, NetworkConfig{}};
};

TEST_F(SwitchTest, UnknownAndBroadcastAreFloodedAndKnownIsNot) {
  send(0, mac(1), 1);
  EXPECT_THAT(receive(0), IsEmpty());
  EXPECT_THAT(receive(1), ElementsAre(1));
  EXPECT_THAT(receive(2), ElementsAre(1));
  send(1, mac(0), 2);  // now host 0 is known
  EXPECT_THAT(receive(0), ElementsAre(2));
  EXPECT_THAT(receive(2), IsEmpty());
  send(0, kBroadcast, 3, 0_us, FrameKind::kControl);
  EXPECT_THAT(receive(1), ElementsAre(3));
  EXPECT_THAT(receive(2), ElementsAre(3));
  EXPECT_EQ(owner.alive, 0);
}

TEST_F(SwitchTest, AHostThatMovesIsLearnedAgain) {
  send(0, kBroadcast, 1);
  fabric.handle_packet(2, 2, {.destination = kBroadcast, .source = mac(0)}, 100, at(0_us), owner);
  (void)receive(0), (void)receive(1), (void)receive(2);
  send(1, mac(0), 3);
  EXPECT_THAT(receive(2), ElementsAre(3));
  EXPECT_THAT(receive(0), IsEmpty());
}

TEST_F(SwitchTest, DelayAndLossAreMetOnce) {
  send(1, kBroadcast, 0);
  (void)receive(0), (void)receive(2);
  configure("delay", "50us");
  send(0, mac(1), 1);
  EXPECT_EQ(fabric.next_timeout(), at(50_us));
  EXPECT_THAT(receive(1, 50_us), ElementsAre(1));
  configure("loss", "10%");
  for (int i = 0; i < 10'000; ++i) send(0, mac(1), i, 100_us);
  EXPECT_NEAR(static_cast<double>(receive(1, 150_us).size()), 9'000, 150);
  EXPECT_EQ(owner.alive, 0);
}

// tests design WT-8
TEST_F(SwitchTest, ItsOwnRateIsOfAllPortsTogether) {
  learn_all();
  configure("switch-rate", "100kpps");
  const auto kRoom = static_cast<int>(Processor<int>::kWaitingMax);
  send(0, mac(1), 1);
  send(2, mac(1), 2);
  send(1, mac(2), 3);
  EXPECT_EQ(fabric.next_timeout(), at(10_us));
  EXPECT_THAT(receive(1, 20_us - kTick), ElementsAre(1));
  EXPECT_THAT(receive(1, 20_us), ElementsAre(2));
  EXPECT_THAT(receive(2, 30_us), ElementsAre(3));
  for (int i = 0; i < kRoom + 5; ++i) send(0, mac(1), i, 1_ms);
  EXPECT_EQ(fabric.processing().dropped, 5u);
  EXPECT_EQ(owner.drains, std::vector<Duration>(5, 10_us * kRoom)) << "reported like those of a full queue";
  configure("switch-rate", "off");
  EXPECT_EQ(receive(1, 1_s).size(), static_cast<std::size_t>(kRoom));
  send(0, mac(1), 7, 1_s);
  EXPECT_THAT(receive(1, 1_s), ElementsAre(7));
  EXPECT_EQ(owner.alive, 0);
}

TEST_F(SwitchTest, RateHoldsOnBothLinks) {
  send(1, kBroadcast, 0);
  (void)receive(0), (void)receive(2);
  configure("rate", "8gbit");  // a byte a nanosecond
  configure("queue", "4kb");
  send(0, mac(1), 1);
  send(0, mac(1), 2);
  EXPECT_THAT(receive(1, 2_us - 1_ns), IsEmpty());
  EXPECT_THAT(receive(1, 2_us), ElementsAre(1));
  EXPECT_THAT(receive(1, 3_us), ElementsAre(2));
  // Two hosts send to one: each keeps its own rate, the receiver's queue overflows.
  for (int i = 0; i < 40; ++i) {
    send(0, mac(1), 100 + i, 10_us + 1_us * i);
    send(2, mac(1), 200 + i, 10_us + 1_us * i);
    (void)receive(1, 10_us + 1_us * i);
  }
  (void)receive(1, 1_ms);
  EXPECT_EQ(fabric.up_counters(0).queue_dropped, 0u);
  EXPECT_EQ(fabric.up_counters(2).queue_dropped, 0u);
  EXPECT_NEAR(static_cast<double>(fabric.down_counters(1).queue_dropped), 40, 6);
  EXPECT_EQ(owner.alive, 0);
}

// Reporting, marking and sharing memory change no packet's time; the uplink alone decides where a lone sender's packets
// wait.
TEST_F(SwitchTest, FeaturesKeepTheUplinksRate) {
  learn_all();
  configure("rate", "8gbit");  // a byte a nanosecond: a microsecond a packet
  Duration now = 0_us;
  for (const auto& [name, value] : {std::pair{"edn", "off"},
                                    {"edn", "roce"},
                                    {"ecn", "20kb,80kb,10%"},
                                    {"random-drop", "200kb,200kb,10%"},
                                    {"buffer", "1mb"},
                                    {"classes", "2,1"}}) {
    configure(name, value);
    now = now + 1_ms;
    for (int i = 0; i < 3; ++i) send(0, mac(1), i, now);
    EXPECT_THAT(receive(1, now + 2_us - 1_ns), IsEmpty()) << name;
    EXPECT_THAT(receive(1, now + 2_us), ElementsAre(0)) << name;
    EXPECT_THAT(receive(1, now + 4_us), ElementsAre(1, 2)) << name;
    EXPECT_EQ(fabric.queue(1).longest(), 1'000u) << name << ": they wait in the uplink";
  }
  configure("uplink", "off");
  now = now + 1_ms;
  for (int i = 0; i < 3; ++i) send(0, mac(1), i, now);
  EXPECT_THAT(receive(1, now + 1_us), ElementsAre(0));
  EXPECT_THAT(receive(1, now + 3_us), ElementsAre(1, 2));
  EXPECT_EQ(fabric.queue(1).longest(), 3'000u) << "they wait before the receiver's link";
}

TEST_F(SwitchTest, OnlyRoceIsImpairedUnlessAsked) {
  send(1, kBroadcast, 0);
  (void)receive(0), (void)receive(2);
  configure("loss", "100%");
  send(0, mac(1), 1, 0_us, FrameKind::kRoce);
  send(0, mac(1), 2, 0_us, FrameKind::kIp);
  send(0, mac(1), 3, 0_us, FrameKind::kControl);
  EXPECT_THAT(receive(1), ElementsAre(2, 3));
  configure("impair", "all");
  send(0, mac(1), 4, 0_us, FrameKind::kIp);
  send(0, mac(1), 5, 0_us, FrameKind::kControl);
  EXPECT_THAT(receive(1), ElementsAre(5));
}

TEST_F(SwitchTest, TakingTheRateAwayKeepsOrder) {
  send(1, kBroadcast, 0);
  (void)receive(0), (void)receive(2);
  configure("rate", "8mbit");  // a millisecond a packet
  send(0, mac(1), 1);
  configure("rate", "off");
  send(0, mac(1), 2);
  EXPECT_THAT(receive(1, 10_ms), ElementsAre(1, 2));
}

TEST_F(SwitchTest, SourcePortsOfAHostTakeThePathsInTurn) {
  learn_all();
  configure("paths", "3");
  configure("skew", "20us");
  const auto send_from = [&](std::uint32_t host, std::uint16_t port, int packet, FrameKind kind = FrameKind::kRoce) {
    ++owner.alive;
    fabric.handle_packet(host, packet, {.destination = mac(1), .source = mac(host), .kind = kind, .source_port = port},
                         1000, at(0_us), owner);
  };
  send_from(0, 50'000, 1);
  send_from(0, 60'000, 2);
  send_from(2, 60'000, 3);  // another host's: its own first
  send_from(0, 50'000, 4);
  send_from(0, 50'001, 5);
  send_from(0, 50'002, 6);                  // round again
  send_from(0, 60'000, 7, FrameKind::kIp);  // not RoCE
  EXPECT_THAT(receive(1, 0_us), ElementsAre(1, 3, 4, 6, 7));
  EXPECT_THAT(receive(1, 10_us), ElementsAre(2));
  EXPECT_THAT(receive(1, 20_us), ElementsAre(5));
  EXPECT_EQ(fabric.path_counters(1, 2).forwarded, 1u);
  EXPECT_EQ(owner.alive, 0);
}

TEST(PathMap, ManyFlowsAreRememberedAndMoreDoNoHarm) {
  PathMap map;
  for (std::uint16_t port = 1; port <= 1000; ++port) EXPECT_EQ(map.find(mac(1), port), port - 1u);
  for (std::uint16_t port = 1; port <= 1000; ++port) EXPECT_EQ(map.find(mac(1), port), port - 1u);
  EXPECT_EQ(map.find(mac(2), 1), 0u);
  for (std::uint32_t i = 0; i < 100'000; ++i) (void)map.find(mac(i), static_cast<std::uint16_t>(i | 1));
  EXPECT_EQ(map.find(mac(1), 7), 6u);
}

TEST(MacTable, RemembersManyAndFloodsWhatDoesNotFit) {
  MacTable table;
  for (std::uint32_t host = 0; host < 500; ++host) table.learn(mac(host), host);
  std::uint32_t known = 0;
  for (std::uint32_t host = 0; host < 500; ++host) {
    const auto port = table.find(mac(host));
    if (port) {
      EXPECT_EQ(*port, host);
    }
    known += port.has_value();
  }
  EXPECT_GT(known, 490u);
  EXPECT_FALSE(table.find(mac(1000)));
  EXPECT_FALSE(table.find(kBroadcast));
  for (std::uint32_t host = 0; host < 100'000; ++host) table.learn(mac(host), host);  // full: no harm
}

}  // namespace
}  // namespace brdma::fabric
