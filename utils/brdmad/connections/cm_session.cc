#include "connections/cm_session.h"

#include <spdlog/spdlog.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "io/daemon/lease_protocol.h"

namespace brdma::daemon {
namespace {

constexpr std::uint16_t kPrivilegedPorts = 1024;
// RDMA-CM's port space is separate from TCP's; the range of free ports is Linux' default.
constexpr std::uint16_t kFreePortFirst = 32'768, kFreePortLast = 60'999;

PortClaim claim_of(const io::CmFrame& frame) {
  return {.space = static_cast<wire::PortSpace>(frame.space),
          .address = frame.local,
          .port = frame.port,
          .reuse = (frame.flags & io::kCmReusePort) != 0,
          .ipv6_only = (frame.flags & io::kCmIpv6Only) != 0};
}

}  // namespace

CmSession::CmSession(Socket socket, std::uint32_t uid, std::uint32_t pid, std::string input, ManagementPort& port,
                     UserAccounts& accounts, std::function<void(CmSession*)> ended)
    : socket_(std::move(socket)),
      uid_(uid),
      pid_(pid),
      reader_(socket_, accounts, uid),
      port_(port),
      ended_(std::move(ended)) {
  reader_.input = std::move(input);
}

void CmSession::start() { take_input(); }

void CmSession::read_more() {
  reader_.read(shared_from_this(), [this](boost::system::error_code error) {
    if (error) return end();
    take_input();
  });
}

void CmSession::take_input() {
  if (prefix_ == 0 && reader_.input.size() >= sizeof(io::CmHello) && !take_hello()) return end();
  std::size_t taken = 0;
  if (prefix_ != 0) {
    // A message may end the session: nobody would give back resources requested after that.
    for (io::CmFrame frame; socket_.is_open() && reader_.input.size() - taken >= sizeof frame; taken += sizeof frame) {
      std::memcpy(static_cast<void*>(&frame), reader_.input.data() + taken, sizeof frame);
      take_frame(frame);
    }
  }
  reader_.input.erase(0, taken);
  if (socket_.is_open()) read_more();
}

// False: not a message of this protocol, or no room.
bool CmSession::take_hello() {
  io::CmHello hello;
  std::memcpy(&hello, reader_.input.data(), sizeof hello);
  reader_.input.erase(0, sizeof hello);
  io::CmFrame frame{.kind = io::CmFrameKind::kHello};
  if (hello.magic != io::kCmMagic || hello.version != io::kCmVersion) {
    frame.error = EPROTO;
    (void)write(frame);
    return false;
  }
  hello.program.back() = '\0';
  ManagementPort::Process process{pid_ != 0 ? pid_ : hello.pid, std::string(io::get_text(hello.program))};
  const auto prefix =
      port_.attach(hello.prefix, std::move(process), [weak = weak_from_this()](const io::CmFrame& to_process) {
        const auto self = weak.lock();
        return self != nullptr && self->socket_.is_open() && self->write(to_process);
      });
  if (!prefix) return false;
  prefix_ = frame.prefix = *prefix;
  return write(frame);
}

void CmSession::take_frame(const io::CmFrame& frame) {
  if (frame.kind == io::CmFrameKind::kMad) return port_.send(prefix_, frame);
  if (frame.kind == io::CmFrameKind::kCounters) {
    cm::Counters counters;
    std::memcpy(&counters, frame.mad.data(), sizeof counters);
    return port_.report(prefix_, counters);
  }
  if (!write(answer(frame))) end();  // the client does not read its answers
}

io::CmFrame CmSession::answer(const io::CmFrame& question) {
  io::CmFrame reply{.kind = question.kind, .port = question.port, .number = question.number};
  const PortClaim claim = claim_of(question);
  switch (question.kind) {
    case io::CmFrameKind::kTakePort: {
      if (claim.port != 0 && claim.port < kPrivilegedPorts && uid_ != 0) {
        reply.error = EACCES;
        break;
      }
      const auto port = port_.ports().take(prefix_, claim, kFreePortFirst, kFreePortLast);
      if (port) {
        reply.port = port.value();
      } else {
        reply.error = port.reason().error();
      }
      break;
    }
    case io::CmFrameKind::kListenPort:
      reply.error = port_.ports().listen(prefix_, claim).error();
      port_.look();
      break;
    case io::CmFrameKind::kReleasePort:
      port_.ports().release(prefix_, claim, (question.flags & io::kCmListening) != 0);
      break;
    default:
      reply.error = EINVAL;
  }
  return reply;
}

// All or nothing: nothing can follow half a frame. A process whose buffer is full loses messages, as on the network.
bool CmSession::write(const io::CmFrame& frame) {
  const ssize_t sent = ::send(socket_.native_handle(), &frame, sizeof frame, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent == static_cast<ssize_t>(sizeof frame)) return true;
  if (sent > 0) ::shutdown(socket_.native_handle(), SHUT_RDWR);
  return false;
}

void CmSession::end() {
  if (!socket_.is_open()) return;
  if (prefix_ != 0) port_.detach(prefix_);
  boost::system::error_code ignored;
  socket_.close(ignored);
  if (ended_) std::exchange(ended_, nullptr)(this);
}

}  // namespace brdma::daemon
