#include "run/channel.h"

#include <sys/socket.h>

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <utility>

#include "values/samples.h"

namespace brdma::perf {
namespace {

using asio::ip::tcp;
using ErrorCode = boost::system::error_code;

constexpr std::int64_t kRetryTime = 20'000'000;  // ns
constexpr std::size_t kMessagesMax = 64;         // that wait

// Returns the error of one attempt at all of a name's addresses.
ErrorCode connect_once(Loop& loop, tcp::socket& socket, const tcp::resolver::results_type& endpoints,
                       std::int64_t deadline) {
  std::optional<ErrorCode> result;
  asio::async_connect(socket, endpoints, [&](const ErrorCode& error, const tcp::endpoint&) { result = error; });
  const auto over = [&] { return result.has_value() || loop.interrupted(); };
  if (!loop.run_until(over, deadline) || !result) {
    ErrorCode ignored;
    socket.close(ignored);
    loop.run_until([&] { return result.has_value(); }, kForever);  // its handler refers to this function
    return asio::error::timed_out;
  }
  return *result;
}

}  // namespace

std::string plain_address(asio::ip::address address) {
  if (address.is_v6() && address.to_v6().is_v4_mapped()) {
    return asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6()).to_string();
  }
  if (address.is_v6()) {
    asio::ip::address_v6 v6 = address.to_v6();
    v6.scope_id(0);
    return v6.to_string();
  }
  return address.to_string();
}

struct Channel::State {
  explicit State(tcp::socket s) : socket(std::move(s)) {}
  tcp::socket socket;
  FrameReader reader;
  std::deque<Json> messages;
  std::array<char, 16'384> bytes{};
  std::string failure;  // why no more comes
  std::string local, peer;

  void take_bytes(std::size_t size) {
    try {
      reader.push({bytes.data(), size});
      while (auto message = reader.next()) {
        if (messages.size() == kMessagesMax) throw RunError("the other side sends more than is expected");
        messages.push_back(std::move(*message));
      }
    } catch (const RunError& error) {
      failure = error.what();
    }
  }
  // Holds the state while a read is in progress: the channel may be gone before its handler runs.
  static void read_on(const std::shared_ptr<State>& state) {
    state->socket.async_read_some(asio::buffer(state->bytes), [state](const ErrorCode& error, std::size_t size) {
      if (!error) {
        state->take_bytes(size);
      } else if (state->failure.empty()) {
        state->failure = "it closed the connection";
      }
      if (state->failure.empty()) read_on(state);
    });
  }
};

Channel::Channel(Loop& loop, const std::string& address, std::uint16_t port, std::int64_t time) : loop_(loop) {
  const std::int64_t deadline = clock_ns() + time;
  tcp::resolver resolver{loop.io()};
  ErrorCode error;
  const auto endpoints = resolver.resolve(address, std::to_string(port), error);
  if (error) throw RunError("unknown address '" + address + "': " + error.message());
  tcp::socket socket{loop.io()};
  for (;;) {
    error = connect_once(loop, socket, endpoints, deadline);
    if (!error) break;
    if (error != asio::error::connection_refused || clock_ns() >= deadline || loop.interrupted()) {
      throw RunError("cannot connect to " + address + " port " + std::to_string(port) + ": " + error.message() +
                     ". Start 'brdma perf server' there; see also -p");
    }
    socket.close(error);
    asio::steady_timer pause{loop.io()};  // the server is not listening yet
    pause.expires_after(std::chrono::nanoseconds{kRetryTime});
    bool over = false;
    pause.async_wait([&over](const ErrorCode&) { over = true; });
    loop.run_until([&over] { return over; }, kForever);
  }
  state_ = std::make_shared<State>(std::move(socket));
  begin();
}

Channel::Channel(Loop& loop, tcp::socket socket) : loop_(loop), state_(std::make_shared<State>(std::move(socket))) {
  begin();
}

Channel::~Channel() {
  ErrorCode ignored;
  state_->socket.shutdown(tcp::socket::shutdown_both, ignored);
  state_->socket.close(ignored);
}

void Channel::begin() {
  ErrorCode error;
  state_->socket.set_option(tcp::no_delay{true}, error);
  state_->local = plain_address(state_->socket.local_endpoint(error).address());
  state_->peer = plain_address(state_->socket.remote_endpoint(error).address());
  State::read_on(state_);
}

void Channel::send(const Json& json) {
  const std::string frame = frame_of(json);
  const std::int64_t deadline = clock_ns() + kAnswerTime;
  bool done = false;
  ErrorCode result;
  asio::async_write(state_->socket, asio::buffer(frame), [&](const ErrorCode& error, std::size_t) {
    result = error;
    done = true;
  });
  if (!loop_.run_until([&] { return done; }, deadline)) {
    ErrorCode ignored;
    state_->socket.close(ignored);
    loop_.run_until([&] { return done; }, kForever);
    result = asio::error::timed_out;
  }
  if (result) throw RunError(state_->peer + ": cannot send: " + result.message());
}

std::optional<Json> Channel::take() {
  if (!state_->messages.empty()) {
    Json json = std::move(state_->messages.front());
    state_->messages.pop_front();
    if (const auto error = json.find("error"); error != json.end() && error->is_string()) {
      throw RunError(state_->peer + " reports: " + error->get<std::string>().substr(0, 500));
    }
    return std::make_optional(std::move(json));
  }
  if (!state_->failure.empty()) throw RunError(state_->peer + ": " + state_->failure);
  return std::nullopt;
}

bool Channel::has_news() const { return !state_->messages.empty() || !state_->failure.empty(); }

Json Channel::receive(std::int64_t deadline, bool steadfast) {
  const auto given_up = [&] { return loop_.interrupted() && !steadfast; };
  loop_.run_until([&] { return has_news() || given_up(); }, deadline);
  if (auto json = take()) return std::move(*json);
  throw RunError(given_up() ? "interrupted" : state_->peer + ": no reply in time");
}

std::string Channel::local_address() const { return state_->local; }
std::string Channel::peer_address() const { return state_->peer; }

}  // namespace brdma::perf
