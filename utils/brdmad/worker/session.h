// brdmad/worker/session.h - one client connection: the first bytes decide whether it becomes a lease or sends queries.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "connections/management_port.h"
#include "io/xdp/xdp_protocol.h"
#include "lease/lease_book.h"
#include "network/icmp_intake.h"
#include "options.h"
#include "queries/lease_link.h"
#include "queries/watch.h"
#include "worker/client_reader.h"
#include "worker/user_accounts.h"

namespace brdma::daemon {

namespace asio = boost::asio;
class Session;
class ControllerLink;

// The parts of the worker that a session uses.
struct SessionHost {
  virtual ~SessionHost() = default;
  virtual LeaseBook& book() = 0;
  virtual const Options& options() = 0;
  virtual bool dual_stack() = 0;
  virtual void session_ended(Session* session) = 0;  // may destroy it once its handlers are done
  virtual void shut_down() = 0;
  virtual asio::io_context& context() = 0;
  virtual UserAccounts& accounts() = 0;  // include a session from admit() to session_ended()
  virtual Watch& watch() = 0;
  // A connection that belongs to a process with RDMA-CM; `input` was read from it.
  virtual void begin_cm(asio::local::stream_protocol::socket socket, std::uint32_t uid, std::uint32_t pid,
                        std::string input) = 0;
  virtual const ManagementPort& management_port() = 0;
  virtual const IcmpIntake& icmp_intake() = 0;
  virtual const ControllerLink* controller_link() = 0;  // null: none is set
  virtual GidBook& gid_book() = 0;
  virtual std::shared_ptr<LeaseLink> link(std::uint32_t slot) = 0;  // null: the slot has no lease
  virtual void linked(const std::shared_ptr<LeaseLink>& link) = 0;  // a lease begins, or continues
};

class Session : public std::enable_shared_from_this<Session> {
 public:
  using Socket = asio::local::stream_protocol::socket;
  Session(Socket socket, SessionHost& host);
  // The process at the other end.
  struct Peer {
    static constexpr std::uint32_t kNobody = 65'534;  // not distinguishable from others
    std::uint32_t uid = kNobody, pid = 0;
  };
  [[nodiscard]] static Peer peer_of(const Socket& socket);

  void start();                           // a new connection
  void resume_lease(std::uint32_t slot);  // a lease of an earlier worker
  [[nodiscard]] std::uint32_t uid() const { return peer_.uid; }
  [[nodiscard]] const std::shared_ptr<LeaseLink>& link() const { return link_; }  // null: no lease

 private:
  void read_more();
  void handle_input();
  void handle_lease_request();
  [[nodiscard]] bool is_served() const;
  void handle_slot_request();
  void handle_cm();
  void handle_xdp();
  void take_right(const io::XdpRequest& request);
  void answer_next_line();
  void write_answer(std::string line, bool shutdown);
  void begin_lease(std::uint32_t slot, bool adopted = false);
  void watch_lease();
  void end();

  Socket socket_;
  SessionHost& host_;
  Peer peer_;
  asio::steady_timer time_;  // for the first request, and for each answer to be read
  ClientReader reader_;
  std::string& input_;  // the reader's
  std::string output_;
  BytesFor output_held_;
  std::shared_ptr<LeaseLink> link_;
  bool ended_ = false;
};

}  // namespace brdma::daemon
