// qp/state/standard_port.h - the UDP source port by which a standard peer is recognised. It has no token, but usually
// one port. From another port only packets in turn are accepted: none that would wait out of order, and no NAK that
// ends the queue pair. So a forger must hit the one PSN in turn (2^24 tries), or another PSN and the port (2^14 times
// as many). Packets in turn make a new port known.
#pragma once

#include <cstdint>

namespace brdma::qp {

class StandardPort {
 public:
  void forget() { run_ = 0; }
  [[nodiscard]] bool is_known(std::uint16_t port) const { return run_ == kKnownRun && port == port_; }
  // The known port is another one.
  [[nodiscard]] bool differs(std::uint16_t port) const { return run_ == kKnownRun && port != port_; }
  // A packet in turn from this port was accepted.
  void on_in_turn(std::uint16_t port) {
    if (port != port_) run_ = 0;
    if (run_ < kKnownRun) ++run_;
    port_ = port;
  }

 private:
  static constexpr std::uint8_t kKnownRun = 64;  // packets in turn from one port that make it known

  std::uint16_t port_ = 0;  // of the last packet in turn
  std::uint8_t run_ = 0;    // so many in a row came from it, at most kKnownRun
};

}  // namespace brdma::qp
