#include "io/xdp/xdp_request.h"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <span>
#include <utility>

#include "io/daemon/daemon_connection.h"
#include "io/daemon/lease_protocol.h"
#include "io/system/pass_descriptors.h"
#include "io/system/sealed_memory.h"
#include "io/udp/open_socket.h"

namespace brdma::io {
namespace {

constexpr std::chrono::seconds kTimeout{10};
constexpr int kFreeingTries = 200, kFreeingPauseMs = 5;

// Requested by brdmad: a process that can make a packet socket may put any frame on the network.
Status show_right(int fd, Deadline deadline) {
  if (!wait_readable(fd, deadline)) return Status{ETIMEDOUT};
  char asked = 0;
  if (::recv(fd, &asked, sizeof asked, 0) != sizeof asked || asked != kXdpShowRight) return Status{EPROTO};
  const FileDescriptor right{open_socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0)};
  const std::array<int, 1> shown{right.get()};
  const std::byte answer{static_cast<unsigned char>(kXdpShowRight)};
  const auto descriptors = std::span{shown}.first(right.valid() ? 1 : 0);
  return send_with_descriptors(fd, {&answer, 1}, descriptors) == 1 ? Status::success() : Status{errno};
}

struct Answer {
  XdpReply reply;
  XdpDescriptors descriptors;
};

bool is_asked_for(std::uint32_t given, std::uint32_t asked) { return given == 0 || given == asked; }

// The whole answer with its descriptors comes in one message of a connection without earlier messages.
Result<Answer, ContextError> read_answer(int fd, const XdpRequest& request, Deadline deadline) {
  if (!wait_readable(fd, deadline)) return daemon_silent();
  Answer answer;
  std::array<FileDescriptor, kXdpDescriptors> came;
  const ssize_t got =
      receive_with_descriptors(fd, {reinterpret_cast<std::byte*>(&answer.reply), sizeof answer.reply}, came);
  answer.descriptors = {std::move(came[0]), std::move(came[1]), std::move(came[2])};
  const XdpReply& reply = answer.reply;
  if (got != sizeof reply || reply.magic != kXdpMagic || reply.version != kXdpVersion)
    return ContextError{EPROTO, "brdmad knows nothing of AF_XDP: it is of another version"};
  if (reply.error != 0) return ContextError{reply.error, std::string{get_text(reply.message)}};
  if (!is_asked_for(reply.receive_chunks, request.receive_chunks) ||
      !is_asked_for(reply.transmit_chunks, request.transmit_chunks))
    return ContextError{EPROTO, "brdmad's answer has other rings than were asked for"};
  const std::size_t chunks = std::size_t{reply.receive_chunks} + reply.transmit_chunks;
  if (!is_sealed_memory(answer.descriptors.memory.get(), chunks * kXdpChunkBytes))
    return ContextError{EPROTO, "brdmad's answer has no AF_XDP socket"};
  return answer;
}

Result<Answer, ContextError> ask_once(const XdpRequest& request, Deadline deadline) {
  auto connected = connect_to_daemon(deadline);
  if (!connected) return connected.reason();
  const int fd = connected.value().get();
  if (ContextError refused = check_owner(fd); refused.error != 0) return refused;
  if (const Status sent = send_all(fd, &request, sizeof request, deadline); !sent.ok())
    return daemon_left(sent.error());
  if (request.transmit_chunks > 0) {
    if (const Status shown = show_right(fd, deadline); !shown.ok())
      return ContextError{shown.error(), "brdmad knows nothing of transmitting by AF_XDP: it is of another version"};
  }
  return read_answer(fd, request, deadline);
}

Result<XdpSockets, ContextError> open_both(Answer answer) {
  XdpSockets sockets;
  XdpDescriptors& descriptors = answer.descriptors;
  if (answer.reply.transmit_chunks > 0) {
    auto opened = XdpTransmit::open(descriptors.socket.get(), descriptors.memory.get(), answer.reply);
    if (!opened) return opened.reason();
    sockets.transmit = std::move(opened).value();
  } else {
    sockets.why_not_transmit = get_text(answer.reply.message);
  }
  if (answer.reply.receive_chunks > 0) {
    auto opened = XdpSocket::open(std::move(descriptors), answer.reply);
    if (!opened) return opened.reason();
    sockets.receive = std::move(opened).value();
  }
  return sockets;
}

}  // namespace

Result<XdpSockets, ContextError> request_xdp(const Lease& lease, const XdpWant& want) {
  XdpRequest request;
  request.lease_id = lease.id;
  request.slot = lease.slot;
  request.mode = want.mode;
  request.receive_chunks = want.receive_chunks;
  request.transmit_chunks = want.transmit_chunks;
  const Deadline deadline = std::chrono::steady_clock::now() + kTimeout;
  auto answer = ask_once(request, deadline);
  // The kernel does not notify when it has freed a queue.
  for (int tries = 0; !answer && answer.reason().error == EAGAIN && tries < kFreeingTries; ++tries) {
    ::poll(nullptr, 0, kFreeingPauseMs);
    answer = ask_once(request, deadline);
  }
  if (!answer) return answer.reason();
  return open_both(std::move(answer).value());
}

}  // namespace brdma::io
