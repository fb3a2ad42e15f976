// run/loop.h - waits: for sockets, completion events, times and signals, in one thread. And the clock.
#pragma once

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <limits>

namespace brdma::perf {

namespace asio = boost::asio;

constexpr std::int64_t kForever = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kLookTime = 1'000'000;  // ns between looks at TCP connections while a side polls

// ns since any moment.
[[nodiscard]] inline std::int64_t clock_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

class Loop {
 public:
  Loop() : signals_(io_, SIGINT, SIGTERM) {
    signals_.async_wait([this](const boost::system::error_code& error, int) { interrupted_ = !error; });
  }
  [[nodiscard]] asio::io_context& io() { return io_; }
  // The first SIGINT or SIGTERM ends a measurement early, and a server; a second one ends the program at once.
  [[nodiscard]] bool interrupted() const { return interrupted_; }

  void poll() {
    io_.poll();
    after_signal();
  }
  // Handles what comes until done() or `deadline` (of clock_ns). Returns done().
  template <class Done>
  bool run_until(Done done, std::int64_t deadline) {
    while (!done()) {
      if (deadline != kForever && clock_ns() >= deadline) return false;
      if (deadline == kForever) {
        io_.run_one();
      } else {
        io_.run_one_until(std::chrono::steady_clock::time_point{std::chrono::nanoseconds{deadline}});
      }
      after_signal();
    }
    return true;
  }

 private:
  void after_signal() {
    if (interrupted_ && watching_) {
      watching_ = false;
      signals_.clear();
    }
    if (io_.stopped()) io_.restart();
  }
  asio::io_context io_{1};
  asio::signal_set signals_;
  asio::executor_work_guard<asio::io_context::executor_type> work_{io_.get_executor()};
  bool interrupted_ = false, watching_ = true;
};

}  // namespace brdma::perf
