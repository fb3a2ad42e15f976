#include "handover.h"

#include <sys/socket.h>

#include <array>
#include <span>
#include <utility>

#include "io/pass_descriptors.h"

namespace brdma::daemon {
namespace {

// kRelease: close those of the slot; kKeep: two descriptors are attached; kSocket, kTable: one.
enum class Kind : std::uint32_t { kRelease, kKeep, kSocket, kTable, kNoTable };

struct Message {
  std::uint32_t number = 0;  // slot, or whose table it is
  Kind kind = Kind::kRelease;
};
using Came = std::array<io::FileDescriptor, 2>;

bool send(int channel, const Message& content, std::span<const int> descriptors) {
  const ConstBytes bytes{reinterpret_cast<const std::byte*>(&content), sizeof content};
  return io::send_with_descriptors(channel, bytes, descriptors) == static_cast<ssize_t>(sizeof content);
}

void keep(const Message& content, Came& came, KeptLeases& kept) {
  if (content.number >= kept.size()) return;
  KeptLease lease;
  if (content.kind == Kind::kKeep && came[1].valid()) {
    lease.connection = std::move(came[0]);
    lease.statistics = std::move(came[1]);
  }
  kept[content.number] = std::move(lease);
}

}  // namespace

bool send_keep(int channel, std::uint32_t slot, int connection, int statistics) {
  return send(channel, {slot, Kind::kKeep}, std::array{connection, statistics});
}

bool send_release(int channel, std::uint32_t slot) { return send(channel, {slot, Kind::kRelease}, {}); }

bool send_table(int channel, std::uint32_t uid, int table) {
  return send(channel, {uid, Kind::kTable}, std::array{table});
}

bool send_no_table(int channel, std::uint32_t uid) { return send(channel, {uid, Kind::kNoTable}, {}); }

bool send_socket(int channel, std::uint32_t slot, int socket_fd) {
  return send(channel, {slot, Kind::kSocket}, std::array{socket_fd});
}

void receive_handovers(int channel, KeptLeases& kept, KeptTables& tables, SocketGroup& group) {
  for (;;) {
    Message content;
    Came came;
    const ssize_t got = io::receive_with_descriptors(channel, {reinterpret_cast<std::byte*>(&content), sizeof content},
                                                     came, MSG_DONTWAIT);
    if (got != static_cast<ssize_t>(sizeof content)) return;
    switch (content.kind) {
      case Kind::kRelease:
      case Kind::kKeep:
        keep(content, came, kept);
        break;
      case Kind::kSocket:
        if (content.number == group.sockets.size() && came[0].valid()) group.sockets.push_back(std::move(came[0]));
        break;
      case Kind::kTable:
        if (came[0].valid()) tables.insert_or_assign(content.number, std::move(came[0]));
        break;
      case Kind::kNoTable:
        tables.erase(content.number);
    }
  }
}

}  // namespace brdma::daemon
