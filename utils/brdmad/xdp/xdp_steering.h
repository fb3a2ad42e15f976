// brdmad/xdp/xdp_steering.h - the XDP program of an interface: RoCE packets of a lease's slots go to the AF_XDP socket
// of their receive queue, all others to the kernel as if the program were not there.
//
//   map `slots`:   receive queue -> slot whose packets its socket takes
//   map `lessees`: slot, counted from kExtraSlotsFirst -> slot of the lease that has its numbers; 0: itself
//   map `sockets`: receive queue -> AF_XDP socket; the kernel removes one that is closed
//
// Left to the kernel: packets without IP or with IP options, fragments, extension headers, VLAN tags, other ports,
// multicast queue pairs, other slots, packets longer than the interface's MTU, and all packets when the socket is gone.
// A packet over the MTU is several in one, not split yet: UDP_GRO reports their sizes to a UDP socket; an AF_XDP socket
// gets no sizes.
//
// Each process with such a socket gets the link that attaches the program too, so that it outlives a daemon that left
// nothing. With --system it does not: a process with the link can detach the program.
#pragma once

#include <linux/bpf.h>

#include <cstdint>
#include <map>
#include <vector>

#include "base/result.h"
#include "bitmaprdma/context.h"
#include "io/system/file_descriptor.h"
#include "lease/shared_state.h"

namespace brdma::daemon {

enum class XdpHook : std::uint8_t { kDriver, kGeneric };

struct XdpSteering {
  io::FileDescriptor link, slots, lessees, sockets;
  bool orphaned = false;  // from a daemon that left nothing: its users are not known

  // EBUSY: a foreign program is attached; EPERM; EOPNOTSUPP: no such hook. The message names the remedy.
  static Result<XdpSteering, ContextError> attach(std::uint32_t ifindex, std::uint32_t mtu, XdpHook hook);
  // The steering of this interface, whoever attached it, found by number (CAP_SYS_ADMIN); no link if none is found.
  static XdpSteering find(std::uint32_t ifindex);
  // The same for all interfaces of this network namespace; orphaned.
  static std::map<std::uint32_t, XdpSteering> find_all();

  [[nodiscard]] bool is_attached_to(std::uint32_t ifindex) const;
  [[nodiscard]] std::uint32_t program_id() const;

  // The slot whose packets the queue's socket took last; 0: none yet. The socket may be gone.
  [[nodiscard]] std::uint32_t slot_of(std::uint32_t queue) const;
  // From now on that queue's packets for `slot` go to `socket_fd`, an AF_XDP socket bound to the queue.
  [[nodiscard]] Status steer(std::uint32_t queue, std::uint32_t slot, int socket_fd) const;
  // From now on packets to those slots go to their lessees' sockets. After an error some may still go to the kernel, or
  // to the earlier lessees. ENOENT: the program is of an earlier version, without that map.
  [[nodiscard]] Status set_lessees(const Lessees& table) const;
};

using KeptSteerings = std::map<std::uint32_t, XdpSteering>;  // by interface

[[nodiscard]] bool is_attached(std::uint32_t program_id, std::uint32_t ifindex);

// The program, for maps that exist. Queues beyond the maps are left to the kernel.
[[nodiscard]] std::vector<bpf_insn> steering_program(int slots_map, int lessees_map, int sockets_map,
                                                     std::uint32_t mtu);

inline constexpr std::uint32_t kXdpQueuesMax = 64;

}  // namespace brdma::daemon
