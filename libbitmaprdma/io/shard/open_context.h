// io/shard/open_context.h - makes a Context on a lease that the caller has. Context::open() is this with the daemon's
// lease and the configured settings; tests and benchmarks bring a socket of their own and settings to try.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "base/config.h"
#include "base/result.h"
#include "base/seed.h"
#include "bitmaprdma/context.h"
#include "control/config.h"
#include "io/daemon/lease.h"
#include "io/management/control_thread.h"
#include "io/management/management.h"
#include "io/netdev/netdev_watch.h"
#include "io/shard/progress_thread.h"
#include "io/shard/shard.h"
#include "io/shard/spin_permits.h"
#include "io/udp/receive_socket.h"
#include "io/xdp/xdp_request.h"

namespace brdma {

namespace io {
// State shared by the contexts of one device (Context::open_shards).
struct DeviceShare {
  explicit DeviceShare(unsigned spinning_max) : spin_permits(spinning_max) {}
  SpinPermits spin_permits;
  std::atomic<bool> fatal_reported{false};
};
}  // namespace io

struct Context::Impl {
  struct Options {
    RecoveryConfig recovery;
    TransferConfig transfer;
    Seed seed;
    bool gso = true;
    int send_buffer_bytes = 1 << 20;
    io::ReceiveSocketOptions receive;
    bool progress_thread = true;  // false: only calls make progress
    io::ProgressThread::Options thread;
    bool control_thread = false;             // brdmad is at the other end of the lease, and may send queries
    std::uint32_t shard = 0;                 // index among those of its device; 0 reports the shared part
    std::shared_ptr<io::DeviceShare> share;  // null: it is the only one
    bool reads_processes = false;            // reads memory of peers on this host, where transfer.local allows it
    control::DatapathConfig datapath{.receive = control::Datapath::kUdp,
                                     .transmit = control::Datapath::kUdp};  // else ask_xdp requests AF_XDP
    Result<io::XdpSockets, ContextError> (*ask_xdp)(const io::Lease&, const io::XdpWant&) = io::request_xdp;  // brdmad
    Result<std::uint32_t, ContextError> (*ask_slot)(const io::Lease&, std::uint32_t) = io::request_slot;  // likewise
  };
  // Error: no socket to send from.
  static Result<std::unique_ptr<Context>, ContextError> make(const DeviceInfo& device, io::Lease lease,
                                                             const Options& options, NotificationHandler* handler);

  Impl(const DeviceInfo& device, io::Lease lease, const Options& options, const EngineConfig& config, io::Intake intake,
       io::Outlet outlet, NotificationHandler* handler);
  // Shard's lock held. Call at the first queue pair: from then on packets can come.
  void start_thread_if_needed();
  void handle_hangup();  // likewise
  void handle_netdev();  // without the lock

  DeviceInfo device;
  io::Lease lease;
  NotificationHandler* handler;
  std::shared_ptr<io::DeviceShare> share;
  bool gone = false;  // brdmad is
  Result<std::uint32_t, ContextError> (*ask_slot)(const io::Lease&, std::uint32_t);
  std::mutex asking;  // for slots; before the shard's lock
  std::optional<trace::Journal> journal;
  io::Shard shard;
  bool thread_wanted;
  io::ProgressThread thread;
  io::Management management;
  io::NetdevWatch netdev;
  io::ControlThread control;  // after all that its queries use: it stops first
  int pid;
  // Size of a batch of a posted list; the shard's lock held.
  static constexpr std::size_t kBatchMax = 64;
  std::array<SendRequest, kBatchMax> sends;
  std::array<ReceiveRequest, kBatchMax> receives;
};

namespace io {
// For tests and benchmarks, which look behind the public interface.
using ContextImpl = Context::Impl;
}  // namespace io

}  // namespace brdma
