#include "handover.h"

#include <sys/socket.h>

#include <array>
#include <span>
#include <utility>

#include "io/pass_descriptors.h"

namespace brdma::daemon {
namespace {

enum class Kind : std::uint32_t { kRelease, kKeep, kSocket };

struct Message {
  std::uint32_t slot = 0;
  Kind kind = Kind::kRelease;  // kRelease: close those of the slot; kKeep: two descriptors are attached; kSocket: one
};

bool send(int channel, const Message& content, std::span<const int> descriptors) {
  const ConstBytes bytes{reinterpret_cast<const std::byte*>(&content), sizeof content};
  return io::send_with_descriptors(channel, bytes, descriptors) == static_cast<ssize_t>(sizeof content);
}

}  // namespace

bool send_keep(int channel, std::uint32_t slot, int connection, int statistics) {
  return send(channel, {slot, Kind::kKeep}, std::array{connection, statistics});
}

bool send_release(int channel, std::uint32_t slot) { return send(channel, {slot, Kind::kRelease}, {}); }

bool send_socket(int channel, std::uint32_t slot, int socket_fd) {
  return send(channel, {slot, Kind::kSocket}, std::array{socket_fd});
}

void receive_handovers(int channel, KeptLeases& kept, SocketGroup& group) {
  for (;;) {
    Message content;
    std::array<io::FileDescriptor, 2> came;
    const ssize_t got = io::receive_with_descriptors(channel, {reinterpret_cast<std::byte*>(&content), sizeof content},
                                                     came, MSG_DONTWAIT);
    if (got != static_cast<ssize_t>(sizeof content) || content.slot >= kept.size()) return;
    if (content.kind == Kind::kSocket) {
      if (content.slot == group.sockets.size() && came[0].valid()) group.sockets.push_back(std::move(came[0]));
      continue;
    }
    KeptLease lease;
    if (content.kind == Kind::kKeep && came[1].valid()) {
      lease.connection = std::move(came[0]);
      lease.statistics = std::move(came[1]);
    }
    kept[content.slot] = std::move(lease);
  }
}

}  // namespace brdma::daemon
