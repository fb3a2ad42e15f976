#include "server.h"

#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <chrono>
#include <utility>

#include "control/address_text.h"
#include "io/shard/clock.h"

namespace brdma::controller_program {
namespace {

using ErrorCode = boost::system::error_code;
using io::monotonic_now;

constexpr std::chrono::milliseconds kAcceptPause{100};  // when no descriptor is left for one more connection

}  // namespace

Server::Server(asio::io_context& context, session::Keys keys, ctl::NetworkMap map, const ctl::Settings& settings)
    : context_(context),
      secure_(std::move(keys)),
      controller_(std::move(map), settings, monotonic_now()),
      timer_(context),
      pause_(context) {
  act();
}

Server::~Server() {
  *living_ = false;
  for (const auto& [number, session] : sessions_) session.stream->abandon();
}

void Server::listen(const std::string& text) {
  const session::Protocol::endpoint endpoint = session::parse_endpoint(text);
  auto acceptor = std::make_unique<Acceptor>(context_);
  acceptor->open(endpoint.protocol());
  if (endpoint.protocol().family() != AF_UNIX) acceptor->set_option(asio::socket_base::reuse_address(true));
  if (text.starts_with("unix:/")) (void)::unlink(text.c_str() + 5);  // left by a killed one
  acceptor->bind(endpoint);
  acceptor->listen();
  acceptors_.push_back(std::move(acceptor));
  accept(*acceptors_.back());
}

void Server::accept(Acceptor& acceptor) {
  acceptor.async_accept([this, &acceptor, living = living_](ErrorCode error, session::Protocol::socket socket) {
    if (!*living) return;
    if (error) {
      pause_.expires_after(kAcceptPause);
      pause_.async_wait([this, &acceptor, living](ErrorCode) {
        if (*living) accept(acceptor);
      });
      return;
    }
    begin(std::move(socket));
    accept(acceptor);
  });
}

void Server::begin(session::Protocol::socket socket) {
  ++counters_.connections;
  const auto ungreeted = static_cast<std::size_t>(
      std::ranges::count_if(sessions_, [](const auto& entry) { return entry.second.id.empty(); }));
  if (sessions_.size() >= kSessionsMax || ungreeted >= kUngreetedMax) {
    ++counters_.connections_refused;
    return;
  }
  const SessionNumber number = ++last_;
  Session& session = sessions_[number];
  session.stream = std::make_shared<session::SecureStream>(std::move(socket), secure_);
  session.stream->start({[this, number](const std::string& key_name) { sessions_.at(number).key_name = key_name; },
                         [this, number](const session::Message& message) { take(number, message); },
                         [this, number](const std::string& reason) { ended(number, reason); }});
}

void Server::take(SessionNumber number, const session::Message& message) {
  ++counters_.messages;
  Session& session = sessions_.at(number);
  const std::shared_ptr<session::SecureStream> stream = session.stream;  // may end in this call
  if (session.id.empty()) {
    if (!greet(number, session, message)) {
      ++counters_.greetings_refused;
      stream->close("its greeting is refused");
    }
  } else if (session.is_switch ? !take_of_switch(session, message) : !take_of_host(session, message)) {
    ++counters_.messages_unexpected;
    stream->close("a message that is not its to send");
  }
  act();
}

// A key belongs to one member: no other may use its name.
bool Server::greet(SessionNumber number, Session& session, const session::Message& message) {
  const auto* of_switch = std::get_if<session::SwitchGreeting>(&message);
  const auto* of_host = std::get_if<session::HostGreeting>(&message);
  if (of_switch == nullptr && of_host == nullptr) return false;
  const std::string& id = of_switch != nullptr ? of_switch->hello.id : of_host->hello.id;
  if (session.key_name != session::kAnybody && session.key_name != id) return false;
  replace(id, of_switch != nullptr, number);
  const bool taken = of_switch != nullptr ? controller_.handle_switch(of_switch->hello, monotonic_now())
                                          : controller_.handle_host(of_host->hello, monotonic_now());
  if (!taken) return false;
  session.id = id;
  session.is_switch = of_switch != nullptr;
  session.stream->send(session::Welcome{});
  spdlog::info("{} {} is here", session.is_switch ? "switch" : "host", id);
  return true;
}

// A member that connects again has lost its old session, though the loss may not have been detected yet.
void Server::replace(const std::string& id, bool is_switch, SessionNumber by) {
  for (const auto& [number, session] : sessions_) {
    if (number == by || session.id != id || session.is_switch != is_switch) continue;
    const auto stream = session.stream;
    return stream->close("it came again");
  }
}

bool Server::take_of_switch(const Session& session, const session::Message& message) {
  const Instant now = monotonic_now();
  if (const auto* reports = std::get_if<session::LinkReports>(&message)) {
    controller_.handle_links(session.id, reports->ports, now);
  } else if (const auto* feedback = std::get_if<session::ActiveFeedback>(&message)) {
    controller_.handle_active(session.id, feedback->port, feedback->flows, now);
  } else if (const auto* done = std::get_if<session::RoutesInstalled>(&message)) {
    controller_.handle_acknowledgement(session.id, done->epoch, done->installed, now);
  } else {
    return false;
  }
  return true;
}

bool Server::take_of_host(const Session& session, const session::Message& message) {
  const auto* feedback = std::get_if<session::PassiveFeedback>(&message);
  if (feedback == nullptr) return false;
  controller_.handle_passive(session.id, feedback->flow, feedback->hops, monotonic_now());
  return true;
}

void Server::ended(SessionNumber number, const std::string& reason) {
  const auto found = sessions_.find(number);
  const Session session = std::move(found->second);
  sessions_.erase(found);
  if (session.id.empty()) {
    ++counters_.connections_failed;
    spdlog::info("a connection{} ended: {}", session.key_name.empty() ? "" : " of " + session.key_name, reason);
    return;
  }
  spdlog::info("{} {} is gone: {}", session.is_switch ? "switch" : "host", session.id, reason);
  if (session.is_switch) {
    controller_.handle_switch_gone(session.id, monotonic_now());
  } else {
    controller_.handle_host_gone(session.id, monotonic_now());
  }
  asio::post(context_, [this, living = living_] {  // not within the code that ended it
    if (*living) act();
  });
}

Server::Session* Server::find(const std::string& id, bool is_switch) {
  for (auto& [number, session] : sessions_) {
    if (session.id == id && session.is_switch == is_switch) return &session;
  }
  return nullptr;
}

void Server::carry_out(const ctl::Order& order) {
  if (const auto* install = std::get_if<ctl::InstallRoutes>(&order)) {
    spdlog::info("switch {} gets {} routes, epoch {}", install->switch_id, install->routes.size(), install->epoch);
    if (Session* session = find(install->switch_id, true)) {
      session->stream->send(session::Routes{install->epoch, install->routes});
    }
  } else if (const auto* lower = std::get_if<ctl::LowerDestination>(&order)) {
    spdlog::info("host {} shall lower {}", lower->host_id, print_address(lower->destination));
    if (Session* session = find(lower->host_id, false)) {
      session->stream->send(session::ControlPacket{lower->destination, lower->congested_links});
    }
  } else if (Session* session = find(std::get<ctl::CutOff>(order).switch_id, true)) {
    const auto stream = session->stream;
    stream->close("it does not acknowledge");
  }
}

void Server::act() {
  while (const auto order = controller_.poll()) carry_out(*order);
  const auto next = controller_.next_timeout();
  if (!next) {
    timer_.cancel();
    return;
  }
  timer_.expires_after(std::chrono::nanoseconds(std::max<std::int64_t>((*next - monotonic_now()).ns(), 0)));
  timer_.async_wait([this, living = living_](ErrorCode error) {
    if (error || !*living) return;
    controller_.handle_timeout(monotonic_now());
    act();
  });
}

}  // namespace brdma::controller_program
