// io/daemon/lease.h - a leased receive socket: this process's share of UDP port 4791, from brdmad, which is started if
// nobody answers. docs/explanation/daemon.md has the whole story.
//
//   auto lease = acquire_lease(device);          // blocks for milliseconds; at most kLeaseTimeoutMs
//   lease.value().socket_fd                      // packets whose destination QPN has `slot` in its low 13 bits
//   poll(control_fd, POLLRDHUP)                  // fires when it has ended: then abandon(), notify the application
//   poll(lifeline_fd, POLLIN)                    // fires when brdmad is dead: then another one takes over
//                                                // (io/daemon/revival.h)
//   ~Lease                                       // gives it back: brdmad drains the socket and frees the slot
//
// The lease ends with the process, however that dies. Nothing here throws, starts a thread or leaves a child for the
// application's wait().
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "bitmaprdma/context.h"
#include "device/device_use.h"
#include "io/daemon/daemon_connection.h"
#include "io/daemon/revival.h"
#include "trace/counters.h"
#include "trace/journal.h"

namespace brdma::io {

struct Gauges;

inline constexpr int kLeaseTimeoutMs = 10'000;

struct Lease {
  int socket_fd = -1;           // member of the SO_REUSEPORT group of port 4791; non-blocking; close-on-exec
  bool dual_stack = false;      // AF_INET6 that takes IPv4 too (as ::ffff:a.b.c.d); else AF_INET
  std::uint32_t slot = 0;       // low `slot_bits` bits of each QPN of this socket; never 0 or 1, which are the daemon's
  std::uint32_t slot_bits = 8;  // from brdmad
  std::uint64_t id = 0;         // brdmad's number of this lease
  Statistics* statistics = nullptr;    // zeroed; shared with brdmad, which adds it to the device's totals at the end
  int control_fd = -1;                 // connection to brdmad: the lease lives as long as this end is open
  int lifeline_fd = -1;                // readable when brdmad is dead; -1: none
  int vault_fd = -1;                   // for the next brdmad; -1: this process must not start one
  trace::EventRing* events = nullptr;  // shared likewise; null: nobody reads them
  Gauges* gauges = nullptr;            // likewise
  UseTable* device_use = nullptr;      // shared with all lessees, by slot
  std::string settings;                // set at run time for the device: lines `key=value`

  Lease() = default;
  ~Lease();
  Lease(Lease&& other) noexcept;
  Lease& operator=(Lease&& other) noexcept;
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  // False once the lease has ended: packets are no longer steered to it. True while brdmad is dead and may be started
  // again.
  [[nodiscard]] bool alive() const;
  // Replaces socket_fd by a socket that receives nothing, so that port 4791 is free for the next brdmad; wakes threads
  // blocked on it. The fd number stays valid until the lease is destroyed. Call when alive() is false.
  void abandon();
  // For the thread that waits on the lifeline: takes both descriptors. The lease outlives it.
  [[nodiscard]] Revival take_revival();

 private:
  void* mapping_ = nullptr;
  friend Result<Lease, ContextError> acquire_lease(const DeviceInfo& device);
};

// Errors: EADDRINUSE port 4791 is taken; EACCES brdmad belongs to another user; ENOSPC all slots leased; ENOENT no
// brdmad program found; ETIMEDOUT; EPROTO a brdmad of another version. The message names the remedy.
[[nodiscard]] Result<Lease, ContextError> acquire_lease(const DeviceInfo& device);

// One slot more for a lease that has `slots` of them: the slot's packets come to the lease's socket too. Blocks for
// milliseconds, at most kLeaseTimeoutMs. Errors: ENOSPC no slot free; as above.
[[nodiscard]] Result<std::uint32_t, ContextError> request_slot(const Lease& lease, std::uint32_t slots);

// A connection to brdmad, which is started if nobody answers; its owner is trusted. Errors as above.
[[nodiscard]] Result<FileDescriptor, ContextError> connect_or_start_daemon(Deadline deadline);

}  // namespace brdma::io
