// brdmad/network/controller_link.h - this host's session with the controller of a wide-area network (design WT-11;
// docs/explanation/wan.md). It sends the link-state reports that senders received (passive feedback). It receives
// control packets and hands them to every process: each engine knows whether it sends to that destination.
//
// Processes are asked only when they have reports: each counts its reports (link_state_reports) in the page that it
// shares with brdmad, and the link reads that counter every 20 ms while there is a session. Reports from before the
// session are stale: taken and dropped.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "controller-session/member.h"
#include "lease/lease_book.h"
#include "options.h"
#include "queries/lease_link.h"

namespace brdma::daemon {

struct ControllerCounters {
  std::uint64_t sessions = 0;         // begun
  std::uint64_t passive_sent = 0;     // reports of processes, handed to the controller
  std::uint64_t passive_stale = 0;    // likewise, but from before the session
  std::uint64_t passive_bad = 0;      // malformed
  std::uint64_t control_packets = 0;  // from the controller
  std::uint64_t control_handed = 0;   // to a process; counted once for each process
  std::uint64_t control_unread = 0;   // the process does not read
};

class ControllerLink {
 public:
  static constexpr std::chrono::milliseconds kLook{20}, kLookAtAddresses{1000};
  using FindLink = std::function<std::shared_ptr<LeaseLink>(std::uint32_t slot)>;

  // Throws std::invalid_argument, std::runtime_error.
  ControllerLink(boost::asio::io_context& context, const LeaseBook& book, FindLink find_link,
                 const ControllerOptions& options);

  void start() { member_.start(); }
  [[nodiscard]] bool connected() const { return member_.connected(); }
  [[nodiscard]] const std::string& address() const { return address_; }
  [[nodiscard]] const std::string& id() const { return greeted_.id; }
  [[nodiscard]] const ControllerCounters& counters() const { return counters_; }

 private:
  struct Taken {
    std::uint64_t lease_id = 0, reports = 0;
    bool asking = false;
  };

  [[nodiscard]] fabric::controller::HostHello hello() const;
  void changed(bool connected, const std::string& reason);
  void received(const session::Message& message);
  void look_later();
  void look(std::uint64_t session);
  void ask(std::uint32_t slot, Taken& taken, std::uint64_t session);
  void hand_up(const nlohmann::ordered_json& answer, std::uint64_t session);

  const LeaseBook& book_;
  FindLink find_link_;
  std::string address_, key_name_;
  fabric::controller::HostHello greeted_;
  session::Member member_;
  boost::asio::steady_timer timer_;
  std::chrono::steady_clock::time_point addresses_read_;
  std::map<std::uint32_t, Taken> taken_;  // by slot
  ControllerCounters counters_;
};

}  // namespace brdma::daemon
