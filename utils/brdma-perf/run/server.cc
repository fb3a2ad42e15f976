#include "run/server.h"

#include <algorithm>
#include <boost/asio/ip/v6_only.hpp>
#include <cstdio>
#include <deque>
#include <memory>
#include <vector>

#include "run/output.h"
#include "run/served.h"
#include "values/samples.h"

namespace brdma::perf {
namespace {

using asio::ip::tcp;

constexpr std::size_t kWaitingMax = 2 * kClientsMax;

// Connections that wait; those beyond the maximum are closed at once.
class Door {
 public:
  Door(Loop& loop, std::uint16_t port) : loop_(loop), acceptor_(loop.io()) {
    boost::system::error_code error;
    acceptor_.open(tcp::v6(), error);
    const bool v6 = !error;
    if (!v6) acceptor_.open(tcp::v4(), error);
    if (!error) acceptor_.set_option(tcp::acceptor::reuse_address{true}, error);
    if (v6) acceptor_.set_option(asio::ip::v6_only{false}, error);
    acceptor_.bind({v6 ? tcp::v6() : tcp::v4(), port}, error);
    if (!error) acceptor_.listen(kClientsMax, error);
    if (error) {
      throw RunError("cannot listen at TCP port " + std::to_string(port) + ": " + error.message() +
                     "; another port: -p, on both sides");
    }
    accept();
  }
  // The next connection; null: interrupted.
  std::unique_ptr<Channel> open() {
    loop_.run_until([&] { return !waiting_.empty() || loop_.interrupted(); }, kForever);
    if (waiting_.empty()) return nullptr;
    auto channel = std::make_unique<Channel>(loop_, std::move(waiting_.front()));
    waiting_.pop_front();
    return channel;
  }

 private:
  void accept() {
    acceptor_.async_accept([this](const boost::system::error_code& error, tcp::socket socket) {
      if (error == asio::error::operation_aborted) return;
      if (!error && waiting_.size() < kWaitingMax) waiting_.push_back(std::move(socket));
      accept();
    });
  }
  Loop& loop_;
  tcp::acceptor acceptor_;
  std::deque<tcp::socket> waiting_;
};

using Clients = std::vector<std::unique_ptr<Served>>;

void complain(const std::string& text) { std::fprintf(stderr, "brdma perf: %s\n", text.c_str()); }

// A connection that brings a plan. Others are reported and closed; null: interrupted.
std::unique_ptr<Served> next_client(Loop& loop, Door& door) {
  while (auto channel = door.open()) {
    const std::string peer = channel->peer_address();
    try {
      return std::make_unique<Served>(loop, std::move(channel));
    } catch (const RunError& error) {
      complain(peer + " is not served: " + error.what());
    }
  }
  return nullptr;
}

// All clients of one run, connected. Empty: interrupted.
Clients gather(Loop& loop, Door& door, const Options& options) {
  Clients clients;
  do {
    auto client = next_client(loop, door);
    if (!client) return {};
    if (!clients.empty() && to_json(clients[0]->plan()) != to_json(client->plan())) {
      complain(client->name() + " is not served: it wants another run than the first client; give all the same words");
      continue;
    }
    client->connect(options);
    clients.push_back(std::move(client));
  } while (clients.size() < clients[0]->plan().clients);
  return clients;
}

class Session {
 public:
  Session(Loop& loop, Clients clients) : loop_(loop), active_(std::move(clients)) {}

  // Until all clients are done. Returns them.
  Clients run() {
    for (const auto& client : active_) client->begin();
    while (!active_.empty()) {
      bool worked = false, sleeps = true;
      for (const auto& client : active_) {
        worked = client->work() || worked;
        sleeps = sleeps && client->sleeps();
      }
      const std::int64_t now = clock_ns();
      if (now - looked_ >= kLookTime) look(now);
      if (!worked && sleeps && !active_.empty()) sleep();
    }
    return std::move(done_);
  }

 private:
  void look(std::int64_t now) {
    looked_ = now;
    loop_.poll();
    if (loop_.interrupted()) throw RunError("interrupted");
    for (auto& client : active_) {
      if (client->finish()) done_.push_back(std::move(client));
    }
    active_.erase(std::remove(active_.begin(), active_.end(), nullptr), active_.end());
  }
  void sleep() {
    bool events = false;
    for (const auto& client : active_) events = client->has_event() || events;
    if (events) {
      for (const auto& client : active_) client->arm();
      look(clock_ns());
      return;  // completions may have come before that
    }
    const auto has_event = [](const auto& client) { return client->has_event(); };
    loop_.run_until([&] { return loop_.interrupted() || std::any_of(active_.begin(), active_.end(), has_event); },
                    kForever);
    if (loop_.interrupted()) throw RunError("interrupted");
  }
  Loop& loop_;
  Clients active_, done_;
  std::int64_t looked_ = 0;
};

// Returns the number of flaws in the data.
std::uint64_t serve_run(Loop& loop, Clients clients, const Options& options) {
  const Clients done = Session{loop, std::move(clients)}.run();
  std::vector<ClientShare> shares;
  std::uint64_t flaws = 0;
  for (const auto& client : done) {
    shares.push_back(client->share());
    flaws += client->checks().flaws;
    if (client->checks().flaws != 0) complain(client->name() + ": wrong data: " + client->first_flaw());
  }
  const Json incast = incast_of(shares);
  print(options.json ? incast.dump() + "\n" : incast_text(incast));
  return flaws;
}

}  // namespace

int run_server(Loop& loop, const Options& options) {
  Door door{loop, options.port};
  std::uint64_t flaws = 0;
  do {
    try {
      Clients clients = gather(loop, door, options);
      if (clients.empty()) break;
      flaws += serve_run(loop, std::move(clients), options);
    } catch (const RunError& error) {
      if (!options.serve_on) throw;
      complain(error.what());
    }
  } while (options.serve_on && !loop.interrupted());
  return flaws == 0 ? 0 : 1;
}

}  // namespace brdma::perf
