// brdma-switch/controller_agent.h - sessions of a topology's switches with a controller (docs/wan.md), one each: tells
// what is installed and how the links are, says at once when a port is beyond its limits (active feedback, spec 3), and
// installs the routes that come. Without a session the switches go on as they are.
//
// A thread of its own; it looks into the data loop for some microseconds, fifty times a second.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "controller-session/key_file.h"
#include "controller-session/member.h"
#include "data_loop.h"
#include "routed_core.h"

namespace brdma::lab {

class ControllerAgent {
 public:
  // `core` is the loop's. `keys`: one of each switch's name, or "*". Throws std::runtime_error, std::invalid_argument.
  ControllerAgent(DataLoop& loop, RoutedCore& core, const std::string& controller, const session::Keys& keys);
  ~ControllerAgent();

 private:
  struct Port {
    std::string name;
    std::uint32_t link = 0;
    bool to_host = false;
    // As of the last looks.
    bool up = true, over = false;
    std::uint64_t rate = 0, queue_limit = 0, drops = 0;  // bytes a second, bytes, packets
    std::uint64_t queue = 0;                             // smoothed
    std::uint64_t bytes = 0, bytes_reported = 0;         // that left, all in all
    std::uint64_t load = 0, speed = 0;                   // of the time before the last report
    bool waited = false;                                 // packets did, at every look since then
    Instant said;                                        // the last active feedback
  };
  struct Switch {
    std::uint32_t at = 0;
    std::string name;
    std::vector<Port> ports;
    std::uint64_t epoch = 0;
    std::unique_ptr<session::Member> member;
  };

  void look_later();
  void look();
  void look_at(Switch& one);  // in the loop's thread
  void measure(Switch& one, Duration since_last);
  void report(Switch& one);
  void tell_if_over(Switch& one, Port& port, Instant now);
  [[nodiscard]] fabric::controller::PortReport report_of(const Port& port) const;
  [[nodiscard]] std::vector<fabric::controller::FlowEnds> flows_through(const Switch& one, const Port& port);
  [[nodiscard]] session::Message greeting(Switch& one);
  void received(Switch& one, const session::Message& message);
  [[nodiscard]] bool install(Switch& one, const session::Routes& routes);

  DataLoop& loop_;
  RoutedCore& core_;
  boost::asio::io_context context_{1};
  boost::asio::steady_timer timer_;
  std::vector<std::unique_ptr<Switch>> switches_;
  Instant reported_;
  bool urgent_ = false;  // a link went down or came up
  std::thread thread_;
};

}  // namespace brdma::lab
