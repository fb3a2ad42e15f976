// brdmad/supervisor/vault.h - the descriptors that must outlive holder and worker when both are killed at once, kept in
// flight (unix(7), SCM_RIGHTS) in the queue of a Unix socket. A process that has that socket keeps them open, and can
// start a daemon that adopts them: each program of the daemon's own user gets it with its lease
// (docs/explanation/daemon.md).
//
// The queue is a log of SOCK_SEQPACKET messages, each a VaultHeader, its entries and their descriptors:
//   kBasis     listener, shared state, table of connections, the sending end of this queue
//   kSockets   a run of the sockets of port 4791, in the order of their slots; as many messages as it takes
//   kGuard     the programs that keep users apart (socket_guard.h), so that they stay until another daemon sets its own
//   kTables    a user's table for each entry (use_tables.h)
//   kSteering  an interface's steering to AF_XDP sockets (xdp_steering.h): link and maps
//   kLeases    for each entry the lease's connection and its statistics page
//   kComplete  this generation is complete with the messages before it; after it only kTables,
//              kSteering and kLeases that came later
// Messages that are not of the last complete generation are remains: their writer died while it wrote, or before it had
// taken them out. An entry of an ended lease (see SharedState), or of a user or an interface without leases, stays
// until the next generation. Only the worker writes. Reading (MSG_PEEK) takes nothing out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "bitmaprdma/context.h"
#include "io/system/file_descriptor.h"
#include "lease/use_tables.h"
#include "xdp/xdp_steering.h"

namespace brdma::daemon {

struct VaultLease {
  std::uint32_t slot = 0;
  std::uint64_t id = 0;
  int connection = -1, statistics = -1;
};

struct VaultTable {
  std::uint32_t uid = 0;
  int memory = -1;
};

struct VaultBasis {
  int listener = -1, state = -1, connections = -1;
  const std::vector<io::FileDescriptor>* sockets = nullptr;
  const std::vector<io::FileDescriptor>* guard = nullptr;  // may be
  const KeptSteerings* steerings = nullptr;                // likewise
};

class Vault {
 public:
  struct Found {
    struct Lease {
      std::uint32_t slot = 0;
      std::uint64_t id = 0;
      io::FileDescriptor connection, statistics;
    };
    io::FileDescriptor listener, state, connections, sending_end;
    std::vector<io::FileDescriptor> sockets, guard;
    KeptTables tables;
    KeptSteerings steerings;
    std::vector<Lease> leases;
  };

  Vault() = default;
  static Vault create();  // check valid()
  // The contents of the vault behind `fd`. ESTALE: nothing that a daemon could adopt.
  static Result<Found, ContextError> look(int fd);
  static Vault adopt(io::FileDescriptor fd, io::FileDescriptor sending_end);

  [[nodiscard]] bool valid() const { return receiving_end_.valid() && sending_end_.valid(); }
  [[nodiscard]] int fd() const { return receiving_end_.get(); }

  // A new generation. An error (no room in the queue, too many descriptors in flight for this user) leaves the vault
  // empty: nothing would survive.
  [[nodiscard]] ContextError rewrite(const VaultBasis& basis, std::span<const VaultTable> tables,
                                     std::span<const VaultLease> leases);
  // False: rewrite() is due, because many were added since, or there is no room.
  [[nodiscard]] bool add(const VaultLease& lease);
  [[nodiscard]] bool add(const VaultTable& table);
  [[nodiscard]] bool add(std::uint32_t ifindex, const XdpSteering& steering);
  // The daemon is stopped: no daemon may adopt the vault.
  void clear();

 private:
  bool write_generation(const VaultBasis& basis, std::span<const VaultTable> tables,
                        std::span<const VaultLease> leases);
  bool send_basis(const VaultBasis& basis);
  bool send_sockets(const std::vector<io::FileDescriptor>& sockets);
  bool send_guard(const std::vector<io::FileDescriptor>* guard);
  bool send_steerings(const KeptSteerings* steerings);
  bool send_steering(std::uint32_t ifindex, const XdpSteering& steering);
  bool send_tables(std::span<const VaultTable> tables);
  bool send_leases(std::span<const VaultLease> leases);
  void take_out_before(std::uint64_t generation);

  io::FileDescriptor receiving_end_, sending_end_;
  std::uint64_t generation_ = 0;  // generation that add() writes to
  std::size_t added_ = 0;         // messages since rewrite()
};

}  // namespace brdma::daemon
