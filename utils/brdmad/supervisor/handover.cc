#include "supervisor/handover.h"

#include <sys/socket.h>

#include <array>
#include <span>
#include <utility>

#include "io/system/pass_descriptors.h"

namespace brdma::daemon {
namespace {

// kRelease: close those of the slot; kKeep: two descriptors are attached; kSocket, kTable: one; kSteering: four.
enum class Kind : std::uint32_t { kRelease, kKeep, kSocket, kTable, kNoTable, kSteering, kNoSteering };

struct Message {
  std::uint32_t number = 0;  // slot, user, or interface
  Kind kind = Kind::kRelease;
};
using Came = std::array<io::FileDescriptor, 4>;

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

bool send_steering(int channel, std::uint32_t ifindex, const XdpSteering& steering) {
  return send(channel, {ifindex, Kind::kSteering},
              std::array{steering.link.get(), steering.slots.get(), steering.lessees.get(), steering.sockets.get()});
}

bool send_no_steering(int channel, std::uint32_t ifindex) { return send(channel, {ifindex, Kind::kNoSteering}, {}); }

bool send_socket(int channel, std::uint32_t slot, int socket_fd) {
  return send(channel, {slot, Kind::kSocket}, std::array{socket_fd});
}

void receive_handovers(int channel, Kept& kept, SocketGroup& group) {
  for (;;) {
    Message content;
    Came came;
    const ssize_t got = io::receive_with_descriptors(channel, {reinterpret_cast<std::byte*>(&content), sizeof content},
                                                     came, MSG_DONTWAIT);
    if (got != static_cast<ssize_t>(sizeof content)) return;
    switch (content.kind) {
      case Kind::kRelease:
      case Kind::kKeep:
        keep(content, came, kept.leases);
        break;
      case Kind::kSocket:
        if (content.number == group.sockets.size() && came[0].valid()) group.sockets.push_back(std::move(came[0]));
        break;
      case Kind::kTable:
        if (came[0].valid()) kept.tables.insert_or_assign(content.number, std::move(came[0]));
        break;
      case Kind::kNoTable:
        kept.tables.erase(content.number);
        break;
      case Kind::kSteering:
        if (came[3].valid())
          kept.steerings.insert_or_assign(content.number, XdpSteering{std::move(came[0]), std::move(came[1]),
                                                                      std::move(came[2]), std::move(came[3])});
        break;
      case Kind::kNoSteering:
        kept.steerings.erase(content.number);
    }
  }
}

}  // namespace brdma::daemon
