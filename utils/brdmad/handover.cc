#include "handover.h"

#include <sys/socket.h>

#include <array>
#include <span>
#include <utility>

#include "io/pass_descriptors.h"

namespace brdma::daemon {
namespace {

struct Message {
  std::uint32_t slot = 0;
  std::uint32_t keep = 0;  // 1: two descriptors are attached; 0: close those of the slot
};

bool send(int channel, const Message& content, std::span<const int> descriptors) {
  const ConstBytes bytes{reinterpret_cast<const std::byte*>(&content), sizeof content};
  return io::send_with_descriptors(channel, bytes, descriptors) == static_cast<ssize_t>(sizeof content);
}

}  // namespace

bool send_keep(int channel, std::uint32_t slot, int connection, int statistics) {
  return send(channel, {slot, 1}, std::array{connection, statistics});
}

bool send_release(int channel, std::uint32_t slot) { return send(channel, {slot, 0}, {}); }

void receive_handovers(int channel, KeptLeases& kept) {
  for (;;) {
    Message content;
    std::array<io::FileDescriptor, 2> came;
    const ssize_t got = io::receive_with_descriptors(channel, {reinterpret_cast<std::byte*>(&content), sizeof content},
                                                     came, MSG_DONTWAIT);
    if (got != static_cast<ssize_t>(sizeof content) || content.slot >= kept.size()) return;
    KeptLease lease;
    if (content.keep != 0 && came[1].valid()) {
      lease.connection = std::move(came[0]);
      lease.statistics = std::move(came[1]);
    }
    kept[content.slot] = std::move(lease);
  }
}

}  // namespace brdma::daemon
