// brdmad/connections/management_port.h - QP 1, the general services interface: forwards connection managers' MADs
// between the network and the processes they concern, and answers for absent processes. Uses Boost.Asio only to wait.
//
//   From the network: a REQ or SIDR_REQ goes to the listener on its port. Everything else goes to the process whose
//   prefix the answered id has. A message without a destination is refused in CM terms, so that a peer need not wait.
//   A request for a port whose owner is about to listen, or did so a moment ago, waits a quarter of a second for it:
//   else a server that listens again for its next client would lose that client.
//   When a process is gone its peers are notified, a few times, or until they answer.
//   A worker that replaces a dead one does not know the owners of ports and ids until the processes repeat them. For a
//   second it refuses nothing: requests wait, all else is dropped and comes again.
//   From a process: only with ids of its own, and from an address of this host.
//   Also queries of requesters: is the process behind a silent queue pair stopped? (stopped_peers.h)
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "connections/live_connections.h"
#include "connections/message_counts.h"
#include "connections/port_table.h"
#include "connections/stopped_peers.h"
#include "io/cm/cm_protocol.h"
#include "io/udp/receive_socket.h"
#include "io/udp/transmit_socket.h"
#include "wire/cm/cm_messages.h"
#include "wire/crc/icrc.h"

namespace brdma::daemon {

struct ManagementCounters {
  std::uint64_t received = 0;  // MADs forwarded
  std::uint64_t sent = 0;      // for processes
  std::uint64_t refused = 0;   // answered here for an absent process
  std::uint64_t bad = 0;       // damaged, or no MAD of a connection manager
  std::uint64_t nobody = 0;    // for a process that is gone, and no answer due
  std::uint64_t unread = 0;    // the process does not read
  std::uint64_t forged = 0;    // from a process, with an id of another
  std::uint64_t not_sent = 0;  // the system refused
};

class ManagementPort {
 public:
  struct Process {
    std::uint32_t pid = 0;
    std::string program;
    cm::Counters counters{};  // last report
  };
  // False: the process does not read, or is gone.
  using Deliver = std::function<bool(const io::CmFrame& frame)>;

  // Does that process have a lease? Then it is alive, though it may be stopped.
  using Lives = std::function<bool(std::uint32_t pid)>;

  // `socket_fd` -1: no network, nothing is sent. `takes_over`: processes of an earlier worker will come back.
  // Connections in the table whose process does not come back and has no lease are ended.
  ManagementPort(int socket_fd, bool dual_stack, Seed seed, bool takes_over, ConnectionTable* table = nullptr,
                 Lives lives = {}, StoppedPeers::Look look = {});

  // Returns the prefix of the process: the wanted one, if that is free.
  [[nodiscard]] std::optional<std::uint16_t> attach(std::uint16_t wanted, Process process, Deliver deliver);
  void detach(std::uint16_t prefix);

  // Takes all waiting datagrams from the socket. Returns how many there were.
  std::uint32_t receive();
  void send(std::uint16_t prefix, const io::CmFrame& frame);
  void report(std::uint16_t prefix, const cm::Counters& counters);

  // Something waits: look() is due soon, and when a process begins to listen.
  [[nodiscard]] bool waits() const { return takes_over_ || !held_.empty() || !farewells_.empty(); }
  void look();

  [[nodiscard]] PortTable& ports() { return ports_; }
  [[nodiscard]] const PortTable& ports() const { return ports_; }
  [[nodiscard]] const Process& process(std::uint16_t prefix) const { return processes_.at(prefix).process; }
  [[nodiscard]] const ManagementCounters& counters() const { return counters_; }
  [[nodiscard]] const MessageCounts& messages() const { return messages_; }
  [[nodiscard]] const StoppedCounters& stopped_counters() const { return stopped_.counters(); }
  // Counters of the processes' connection managers: each live process's, and the sum that includes ended ones.
  [[nodiscard]] std::vector<const Process*> all_processes() const;
  [[nodiscard]] cm::Counters process_counters() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Held {
    Clock::time_point until;
    std::uint64_t service = 0;
    io::CmFrame frame;
  };
  struct Leaving {
    LiveConnections::Farewell farewell;
    unsigned tries_left = 0;
  };
  [[nodiscard]] bool icrc_holds(const Datagram& datagram);
  void pass_on(const cm::Endpoints& endpoints, wire::MadBytes mad);
  void look_at_held();
  void end_of_taking_over();
  void say_farewells();
  void on_disconnect_reply(const cm::Endpoints& endpoints, const wire::CmDrep& drep);
  bool deliver_to_listener(std::uint64_t service, const io::CmFrame& frame);
  [[nodiscard]] bool expects_processes() const { return Clock::now() < processes_known_at_; }
  [[nodiscard]] bool expects_listener(std::uint64_t service, const IpAddress& address) const;
  void refuse(const io::CmFrame& frame, const wire::CmMad& mad);
  void transmit(const cm::Endpoints& endpoints, wire::MadBytes mad);
  bool take_stopped_query(const io::ReceivedMessage& message);
  // Everything but the ICRC is set. False: the system refused.
  bool transmit_packet(const cm::Endpoints& endpoints, MutableBytes packet, bool standard);
  bool deliver(std::uint16_t prefix, const io::CmFrame& frame);

  io::ReceiveSocket socket_;
  std::optional<io::TransmitSocket> transmit_;
  wire::IdentificationSolver solver_;
  SecretRandom random_;
  PortTable ports_;
  struct Attached {
    Process process;
    Deliver deliver;
  };
  std::map<std::uint16_t, Attached> processes_;
  cm::Counters ended_;  // of processes that are gone
  Clock::time_point processes_known_at_{};
  bool takes_over_;
  Lives lives_;
  std::deque<Held> held_;
  LiveConnections live_;
  std::vector<Leaving> farewells_;
  StoppedPeers stopped_;
  ManagementCounters counters_;
  MessageCounts messages_;
  std::uint32_t psn_ = 0;
};

}  // namespace brdma::daemon
