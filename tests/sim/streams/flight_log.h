// sim/streams/flight_log.h - the fate of each packet of one stream: its first transmission, its placement, and the
// copies that came after that.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/host.h"

namespace brdma::test {

class FlightLog : public sim::Observer {
 public:
  // Requests from `sender` that begin at `first`; `in_order`: the receiver keeps no early packets.
  FlightLog(const sim::Host& sender, const sim::Host& receiver, Psn first, bool in_order)
      : sender_(sender), receiver_(receiver), first_(first), in_order_(in_order) {}

  void sent(const sim::Host& from, const sim::Packet& packet, Instant now) override;
  void received(const sim::Host& by, const sim::Packet& packet, Instant now) override;

  [[nodiscard]] std::uint64_t spurious() const { return spurious_; }  // copies of placed packets
  [[nodiscard]] std::uint64_t sent_again() const { return sent_again_; }
  // For packets whose first copy was lost: from its expected arrival to the placement of another.
  [[nodiscard]] const std::vector<Duration>& recoveries() const { return recoveries_; }

 private:
  struct Flight {
    Instant first_sent;
    std::uint32_t copies = 0;
    bool placed = false;
  };
  [[nodiscard]] Flight* flight_of(const sim::Packet& packet);

  const sim::Host& sender_;
  const sim::Host& receiver_;
  Psn first_;
  bool in_order_;
  bool marked_again_ = false;                     // the current packet states that it is a copy, or cannot state it
  std::uint64_t newest_ = 0, next_in_order_ = 0;  // places in flights_
  Duration shortest_{};                           // from sending to placing
  std::uint64_t spurious_ = 0, sent_again_ = 0;
  std::vector<Flight> flights_;
  std::vector<Duration> recoveries_;
};

}  // namespace brdma::test
