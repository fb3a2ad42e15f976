// bitmaprdma/context.h - an open device: the engine behind a leased socket, driven by its callers and by a progress
// thread. The rdma-core provider builds on it. It is not installed, and may change at any time.
//
// Thread-safety: Context's own functions may be called from any thread. A Session holds the context's lock; keep it for
// one batch (a posting list, a poll) and no longer, and never two of one context in one thread.
// fork(): from the first queue pair on, only one of parent and child can use a context, and a context with queue pairs
// stays the parent's. The other may destroy it, and opens another. See is_busy(), take_over(). Errors: Status with the
// verbs manual's errno value. Opening: Result with a sentence that names the next step.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "bitmaprdma/types.h"

namespace brdma {

class Engine;
class CompletionQueue;
class MemoryRegion;
class QueuePair;
class SharedReceiveQueue;

// A network interface as an RDMA device. Found without privilege; needs no daemon.
struct DeviceInfo {
  std::string name;  // brdma_<netdev>, at most 63 characters
  std::string netdev;
  std::uint32_t ifindex = 0;
  std::uint64_t guid = 0;  // EUI-64 from the MAC, host order
  std::uint32_t netdev_mtu = 1500;
  PathMtu active_mtu = PathMtu::k1024;
  bool active = true;
  std::uint64_t speed_mbps = 10'000;
  struct Gid {
    IpAddress address;  // link-local fe80:: from the MAC at index 0, then IPv4 (mapped), then IPv6
    std::string netdev;
  };
  std::vector<Gid> gids;
};
[[nodiscard]] std::vector<DeviceInfo> list_devices();

// Called from the thread that makes progress, with the context's lock held: must not block or call back into Context.
struct NotificationHandler {
  virtual ~NotificationHandler() = default;
  virtual void completion_event(void* cq_user) = 0;
  // enum ibv_event_type; `user` of the queue pair, completion queue or shared receive queue concerned.
  virtual void async_event(int ibv_event_type, void* user) = 0;
  virtual void write_event(const WriteArrival&) {}  // regions of Context::watch_writes
  // The network interface has changed, or is gone for good. Called without the lock, may block. Returns the resulting
  // asynchronous events; they come back by async_event().
  virtual std::vector<int> interface_changed(bool /*removed*/) { return {}; }
};

inline constexpr std::size_t kShardsMax = 16;  // of a device: Context::open_shards

struct ContextError {
  int error = 0;        // errno value
  std::string message;  // one sentence: what is wrong, what to do
};

class Context {
 public:
  // Leases a socket from the daemon (starting it if need be) and starts the progress thread at the first queue pair.
  static Result<std::unique_ptr<Context>, ContextError> open(const DeviceInfo& device, NotificationHandler* handler);
  // A device of as many contexts as `datapath.shards` says, so that threads do not wait for each other. Each has its
  // own lock, socket and threads; a queue pair belongs to one for life. At most kShardsMax; fewer, but at least one,
  // where brdmad has no more sockets to lease. They are ordinary contexts, but
  // - their keys are alike: where all see the same calls of alloc_pd, register_memory, deregister_memory, alloc_window
  // and dealloc_window in the same order, one region has the same keys in all;
  // - changes of the interface, and the end of brdmad, are reported once;
  // - at most half as many progress threads as cores spin at a time.
  // All call the one handler, each with its own lock held.
  static Result<std::vector<std::unique_ptr<Context>>, ContextError> open_shards(const DeviceInfo& device,
                                                                                 NotificationHandler* handler);
  ~Context();  // gives the lease back; every object is gone

  // Call before Engine::create_qp(): ensures a number for one more queue pair. Asks the daemon when the context's
  // numbers are used up, and then blocks for milliseconds. Error: none available.
  [[nodiscard]] ContextError prepare_queue_pair();

  // The engine's operations, under the lock. Destruction makes progress: sends posted work.
  class Session {
   public:
    explicit Session(Context& context);
    ~Session();
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;
    [[nodiscard]] Engine& engine();                                // object calls (create_..., modify_qp, ...)
    [[nodiscard]] std::int64_t now_ns() const { return now_ns_; }  // the time of this session, for engine calls

   private:
    Context& context_;
    std::int64_t now_ns_;
  };

  // Fast paths: one lock, one burst of progress each.
  // `times`: empty, or as long as `out`: time of each completion (CqOptions::stamped), by CLOCK_MONOTONIC.
  std::size_t poll_cq(CompletionQueue* cq, std::span<Completion> out, std::span<Instant> times = {});
  // Posts from `requests` in order until one fails; `posted` returns the number posted.
  Status post_send(QueuePair* qp, std::span<const SendRequest> requests, std::size_t& posted);
  // The same for a list in the caller's own form. `take` writes as many of its next requests into the given array as
  // exist and fit, and returns their number. It is called once, with the lock held. The array is the context's: callers
  // with a small stack need none.
  template <class Request>
  using Take = std::size_t (*)(void* list, std::span<Request> into);
  Status post_send(QueuePair* qp, Take<SendRequest> take, void* list, std::size_t& posted);
  Status post_receive(QueuePair* qp, Take<ReceiveRequest> take, void* list, std::size_t& posted);
  Status post_receive(SharedReceiveQueue* srq, Take<ReceiveRequest> take, void* list, std::size_t& posted);
  Status post_send_all(QueuePair* qp, std::span<const SendRequest> requests);  // all of them, or none
  Status post_receive(QueuePair* qp, std::span<const ReceiveRequest> requests, std::size_t& posted);
  Status post_receive(SharedReceiveQueue* srq, std::span<const ReceiveRequest> requests, std::size_t& posted);
  void request_notify(CompletionQueue* cq, bool solicited_only);
  // Arms a queue in each of several contexts alike, at most kShardsMax, replacing earlier arming. All are locked at
  // once, so no notification comes in between. `decide` is called then and returns the kind. Name contexts always in
  // the same order, to order the locks.
  enum class NotifyOf : std::uint8_t { kNothing, kSolicited, kAny };
  struct NotifiedQueue {
    Context* context = nullptr;
    CompletionQueue* queue = nullptr;
  };
  static void request_notify(std::span<const NotifiedQueue> queues, const std::function<NotifyOf()>& decide);
  // For a program that sleeps until packets come, without a wake-up by the progress thread: one thread less per packet.
  // It waits for any of packet_descriptors() to become readable (-1: none) and calls attend(), which takes the packets
  // in the caller's thread. `all`: until nothing is left, where only new packets wake it (EPOLLET). `then_sleeps`: it
  // sleeps if that gives it no event, so no acknowledgement need wait for its reply. The progress thread keeps the
  // deadlines, and takes over where nobody comes for some milliseconds. The descriptors are the context's, and valid as
  // long as it.
  [[nodiscard]] std::array<int, 2> packet_descriptors() const;
  void attend(bool all = false, bool then_sleeps = false);
  // As Engine::attach_multicast; the interface joins the group. Errors also as setsockopt(2) has them.
  Status attach_multicast(QueuePair* qp, const IpAddress& group);
  Status detach_multicast(QueuePair* qp, const IpAddress& group);

  // Call before a queue pair is destroyed or moved to RESET or ERR. Handles packets still in the socket (an
  // acknowledgement among them completes its work requests), then calls Engine::send_final_acks().
  void send_final_acks(QueuePair* qp);

  // From now on the handler's write_event() is called with `user` for each WRITE that has completely arrived in
  // `region`. The receiver need not poll its memory, nor the sender spend an immediate. The call comes after the last
  // byte is in memory, before the acknowledgement. EINVAL: not a region of this context. The region may be deregistered
  // while it is watched.
  Status watch_writes(MemoryRegion* region, void* user);
  Status unwatch_writes(MemoryRegion* region);

  // The program ends with the context still open: sends final ACKs. Does nothing in a forked child, nor when the lock
  // is not soon available: exit() may have been called anywhere.
  void leave();

  [[nodiscard]] const DeviceInfo& device() const;
  // False once its lease has ended: nothing will arrive any more. True while brdmad is dead and may be started again.
  [[nodiscard]] bool connected() const;

  // In a forked child: another thread of the parent was in a call, so the state is unreliable.
  [[nodiscard]] bool is_busy();
  // Before a first queue pair is made: this process, which may be a forked child, owns the lease from now on and has
  // its own threads. The parent makes no queue pair of this context.
  void take_over();

  struct Impl;

 private:
  explicit Context(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace brdma
