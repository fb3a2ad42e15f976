// support/flight_checker.h - observes one direction of a connection. Checks that its requester never has more in flight
// than the peer's last stated window and credit allow, or the standard window before bitmap mode. A request packet
// counts from its first transmission until an acknowledgement, NAK or response that covers it has reached the
// requester. READ requests and atomics count as one packet without bytes. In bitmap mode it also counts retransmissions
// that the requester knew to be needless.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "sim/host.h"
#include "wire/control.h"
#include "wire/packet.h"

namespace brdma::test {

// A packet that the engine will accept too. Nothing: it is corrupted.
[[nodiscard]] std::optional<wire::Packet> believable(const sim::Packet& packet);

class FlightChecker : public sim::Observer {
 public:
  struct Connection {
    std::uint32_t requester_qpn = 0, responder_qpn = 0;
    IpAddress responder;  // queue pair numbers are each host's own
    Psn first_psn;
    std::uint32_t mtu = 0;
  };
  FlightChecker(const sim::Host& requester, const Connection& connection);
  // PSNs that the request occupies: a READ's are those of all its responses.
  [[nodiscard]] static std::uint32_t psns_of(const wire::Packet& request, std::uint32_t mtu);

  // One of the two hosts has crashed: its numbers may be reused for another connection.
  void end() { ended_ = true; }

  void sent(const sim::Host& from, const sim::Packet& packet, Instant now) override;
  void received(const sim::Host& by, const sim::Packet& packet, Instant now) override;

  [[nodiscard]] const std::vector<std::string>& findings() const { return findings_; }
  [[nodiscard]] std::size_t packets_most() const { return packets_most_; }
  // Packets that were acknowledged and sent again, responses that were here and requested again. Not among them: the
  // packet at the base, what an RNR NAK names, and anything when all has arrived: those ask why the base does not move.
  // A probe of a path that is set aside is one.
  [[nodiscard]] std::uint64_t needless() const { return needless_; }
  [[nodiscard]] const std::string& first_needless() const { return first_needless_; }

 private:
  void handle_request(const wire::Packet& packet, Instant now);
  void handle_retransmission(const wire::Packet& packet, std::int64_t sequence, Instant now);
  [[nodiscard]] bool is_needless(const wire::Packet& packet, std::int64_t sequence) const;
  void check_limits(std::int64_t end, Instant now);
  void handle_control(const wire::Packet& packet);
  void handle_ack(const wire::BitmapAck& ack);
  void note_credit(std::uint32_t packets, std::uint64_t bytes, bool stale = false);
  void acknowledge_before(std::int64_t sequence);
  void acknowledge(std::int64_t sequence);
  [[nodiscard]] std::int64_t end_of_request(std::int64_t sequence) const;
  [[nodiscard]] std::int64_t sequence_of(Psn psn) const;
  void find(std::string what, Instant now);

  const sim::Host& requester_;
  Connection connection_;
  std::map<std::int64_t, std::uint32_t> flight_;  // sequence -> payload bytes
  std::uint64_t flight_bytes_ = 0;
  std::map<std::int64_t, std::int64_t> reads_;  // first -> one past the last PSN of a READ with several responses
  std::set<std::int64_t> responses_;            // received
  std::set<std::int64_t> not_ready_;            // named by an RNR NAK
  std::int64_t next_ = 0;                       // first sequence that was never sent
  std::int64_t base_ = 0;                       // everything before it is acknowledged
  std::size_t packets_most_ = 0;
  std::uint64_t needless_ = 0;
  std::string first_needless_;
  bool bitmap_ = false, ended_ = false;
  // Acknowledgements overtake each other on a faulty network: the requester may use any of the last few, and none of
  // those without news.
  struct Credit {
    std::uint32_t packets;
    std::uint64_t bytes;
  };
  std::vector<Credit> credits_, stale_credits_;
  std::uint32_t peer_window_ = 0;
  std::vector<std::string> findings_;
};

}  // namespace brdma::test
