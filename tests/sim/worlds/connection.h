// sim/worlds/connection.h - one queue pair on each of two hosts, their traffic, and their checkers.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/units.h"
#include "support/arena.h"
#include "support/endpoint.h"
#include "support/flight_checker.h"
#include "support/traffic.h"
#include "worlds/copy_counter.h"
#include "worlds/world_settings.h"

namespace brdma::test {

class Connection {
 public:
  // Plans the traffic. `number`: its arenas get addresses of their own.
  Connection(sim::World& world, const ConnectionSettings& settings, Sides<sim::Host*> hosts, std::uint64_t number);

  // Connects; work is posted at once, or in bursts with idle times within `faults_last`. Late receives cause RNR NAKs.
  void begin(Duration faults_last);
  [[nodiscard]] bool begun() const { return begun_; }

  // One of its hosts has crashed, and restarts without it.
  void crash(const sim::Host& host);
  void progress();
  [[nodiscard]] bool done() const;
  // After the end: memory; then both sides destroy their objects.
  void check_end();
  [[nodiscard]] bool found() const;
  [[nodiscard]] std::vector<std::string> findings() const;
  [[nodiscard]] std::string state() const;  // progress

  // FlightChecker::needless() of that host as the requester; `example`: the first, if there is one.
  [[nodiscard]] std::uint64_t needless(const sim::Host& by, std::string& example) const;
  [[nodiscard]] CopyCounter::Counts copies() const;  // of both directions

  [[nodiscard]] const ConnectionSettings& settings() const { return settings_; }
  [[nodiscard]] Endpoint& endpoint(std::size_t side) { return *endpoints_[side]; }
  [[nodiscard]] Arena& arena(std::size_t side) { return *arenas_[side]; }
  [[nodiscard]] const Traffic& traffic(std::size_t side) const { return traffic_[side]; }
  [[nodiscard]] bool crashed() const { return crashed_; }

 private:
  void schedule_work(Endpoint& endpoint, std::size_t operations, std::size_t receives, Duration within);
  template <class Allow>
  void release(std::size_t total, Duration within, const Allow& allow);

  sim::World& world_;
  const ConnectionSettings& settings_;
  Sides<sim::Host*> hosts_;
  Random random_;
  Sides<std::unique_ptr<Arena>> arenas_;
  Sides<Traffic> traffic_;
  Sides<std::unique_ptr<Endpoint>> endpoints_;
  Sides<std::unique_ptr<FlightChecker>> flights_;
  Sides<std::unique_ptr<CopyCounter>> copies_;
  bool begun_ = false, crashed_ = false;
};

}  // namespace brdma::test
