// brdma-controller/server.h - the controller with its sockets: takes sessions of switches and hosts, passes their
// messages to the decisions of fabric/controller, and the resulting orders to the members concerned. One thread, on
// Boost.Asio.
#pragma once

#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "controller-session/secure_stream.h"
#include "fabric/controller/controller.h"

namespace brdma::controller_program {

namespace asio = boost::asio;
namespace ctl = fabric::controller;

// X(member)
#define BRDMA_SESSION_COUNTERS(X)                                       \
  X(connections)                                                        \
  X(connections_refused) /* over the limit */                           \
  X(connections_failed)  /* ended before a greeting */                  \
  X(greetings_refused)   /* another name than the key's, or no place */ \
  X(messages)                                                           \
  X(messages_unexpected) /* not for a controller, or from the wrong role: ended */

struct SessionCounters {
#define BRDMA_X(member) std::uint64_t member = 0;
  BRDMA_SESSION_COUNTERS(BRDMA_X)
#undef BRDMA_X
};

class Server {
 public:
  static constexpr std::size_t kSessionsMax = 2048, kUngreetedMax = 256;

  Server(asio::io_context& context, session::Keys keys, ctl::NetworkMap map, const ctl::Settings& settings);
  ~Server();
  // Throws std::invalid_argument, boost::system::system_error.
  void listen(const std::string& endpoint);

  [[nodiscard]] const ctl::Controller& controller() const { return controller_; }
  [[nodiscard]] const SessionCounters& counters() const { return counters_; }
  [[nodiscard]] std::size_t sessions() const { return sessions_.size(); }

 private:
  using Acceptor = asio::basic_socket_acceptor<session::Protocol>;
  struct Session {
    std::shared_ptr<session::SecureStream> stream;
    std::string key_name, id;  // id empty: no greeting yet
    bool is_switch = false;
  };
  using SessionNumber = std::uint64_t;

  void accept(Acceptor& acceptor);
  void begin(session::Protocol::socket socket);
  void take(SessionNumber number, const session::Message& message);
  bool greet(SessionNumber number, Session& session, const session::Message& message);
  bool take_of_switch(const Session& session, const session::Message& message);
  bool take_of_host(const Session& session, const session::Message& message);
  void ended(SessionNumber number, const std::string& reason);
  void replace(const std::string& id, bool is_switch, SessionNumber by);
  void act();  // executes the present orders; sets the timer
  void carry_out(const ctl::Order& order);
  [[nodiscard]] Session* find(const std::string& id, bool is_switch);

  asio::io_context& context_;
  session::SecureContext secure_;
  ctl::Controller controller_;
  std::vector<std::unique_ptr<Acceptor>> acceptors_;
  asio::steady_timer timer_, pause_;
  std::map<SessionNumber, Session> sessions_;
  SessionNumber last_ = 0;
  SessionCounters counters_;
  std::shared_ptr<bool> living_ = std::make_shared<bool>(true);  // false: late handlers do nothing
};

}  // namespace brdma::controller_program
