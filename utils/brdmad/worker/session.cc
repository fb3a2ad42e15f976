#include "worker/session.h"

#include <spdlog/spdlog.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/asio/write.hpp>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>

#include "io/cm/cm_protocol.h"
#include "io/system/pass_descriptors.h"
#include "io/xdp/xdp_protocol.h"
#include "queries/management.h"
#include "queries/queries.h"
#include "xdp/xdp_answer.h"
#include "xdp/xdp_right.h"

namespace brdma::daemon {
namespace {

constexpr std::chrono::seconds kFirstRequestMax{10};
constexpr std::chrono::seconds kAnswerReadWithin{10};

using ErrorCode = boost::system::error_code;

// An answer is short and the client reads at once: a line that does not fit the buffer is not sent.
// 0, or errno; EAGAIN where a part of it fitted.
int send_line(int fd, std::string_view text) {
  const ssize_t sent = ::send(fd, text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent < 0) return errno;
  return sent == static_cast<ssize_t>(text.size()) ? 0 : EAGAIN;
}

}  // namespace

Session::Peer Session::peer_of(const Socket& socket) {
  ucred peer{};
  socklen_t length = sizeof peer;
  auto& fd = const_cast<Socket&>(socket);  // Asio's accessor is not const
  if (::getsockopt(fd.native_handle(), SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) return {};
  return {peer.uid, static_cast<std::uint32_t>(peer.pid)};
}

Session::Session(Socket socket, SessionHost& host)
    : socket_(std::move(socket)),
      host_(host),
      peer_(peer_of(socket_)),
      time_(socket_.get_executor()),
      reader_(socket_, host.accounts(), peer_.uid),
      input_(reader_.input),
      output_held_(host.accounts(), peer_.uid) {}

void Session::start() {
  time_.expires_after(kFirstRequestMax);
  time_.async_wait([self = shared_from_this()](ErrorCode error) {
    if (!error) self->end();
  });
  read_more();
}

void Session::resume_lease(std::uint32_t slot) {
  host_.watch().lease_adopted(slot);
  begin_lease(slot, /*adopted=*/true);
}

void Session::begin_lease(std::uint32_t slot, bool adopted) {
  input_.clear();
  const auto write = [weak = weak_from_this()](std::string_view text) {
    const auto self = weak.lock();
    return self == nullptr || self->ended_ ? EPIPE : send_line(self->socket_.native_handle(), text);
  };
  link_ = std::make_shared<LeaseLink>(slot, write, BytesFor{host_.accounts(), peer_.uid}, adopted);
  host_.linked(link_);
  host_.watch().lease_begun();
  watch_lease();
}

void Session::read_more() {
  reader_.read(shared_from_this(), [this](ErrorCode error) {
    if (error) return end();
    handle_input();
  });
}

void Session::handle_input() {
  if (input_.size() > io::kQueryLineMax) return end();
  if (input_.front() == '{') return answer_next_line();
  std::uint32_t magic = 0;
  if (input_.size() < sizeof magic) return read_more();
  std::memcpy(&magic, input_.data(), sizeof magic);
  if (magic == io::kCmMagic) return handle_cm();
  if (magic == io::kXdpMagic) return handle_xdp();
  if (magic == io::kSlotMagic) return handle_slot_request();
  if (magic != io::kLeaseMagic) return end();
  handle_lease_request();
}

// A program that has a lease was served before it changed its user, and keeps its lease.
bool Session::is_served() const {
  return may_use(host_.options(), peer_.uid) || (peer_.pid != 0 && host_.book().has_lease(peer_.pid));
}

void Session::handle_cm() {
  if (input_.size() < sizeof(io::CmHello)) return read_more();
  time_.cancel();
  if (!is_served()) return end();
  Socket socket{socket_.get_executor()};
  std::swap(socket, socket_);
  host_.begin_cm(std::move(socket), peer_.uid, peer_.pid, std::move(input_));
  end();
}

// One query, one answer; the process closes.
void Session::handle_xdp() {
  io::XdpRequest request;
  if (input_.size() < sizeof request) return read_more();
  std::memcpy(&request, input_.data(), sizeof request);
  input_.erase(0, sizeof request);
  if (request.version != io::kXdpVersion || request.transmit_chunks == 0) {
    time_.cancel();
    answer_xdp(socket_.native_handle(), host_.book(), peer_.uid, request, false);
    return end();
  }
  const char ask = io::kXdpShowRight;
  if (::send(socket_.native_handle(), &ask, sizeof ask, MSG_DONTWAIT | MSG_NOSIGNAL) != sizeof ask) return end();
  socket_.async_wait(Socket::wait_read, [this, self = shared_from_this(), request](ErrorCode error) {
    if (error) return end();
    take_right(request);
  });
}

void Session::take_right(const io::XdpRequest& request) {
  time_.cancel();
  std::array<std::byte, 1> answer{};
  std::array<io::FileDescriptor, 1> shown;
  if (io::receive_with_descriptors(socket_.native_handle(), answer, shown, MSG_DONTWAIT) != 1) return end();
  const auto& named = host_.options().xdp_transmit_users;
  const bool right = proves_right_to_transmit(shown[0].get()) || std::ranges::find(named, peer_.uid) != named.end();
  answer_xdp(socket_.native_handle(), host_.book(), peer_.uid, request, right);
  end();
}

void Session::handle_lease_request() {
  io::LeaseRequest request;
  constexpr std::size_t kVersionEnd = offsetof(io::LeaseRequest, version) + sizeof request.version;
  if (input_.size() < kVersionEnd) return read_more();
  std::memcpy(&request, input_.data(), std::min(input_.size(), sizeof request));
  if (request.version != io::kLeaseVersion) {
    refuse(socket_.native_handle(),
           {EPROTO, "brdmad (" BRDMA_VERSION ") speaks lease protocol " + std::to_string(io::kLeaseVersion) +
                        ", this program's library " + std::to_string(request.version) +
                        ": they are of different versions. End brdmad with 'brdmad --stop' once the programs that use "
                        "it are done"});
    return end();
  }
  if (input_.size() < sizeof request) return read_more();
  time_.cancel();
  request.program.back() = request.device.back() = '\0';
  if (!is_served()) {
    refuse(socket_.native_handle(), not_for_you());
    return end();
  }
  const auto granted = host_.book().grant({peer_.uid, peer_.pid, socket_.native_handle()}, request);
  if (!granted) {
    spdlog::warn("no lease for {} (pid {}): {}", io::get_text(request.program), peer_.pid, granted.reason().message);
    return end();
  }
  spdlog::info("{} (pid {}, uid {}) leases slot {} for {}", io::get_text(request.program), peer_.pid, peer_.uid,
               granted.value(), io::get_text(request.device));
  begin_lease(granted.value());
}

// One query, one answer; the process closes.
void Session::handle_slot_request() {
  io::SlotRequest request;
  if (input_.size() < sizeof request) return read_more();
  time_.cancel();
  std::memcpy(&request, input_.data(), sizeof request);
  io::SlotReply reply;
  const auto refused = [&reply](const ContextError& reason) {
    reply.error = reason.error;
    io::put_text(reply.message, reason.message);
  };
  if (request.version != io::kLeaseVersion) {
    refused({EPROTO, "brdmad is of another version than this program's library"});
  } else if (const auto extended = host_.book().extend(peer_.uid, request); extended) {
    reply.slot = extended.value();
  } else {
    spdlog::warn("no more queue pair numbers for lease {}: {}", request.lease_id, extended.reason().message);
    refused(extended.reason());
  }
  // It fits the empty buffer of a connection without earlier messages.
  static_cast<void>(!::send(socket_.native_handle(), &reply, sizeof reply, MSG_DONTWAIT | MSG_NOSIGNAL));
  end();
}

// A client with a lease sends nothing unless queried; its end is the lease's end.
void Session::watch_lease() {
  reader_.read(shared_from_this(), [this](ErrorCode error) {
    if (error) return end();
    link_->take(std::exchange(input_, {}));
    watch_lease();
  });
}

void Session::answer_next_line() {
  const std::size_t line_end = input_.find('\n');
  if (line_end == std::string::npos) return read_more();
  time_.cancel();
  const std::string line = input_.substr(0, line_end);
  input_.erase(0, line_end + 1);
  spdlog::debug("uid {} asks: {}", peer_.uid, line);
  const bool begun = begin_management(host_, peer_.uid, line, [self = shared_from_this()](std::string answer) {
    if (!self->ended_) self->write_answer(std::move(answer), false);
  });
  if (begun) return;
  QueryAnswer answer = answer_query({host_.options(), host_.book(), host_.management_port(), host_.icmp_intake(),
                                     host_.controller_link(), host_.gid_book(), host_.dual_stack(), peer_.uid},
                                    line);
  write_answer(std::move(answer.line), answer.shutdown);
}

void Session::write_answer(std::string line, bool shutdown) {
  output_ = std::move(line);
  if (!output_held_.set(output_.capacity())) return end();
  time_.expires_after(kAnswerReadWithin);  // a client that does not read its answer keeps its memory in use
  time_.async_wait([self = shared_from_this()](ErrorCode error) {
    if (!error) self->end();
  });
  asio::async_write(socket_, asio::buffer(output_),
                    [self = shared_from_this(), shutdown](ErrorCode error, std::size_t) {
                      self->time_.cancel();
                      std::string{}.swap(self->output_);
                      static_cast<void>(self->output_held_.set(0));
                      if (shutdown) return self->host_.shut_down();
                      if (error) return self->end();
                      if (self->input_.empty()) return self->read_more();
                      self->reader_.go_on(self, [session = self.get()](ErrorCode ended) {
                        return ended ? session->end() : session->answer_next_line();
                      });
                    });
}

void Session::end() {
  if (ended_) return;
  ended_ = true;
  time_.cancel();
  if (link_) {
    link_->end();
    host_.watch().lease_ending(link_->slot());
    host_.book().end(link_->slot());
  }
  ErrorCode ignored;
  socket_.close(ignored);
  host_.session_ended(this);
}

}  // namespace brdma::daemon
