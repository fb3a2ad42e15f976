// sim/controller/controlled_world.h - two sites of a simulated world, a short and a long path between them, and a
// controller at the first site. It receives reports from all switches and sends them routes; each message takes its
// time.
//
//   h1 - s1 - a - s2 - h2      the short path
//           - b -              half as long again
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "fabric/controller/controller.h"
#include "sim/world.h"

namespace brdma::test {

struct ControlledWorldConfig {
  Duration delay = 10_ms;  // one way, site to site
  std::uint64_t rate_bps = 1'000'000'000;
  std::uint32_t window = 4096;
  RecoveryConfig recovery{};
  fabric::controller::Settings controller{};
  std::uint64_t seed = 1;
};

class ControlledWorld {
 public:
  static constexpr std::size_t kS1 = 0, kA = 1, kB = 2, kS2 = 3;
  explicit ControlledWorld(const ControlledWorldConfig& config);

  void cut();                          // s1 - a
  void slow_down(std::uint32_t part);  // s1 - a, both directions: to this fraction of its rate

  [[nodiscard]] sim::World& world() { return world_; }
  [[nodiscard]] std::string network() const;  // fabric/network.h: network_text of the short path's links
  [[nodiscard]] sim::Host& host(std::size_t number) { return *hosts_[number]; }
  [[nodiscard]] const fabric::controller::Controller& controller() const { return controller_; }
  // Since the start of the world: the first report to the controller that a link is down or congested; the installation
  // of the last routes that it has sent so far.
  [[nodiscard]] std::optional<Instant> told_at() const { return told_at_; }
  [[nodiscard]] std::optional<Instant> installed_at() const { return installed_at_; }
  // Packets that both paths lost: by the cut, and by full queues.
  [[nodiscard]] std::uint64_t lost() const;

 private:
  fabric::LinkConfig link(Duration delay, std::uint64_t rate_bps) const;
  void join(std::size_t from, std::size_t to, Duration delay);
  void greet();
  void to_controller(std::size_t from, std::function<void()> what);
  void tell_links(std::size_t from);
  void tell_links_later();
  void act();
  void install(const fabric::controller::InstallRoutes& order);

  ControlledWorldConfig config_;
  sim::World world_;
  sim::RoutedNetwork* network_ = nullptr;
  std::array<sim::Host*, 2> hosts_{};
  std::array<sim::RouterNode*, 4> routers_{};
  std::array<Duration, 4> distance_{};  // from the controller
  struct Join {
    std::size_t from, to;
    Duration delay;
  };
  std::vector<Join> joins_;
  fabric::controller::Controller controller_;
  std::optional<Instant> told_at_, installed_at_, timer_at_;
  bool disturbed_ = false;
};

}  // namespace brdma::test
