// brdmad/udp/socket_group.h - the receive sockets of UDP port 4791: one per slot, steered by destination QPN.
//
// Sockets join one SO_REUSEPORT group in slot order. A classic BPF program returns the slot of BTH's destination QPN,
// which the kernel takes as index into the group in the order of joining. When a member closes, the kernel moves the
// last one into its place: so all stay open until all are closed. There are kSlotsAtFirst at the start, and more when
// they are needed.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "bitmaprdma/context.h"
#include "io/system/file_descriptor.h"

namespace brdma::daemon {

inline constexpr std::uint32_t kSlotsAtFirst = 256, kSlotsAStep = 256;

// A slot without a socket of its own: its packets go to the socket of another.
struct ExtraSlot {
  std::uint32_t slot = 0, lessee = 0;
};

struct SocketGroup {
  std::vector<io::FileDescriptor> sockets;  // by slot
  bool dual_stack = false;
};

// Waits up to a second for the port: sockets of a killed daemon take a moment to go. Errors: EADDRINUSE with the owner
// of the port; EMFILE.
[[nodiscard]] Result<SocketGroup, ContextError> open_socket_group();

// Adds sockets, up to `count` in all. After an error the group is as it was.
[[nodiscard]] ContextError grow(SocketGroup& group, std::uint32_t count);
// Steers packets to the existing sockets; packets of `extra` slots, which have none, to their lessees'. Packets for
// other slots go to slot 0 and are dropped. Atomic: no packet is misrouted meanwhile.
[[nodiscard]] ContextError steer(const SocketGroup& group, std::span<const ExtraSlot> extra);

// Raises the limit to as many descriptors as this user may have: it bounds those open and in flight (vault.h). EMFILE:
// too few.
[[nodiscard]] ContextError raise_file_limit();
// The limit of this process.
[[nodiscard]] std::uint64_t file_limit();

// Drops the waiting datagrams of the socket, at most some ten thousand. Returns how many.
std::uint32_t drain(int socket_fd);

// Buffer size of a socket in use (as much as this user may have) and of one that waits for a lease (minimal, so that
// stray packets cannot fill the memory).
void set_leased_buffer(int socket_fd);
void set_idle(int socket_fd);

}  // namespace brdma::daemon
