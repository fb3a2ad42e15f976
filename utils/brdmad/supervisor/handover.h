// brdmad/supervisor/handover.h - the worker hands descriptors to its holder: each lease's connection and statistics
// page, each user's table, the steering to AF_XDP sockets, and sockets added to the group. So a worker that dies takes
// no lease with it. One SOCK_SEQPACKET message each; messages of a dead worker are still read.
#pragma once

#include <array>
#include <cstdint>

#include "io/daemon/lease_protocol.h"
#include "io/system/file_descriptor.h"
#include "lease/use_tables.h"
#include "udp/socket_group.h"
#include "xdp/xdp_steering.h"

namespace brdma::daemon {

struct KeptLease {
  io::FileDescriptor connection, statistics;
};
using KeptLeases = std::array<KeptLease, io::kSlotCount>;  // by slot; the next worker inherits them

// Worker's side. Blocks only while the holder reads. False: the holder is gone.
[[nodiscard]] bool send_keep(int channel, std::uint32_t slot, int connection, int statistics);
[[nodiscard]] bool send_release(int channel, std::uint32_t slot);
[[nodiscard]] bool send_table(int channel, std::uint32_t uid, int table);
[[nodiscard]] bool send_no_table(int channel, std::uint32_t uid);
[[nodiscard]] bool send_steering(int channel, std::uint32_t ifindex, const XdpSteering& steering);
[[nodiscard]] bool send_no_steering(int channel, std::uint32_t ifindex);
[[nodiscard]] bool send_socket(int channel, std::uint32_t slot, int socket_fd);

struct Kept {
  KeptLeases leases;
  KeptTables tables;
  KeptSteerings steerings;
};

// Holder's side: takes all messages that wait.
void receive_handovers(int channel, Kept& kept, SocketGroup& group);

}  // namespace brdma::daemon
