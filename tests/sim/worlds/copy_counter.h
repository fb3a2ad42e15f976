// sim/worlds/copy_counter.h - observes one direction of a connection from outside: which packets leave again, and which
// arrive late though they were not lost. With the network's losses this bounds the copies of each recovery mode.
#pragma once

#include <cstdint>
#include <set>

#include "sim/host.h"
#include "support/flight_checker.h"
#include "wire/packet.h"

namespace brdma::test {

class CopyCounter : public sim::Observer {
 public:
  struct Counts {
    std::uint64_t again = 0;  // requests that left again in bitmap mode
    // Of a standard requester: times that it went back. A pass repeats each packet once at most, so at most the window.
    std::uint64_t passes = 0;
    std::uint64_t answered_again = 0;  // responses that left again in bitmap mode
    std::uint64_t late = 0;            // first transmissions of requests and responses that later ones overtook
    Counts& operator+=(const Counts& more);
  };

  CopyCounter(const sim::Host& requester, const FlightChecker::Connection& connection);
  // One of the two hosts has crashed: its numbers may be reused for another connection.
  void end() { ended_ = true; }

  void sent(const sim::Host& from, const sim::Packet& packet, Instant now) override;
  void received(const sim::Host& by, const sim::Packet& packet, Instant now) override;

  [[nodiscard]] const Counts& counts() const { return counts_; }

 private:
  [[nodiscard]] bool is_between_them(const sim::Packet& bytes) const;
  [[nodiscard]] bool is_request(const sim::Packet& bytes, const wire::Packet& packet) const;
  [[nodiscard]] bool is_response(const sim::Packet& bytes, const wire::Packet& packet) const;
  void handle_request(const wire::Packet& packet);
  void handle_response(const wire::Packet& packet);
  void handle_arrival(const wire::Packet& packet, std::int64_t& farthest);
  [[nodiscard]] std::int64_t sequence_of(Psn psn) const;

  const sim::Host& requester_;
  FlightChecker::Connection connection_;
  std::int64_t next_;                                // first sequence that was never sent
  std::int64_t repeated_ = 0;                        // by the present pass, the last
  std::int64_t farthest_request_, farthest_answer_;  // arrived
  std::set<std::int64_t> answered_;
  Counts counts_;
  bool bitmap_ = false, passing_ = false, ended_ = false;
};

}  // namespace brdma::test
