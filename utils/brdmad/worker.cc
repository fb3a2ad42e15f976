#include "worker.h"

#include <poll.h>
#include <spdlog/spdlog.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "lease_book.h"
#include "session.h"

namespace brdma::daemon {
namespace {

using asio::local::stream_protocol;
using boost::system::error_code;

constexpr std::size_t kSessionsMax = 1024;
constexpr std::chrono::milliseconds kAcceptPause{100};  // when no descriptor is left for one more connection

class Worker final : public SessionHost {
 public:
  explicit Worker(WorkerInheritance inheritance)
      : inheritance_(inheritance),
        book_(inheritance.state, inheritance.group, inheritance.channel),
        watch_(context_, book_, inheritance.options.alarms),
        acceptor_(context_, stream_protocol(), inheritance.listener),
        management_{asio::posix::stream_descriptor(context_, inheritance.group.sockets[0].get()),
                    asio::posix::stream_descriptor(context_, inheritance.group.sockets[1].get())},
        idle_(context_),
        pause_(context_) {}

  int run();

 private:
  LeaseBook& book() override { return book_; }
  const Options& options() override { return inheritance_.options; }
  bool dual_stack() override { return inheritance_.group.dual_stack; }
  void session_ended(Session* session) override;
  void shut_down() override;
  asio::io_context& context() override { return context_; }
  Watch& watch() override { return watch_; }
  std::shared_ptr<LeaseLink> link(std::uint32_t slot) override;

  std::shared_ptr<Session> add_session(stream_protocol::socket socket);
  void accept();
  void discard_management(std::size_t qp);
  void watch_idleness();

  WorkerInheritance inheritance_;
  LeaseBook book_;
  asio::io_context context_{1};
  Watch watch_;
  stream_protocol::acceptor acceptor_;
  std::array<asio::posix::stream_descriptor, 2> management_;  // QP 0 and QP 1
  asio::steady_timer idle_, pause_;
  std::map<Session*, std::shared_ptr<Session>> sessions_;
};

std::shared_ptr<Session> Worker::add_session(stream_protocol::socket socket) {
  auto session = std::make_shared<Session>(std::move(socket), *this);
  sessions_[session.get()] = session;
  idle_.cancel();
  return session;
}

void Worker::accept() {
  acceptor_.async_accept([this](error_code error, stream_protocol::socket socket) {
    if (error) {
      if (!acceptor_.is_open()) return;
      pause_.expires_after(kAcceptPause);
      pause_.async_wait([this](error_code) { accept(); });
      return;
    }
    if (sessions_.size() < kSessionsMax) add_session(std::move(socket))->start();
    accept();
  });
}

// The management queue pairs: nothing is behind them yet. Reading keeps their buffers from filling up.
void Worker::discard_management(std::size_t qp) {
  management_[qp].async_wait(asio::posix::stream_descriptor::wait_read, [this, qp](error_code error) {
    if (error) return;
    inheritance_.state.management_datagrams += drain(management_[qp].native_handle());
    discard_management(qp);
  });
}

void Worker::session_ended(Session* session) {
  sessions_.erase(session);
  watch_idleness();
}

std::shared_ptr<LeaseLink> Worker::link(std::uint32_t slot) {
  for (const auto& [key, session] : sessions_) {
    if (session->link() != nullptr && session->link()->slot() == slot) return session->link();
  }
  return nullptr;
}

void Worker::shut_down() {
  spdlog::info("ends as it was told to");
  context_.stop();
}

void Worker::watch_idleness() {
  if (!sessions_.empty() || options().idle_seconds == 0) return;
  idle_.expires_after(std::chrono::seconds(options().idle_seconds));
  idle_.async_wait([this](error_code error) {
    if (error || !sessions_.empty()) return;
    pollfd waiting{acceptor_.native_handle(), POLLIN, 0};
    if (::poll(&waiting, 1, 0) > 0) return watch_idleness();  // somebody has just knocked
    spdlog::info("ends: nobody used it for {} s", options().idle_seconds);
    context_.stop();
  });
}

int Worker::run() {
  for (LeaseBook::Adopted& adopted : book_.adopt(inheritance_.kept)) {
    stream_protocol::socket socket(context_, stream_protocol(), adopted.connection.release());
    add_session(std::move(socket))->resume_lease(adopted.slot);
  }
  accept();
  discard_management(0);
  discard_management(1);
  watch_idleness();
  context_.run();
  return kWorkerDone;
}

}  // namespace

int run_worker(WorkerInheritance inheritance) {
  try {
    Worker worker(inheritance);
    return worker.run();
  } catch (const std::exception& error) {  // no memory, no descriptors: the holder starts another
    spdlog::error("the worker fails: {}", error.what());
    return 1;
  }
}

}  // namespace brdma::daemon
