// brdmad/socket_group.h - the receive sockets of UDP port 4791: one per slot, steered by destination QPN.
//
// Sockets join one SO_REUSEPORT group in slot order; a classic BPF program returns the slot of BTH's destination QPN,
// which the kernel takes as index into the group in the order of joining. When a member closes, the kernel moves the
// last one into its place: so all stay open until all are closed. There are kSlotsAtFirst, and more when they are
// needed.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "bitmaprdma/context.h"
#include "io/system/file_descriptor.h"

namespace brdma::daemon {

inline constexpr std::uint32_t kSlotsAtFirst = 256, kSlotsAStep = 256;

// A slot without a socket of its own: what is sent to it comes to that of another.
struct ExtraSlot {
  std::uint32_t slot = 0, lessee = 0;
};

struct SocketGroup {
  std::vector<io::FileDescriptor> sockets;  // by slot
  bool dual_stack = false;
};

// Waits up to a second for the port: sockets of a daemon that was killed take a moment to go.
// Errors: EADDRINUSE with who has the port; EMFILE.
[[nodiscard]] Result<SocketGroup, ContextError> open_socket_group();

// Adds sockets, up to `count` in all. After an error the group is as it was.
[[nodiscard]] ContextError grow(SocketGroup& group, std::uint32_t count);
// Makes packets go to the sockets that there are, and of `extra`, whose slots have none, to their lessees'. What is for
// other slots goes to slot 0, where it is thrown away. At once: no packet goes astray meanwhile.
[[nodiscard]] ContextError steer(const SocketGroup& group, std::span<const ExtraSlot> extra);

// As many descriptors as this user may have: of them hang how many may be open, and in flight (vault.h). EMFILE: too
// few.
[[nodiscard]] ContextError raise_file_limit();
// How many this process may have.
[[nodiscard]] std::uint64_t file_limit();

// Throws away what waits in the socket; at most some ten thousand datagrams. Returns how many.
std::uint32_t drain(int socket_fd);

// Buffer for a socket in use (as much as this user may have) and for one that waits for a lease (next to nothing, so
// that strays can't fill the memory).
void set_leased_buffer(int socket_fd);
void set_idle(int socket_fd);

}  // namespace brdma::daemon
