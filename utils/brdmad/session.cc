#include "session.h"

#include <spdlog/spdlog.h>
#include <sys/socket.h>

#include <array>
#include <boost/asio/write.hpp>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "queries.h"

namespace brdma::daemon {
namespace {

constexpr std::chrono::seconds kFirstRequestMax{10};
constexpr std::size_t kReadBytes = 4096;

using ErrorCode = boost::system::error_code;

}  // namespace

Session::Session(Socket socket, SessionHost& host)
    : socket_(std::move(socket)), host_(host), first_request_(socket_.get_executor()) {}

void Session::start() {
  ucred peer{};
  socklen_t length = sizeof peer;
  if (::getsockopt(socket_.native_handle(), SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) return end();
  uid_ = peer.uid;
  pid_ = static_cast<std::uint32_t>(peer.pid);
  first_request_.expires_after(kFirstRequestMax);
  first_request_.async_wait([self = shared_from_this()](ErrorCode error) {
    if (!error) self->end();
  });
  read_more();
}

void Session::resume_lease(std::uint32_t slot) {
  slot_ = slot;
  watch_lease();
}

void Session::read_more() {
  const std::size_t had = input_.size();
  input_.resize(had + kReadBytes);
  socket_.async_read_some(asio::buffer(input_.data() + had, kReadBytes),
                          [self = shared_from_this(), had](ErrorCode error, std::size_t bytes) {
                            self->input_.resize(had + bytes);
                            if (error) return self->end();
                            self->handle_input(bytes);
                          });
}

void Session::handle_input(std::size_t bytes) {
  if (bytes == 0 || input_.size() > io::kQueryLineMax) return end();
  if (input_.front() == '{') return answer_next_line();
  std::uint32_t magic = 0;
  if (input_.size() < sizeof magic) return read_more();
  std::memcpy(&magic, input_.data(), sizeof magic);
  if (magic != io::kLeaseMagic) return end();
  handle_lease_request();
}

void Session::handle_lease_request() {
  io::LeaseRequest request;
  constexpr std::size_t kVersionEnd = offsetof(io::LeaseRequest, version) + sizeof request.version;
  if (input_.size() < kVersionEnd) return read_more();
  std::memcpy(&request, input_.data(), std::min(input_.size(), sizeof request));
  if (request.version != io::kLeaseVersion) {
    refuse(socket_.native_handle(),
           {EPROTO, "brdmad is of another version (" BRDMA_VERSION ") than this program's library: end it with "
                    "'brdmad --stop' once the programs that use it are done"});
    return end();
  }
  if (input_.size() < sizeof request) return read_more();
  first_request_.cancel();
  request.program.back() = request.device.back() = '\0';
  if (!may_use(host_.options(), uid_)) {
    refuse(socket_.native_handle(), not_for_you());
    return end();
  }
  const auto granted = host_.book().grant({uid_, pid_, socket_.native_handle()}, request);
  if (!granted) {
    spdlog::warn("no lease for {} (pid {}): {}", io::get_text(request.program), pid_, granted.reason().message);
    return end();
  }
  slot_ = granted.value();
  spdlog::info("{} (pid {}, uid {}) leases slot {} for {}", io::get_text(request.program), pid_, uid_, *slot_,
               io::get_text(request.device));
  watch_lease();
}

// A client of a lease has nothing more to say: input is thrown away, its end is the lease's end.
void Session::watch_lease() {
  input_.resize(kReadBytes);
  socket_.async_read_some(asio::buffer(input_), [self = shared_from_this()](ErrorCode error, std::size_t) {
    if (error) return self->end();
    self->watch_lease();
  });
}

void Session::answer_next_line() {
  const std::size_t line_end = input_.find('\n');
  if (line_end == std::string::npos) return read_more();
  first_request_.cancel();
  const std::string line = input_.substr(0, line_end);
  input_.erase(0, line_end + 1);
  spdlog::debug("uid {} asks: {}", uid_, line);
  QueryAnswer answer = answer_query({host_.options(), host_.book(), host_.dual_stack(), uid_}, line);
  output_ = std::move(answer.line);
  asio::async_write(socket_, asio::buffer(output_),
                    [self = shared_from_this(), shutdown = answer.shutdown](ErrorCode error, std::size_t) {
                      if (shutdown) return self->host_.shut_down();
                      if (error) return self->end();
                      if (self->input_.empty()) return self->read_more();
                      self->answer_next_line();
                    });
}

void Session::end() {
  if (ended_) return;
  ended_ = true;
  first_request_.cancel();
  if (slot_) host_.book().end(*slot_);
  ErrorCode ignored;
  socket_.close(ignored);
  host_.session_ended(this);
}

}  // namespace brdma::daemon
