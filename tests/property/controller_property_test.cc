// A controller over random networks, loads, cuts, lost sessions, late answers and its own failure, with its map
// configured or only from what switches report: packets never find a loop, whichever orders have arrived; unforced
// changes stay few; and once all is calm, every switch that can reach a destination does.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "../support/controlled_network.h"
#include "../support/seeds.h"

namespace brdma::test {
namespace {

constexpr std::uint64_t kRate = 125'000'000;

class World {
 public:
  // `configured`: the controller begins with the map. Otherwise it begins with none, which grows by every switch.
  World(Random& random, bool configured)
      : random_(random),
        configured_(configured),
        map_(draw_map(random)),
        network_(configured ? ControlledNetwork{map_, settings(), Instant{}}
                            : ControlledNetwork{ControlledNetwork::NothingConfigured{}, map_, settings(), Instant{}}) {
    for (std::size_t i = 0; i < map_.links().size(); i += 2) up_.push_back(true);
  }

  void run() {
    for (int step = 0; step < 400 && !testing::Test::HasFailure(); ++step) {
      now_ = now_ + Duration::from_ns(static_cast<std::int64_t>(random_.below(200'000'000)));
      network_.pass(now_);
      one_step();
      expect_no_loop();
    }
    expect_few_changes();
    calm_down();
  }

 private:
  static ctl::Settings settings() {
    ctl::Settings settings;
    settings.settle = 300_ms;
    return settings;
  }
  // A ring, so that all are joined, and some links across.
  static ctl::NetworkMap draw_map(Random& random) {
    ctl::NetworkMap map;
    const std::uint64_t switches = 3 + random.below(7);
    const auto link = [&](std::uint64_t a, std::uint64_t b, std::uint64_t number) {
      const std::string port = "p" + std::to_string(number);
      EXPECT_TRUE(
          map.add_link({"s" + std::to_string(a), port}, {"s" + std::to_string(b), port},
                       {Bandwidth{}, Duration::from_ns(static_cast<std::int64_t>(1 + random.below(50)) * 1'000'000)}));
    };
    std::uint64_t number = 0;
    for (std::uint64_t i = 0; i < switches; ++i) link(i, (i + 1) % switches, number++);
    for (std::uint64_t i = random.below(2 * switches); i > 0; --i) {
      const std::uint64_t a = random.below(switches), b = random.below(switches);
      if (a != b) link(a, b, number++);
    }
    for (std::uint64_t i = 1 + random.below(3); i > 0; --i) {
      const std::uint64_t places = 1 + random.below(2);
      for (std::uint64_t j = 0; j < places; ++j) {
        EXPECT_TRUE(map.add_prefix(site(static_cast<std::uint8_t>(i)), "s" + std::to_string(random.below(switches))));
      }
    }
    return map;
  }

  const std::string& any_switch() { return network_.switches()[random_.below(network_.switches().size())]; }

  void one_step() {
    const std::string& id = any_switch();
    switch (random_.below(12)) {
      case 0:
        if (network_.connected(id)) network_.disconnect(id, random_.below(3), now_);
        break;
      case 1:
      case 2:
        if (!network_.connected(id)) network_.connect(id, now_);
        break;
      case 3:
        flip_link();
        break;
      case 4:
        if (random_.below(20) == 0) network_.restart_controller(configured_ ? map_ : ctl::NetworkMap{}, now_);
        break;
      case 5:
      case 6:
      case 7:
        report(id);
        break;
      default:
        if (random_.below(2) == 0) {
          network_.deliver(id, random_.below(20) == 0);
        } else if (network_.connected(id)) {
          network_.acknowledge(id, now_);
        }
    }
  }

  void flip_link() {
    const std::size_t cable = random_.below(up_.size());
    up_[cable] = !up_[cable];
    for (const std::size_t link : {2 * cable, 2 * cable + 1}) report_port(static_cast<ctl::LinkIndex>(link));
  }
  void report(const std::string& id) {
    for (ctl::LinkIndex i = 0; i < map_.links().size(); ++i) {
      if (network_.switches()[map_.links()[i].from] == id) report_port(i);
    }
  }
  void report_port(ctl::LinkIndex index) {
    const ctl::Link& link = map_.links()[index];
    const std::string& id = network_.switches()[link.from];
    if (!network_.connected(id)) return;
    const bool full = !calm_ && random_.below(4) == 0;
    const ctl::LinkReport report{up_[index / 2],   kRate, kRate, calm_ ? 0 : random_.below(kRate),
                                 full ? 900u : 0u, 1000,  0};
    if (full && random_.below(2) == 0) {
      network_.controller().handle_active(id, {link.port, report}, {}, now_);
    } else {
      network_.controller().handle_links(id, {{link.port, report}}, now_);
    }
    network_.collect();
  }

  void expect_no_loop() {
    for (ctl::PrefixIndex prefix = 0; prefix < map_.prefixes().size(); ++prefix) {
      ASSERT_FALSE(network_.loops(prefix)) << "prefix " << prefix << " at " << now_.ns() << " ns";
    }
  }
  // A prefix improves at most once in a dwell (1 s), and each improvement soon after another doubles the wait.
  void expect_few_changes() {
    const std::uint64_t seconds = static_cast<std::uint64_t>(now_.ns() / 1'000'000'000) + 1;
    EXPECT_LE(network_.controller().counters().improvements, seconds * map_.prefixes().size());
  }

  void calm_down() {
    calm_ = true;
    for (std::size_t i = 0; i < up_.size(); ++i) up_[i] = true;
    for (const std::string& id : network_.switches()) {
      if (network_.connected(id)) network_.disconnect(id, 0, now_);
    }
    for (const std::string& id : network_.switches()) network_.connect(id, now_);
    for (const std::string& id : network_.switches()) report(id);
    network_.settle(now_);
    network_.pass_settled(now_ + 300_s);
    for (ctl::PrefixIndex prefix = 0; prefix < map_.prefixes().size(); ++prefix) {
      for (ctl::SwitchIndex i = 0; i < network_.switches().size(); ++i) {
        if (map_.attached(prefix, i)) continue;
        EXPECT_NE(network_.ways(network_.switches()[i], map_.prefixes()[prefix]), "-") << network_.switches()[i];
      }
      EXPECT_FALSE(network_.controller().changing(prefix));
    }
    expect_no_loop();
    EXPECT_EQ(network_.controller().congested_links(), 0u);
  }

  Random& random_;
  bool configured_;
  ctl::NetworkMap map_;
  ControlledNetwork network_;
  Instant now_;
  std::vector<bool> up_;  // of each cable
  bool calm_ = false;
};

TEST(ControllerProperty, NoLoopsFewChangesAndAWayForAllInTheEnd) {
  for_each_seed(300, [](Random& random) { World{random, true}.run(); });
}
TEST(ControllerProperty, TheSameWhereTheMapGrowsDuringChanges) {
  for_each_seed(300, [](Random& random) { World{random, false}.run(); });
}

}  // namespace
}  // namespace brdma::test
