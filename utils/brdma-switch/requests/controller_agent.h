// brdma-switch/requests/controller_agent.h - sessions of a topology's switches with a controller
// (docs/explanation/wan.md), one each. Reports the installed routes and the state of the links, forwards reports of the
// link-state agents (active feedback, WT-9), and installs received routes. Without a session the switches continue
// unchanged.
//
// Has its own thread, which reads the data loop for some microseconds, five times a second, and when a link changes.
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
#include "datapath/data_loop.h"
#include "forwarding/routed_core.h"

namespace brdma::lab {

class ControllerAgent {
 public:
  // `core` is the loop's. `keys`: one with each switch's name, or "*". Throws std::runtime_error,
  // std::invalid_argument.
  ControllerAgent(DataLoop& loop, RoutedCore& core, const std::string& controller, const session::Keys& keys);
  ~ControllerAgent();

 private:
  struct Port {
    std::string name;
    std::uint32_t link = 0;
    bool to_host = false;
    std::uint64_t bytes = 0, bytes_reported = 0;  // sent, in total; at the last report of all links
    std::uint64_t load = 0;                       // in the period before it, bytes a second
    fabric::controller::LinkReport report;
  };
  struct Switch {
    std::uint32_t at = 0;
    std::string name;
    std::vector<Port> ports;
    std::uint64_t epoch = 0;
    std::unique_ptr<session::Member> member;
  };

  void listen();
  void report_later();
  void report(bool due);      // all links; due: measures their load again
  void look_at(Switch& one);  // in the loop's thread
  void measure(Switch& one, Duration since_last);
  void pass_on(std::uint32_t router, const fabric::ActiveFeedback& feedback);
  [[nodiscard]] session::Message greeting(Switch& one);
  void received(Switch& one, const session::Message& message);
  [[nodiscard]] bool install(Switch& one, const session::Routes& routes);

  DataLoop& loop_;
  RoutedCore& core_;
  boost::asio::io_context context_{1};
  boost::asio::steady_timer timer_;
  std::vector<std::unique_ptr<Switch>> switches_;
  Instant reported_;
  std::thread thread_;
};

}  // namespace brdma::lab
