// brdmad/xdp_steering.h - the XDP program of an interface: RoCE packets of a lease's slots go to the AF_XDP socket of
// the queue that they came by, everything else goes on to the kernel as if the program were not there.
//
//   map `slots`:   receive queue -> slot whose packets its socket takes
//   map `lessees`: slot, counted from kExtraSlotsFirst -> slot of the lease that has its numbers; 0: itself
//   map `sockets`: receive queue -> AF_XDP socket; the kernel removes one that is closed
//
// What it leaves to the kernel: no IP or IP with options, fragments, extension headers, VLAN tags, other ports,
// multicast queue pairs, other slots, packets longer than the interface's MTU (several in one, not split yet: a UDP
// socket with UDP_GRO is told their sizes, an AF_XDP socket is not), and all where the socket is gone.
//
// The link that holds the program to the interface goes to each process with such a socket too, so that it outlives a
// daemon of which nothing is left; with --system it does not, since whoever has it can detach the program.
#pragma once

#include <linux/bpf.h>

#include <cstdint>
#include <map>
#include <vector>

#include "base/result.h"
#include "bitmaprdma/context.h"
#include "io/system/file_descriptor.h"
#include "shared_state.h"

namespace brdma::daemon {

enum class XdpHook : std::uint8_t { kDriver, kGeneric };

struct XdpSteering {
  io::FileDescriptor link, slots, lessees, sockets;
  bool orphaned = false;  // a daemon's of which nothing is left: who uses it is not known

  // EBUSY: somebody else's program is attached; EPERM; EOPNOTSUPP: no such hook. The message says what to do.
  static Result<XdpSteering, ContextError> attach(std::uint32_t ifindex, std::uint32_t mtu, XdpHook hook);
  // That of this interface, attached by whomever, by its number (CAP_SYS_ADMIN); without a link where none is found.
  static XdpSteering find(std::uint32_t ifindex);
  // Those of all interfaces of this network namespace, likewise; orphaned.
  static std::map<std::uint32_t, XdpSteering> find_all();

  [[nodiscard]] bool is_attached_to(std::uint32_t ifindex) const;
  [[nodiscard]] std::uint32_t program_id() const;

  // Whose packets the queue's socket took last; 0: none yet. The socket may be gone.
  [[nodiscard]] std::uint32_t slot_of(std::uint32_t queue) const;
  // From now on that queue's packets for `slot` go to `socket_fd`, an AF_XDP socket bound to the queue.
  [[nodiscard]] Status steer(std::uint32_t queue, std::uint32_t slot, int socket_fd) const;
  // From now on packets to those slots go where their lessees' go. After an error some may still go to the kernel, or
  // to whom they went before. ENOENT: the program is an earlier version's, without that map.
  [[nodiscard]] Status set_lessees(const Lessees& table) const;
};

using KeptSteerings = std::map<std::uint32_t, XdpSteering>;  // by interface

[[nodiscard]] bool is_attached(std::uint32_t program_id, std::uint32_t ifindex);

// The program, for maps that exist. Queues beyond the maps are left to the kernel.
[[nodiscard]] std::vector<bpf_insn> steering_program(int slots_map, int lessees_map, int sockets_map,
                                                     std::uint32_t mtu);

inline constexpr std::uint32_t kXdpQueuesMax = 64;

}  // namespace brdma::daemon
