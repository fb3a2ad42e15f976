#include "handover.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace brdma::daemon {
namespace {

struct Message {
  std::uint32_t slot = 0;
  std::uint32_t keep = 0;  // 1: two descriptors are attached; 0: close those of the slot
};

bool send(int channel, Message content, const std::array<int, 2>* descriptors) {
  iovec part{&content, sizeof content};
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(2 * sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (descriptors != nullptr) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof *descriptors);
    std::memcpy(CMSG_DATA(header), descriptors->data(), sizeof *descriptors);
  }
  ssize_t sent = 0;
  while ((sent = ::sendmsg(channel, &message, MSG_NOSIGNAL)) < 0 && errno == EINTR) {
  }
  return sent == static_cast<ssize_t>(sizeof content);
}

}  // namespace

bool send_keep(int channel, std::uint32_t slot, int connection, int statistics) {
  const std::array<int, 2> descriptors{connection, statistics};
  return send(channel, {slot, 1}, &descriptors);
}

bool send_release(int channel, std::uint32_t slot) { return send(channel, {slot, 0}, nullptr); }

void receive_handovers(int channel, KeptLeases& kept) {
  for (;;) {
    Message content;
    iovec part{&content, sizeof content};
    alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(2 * sizeof(int))> control{};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t got = ::recvmsg(channel, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got < 0 && errno == EINTR) continue;
    if (got != static_cast<ssize_t>(sizeof content) || content.slot >= kept.size()) return;
    KeptLease lease;
    const cmsghdr* header = CMSG_FIRSTHDR(&message);
    if (content.keep != 0 && header != nullptr && header->cmsg_type == SCM_RIGHTS &&
        header->cmsg_len == CMSG_LEN(2 * sizeof(int))) {
      std::array<int, 2> descriptors{};
      std::memcpy(descriptors.data(), CMSG_DATA(header), sizeof descriptors);
      lease.connection.reset(descriptors[0]);
      lease.statistics.reset(descriptors[1]);
    }
    kept[content.slot] = std::move(lease);
  }
}

}  // namespace brdma::daemon
