// bitmaprdma/context.h - an open device: the engine behind a leased socket, driven by its callers and by a progress
// thread. What the rdma-core provider stands on; also usable by itself.
//
// Thread-safety: Context's own functions may be called from any thread. A Session holds the context's lock; keep it for
// one batch (a posting list, a poll) and no longer, and never two of one context in one thread.
// fork(): of parent and child only one can use a context from its first queue pair on, and a context that has some
// stays the parent's. Whoever else has it may destroy it, and opens another. See is_busy(), take_over(). Errors: Status
// with the verbs manual's errno value. Opening: Result with a sentence that says what to do next.
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

// Called from whichever thread makes progress, with the context's lock held: must not block or call back into Context.
struct NotificationHandler {
  virtual ~NotificationHandler() = default;
  virtual void completion_event(void* cq_user) = 0;
  // enum ibv_event_type; `user` of the queue pair, completion queue or shared receive queue that it is about.
  virtual void async_event(int ibv_event_type, void* user) = 0;
  virtual void write_event(const WriteArrival&) {}  // regions of Context::watch_writes
  // Something about the network interface is different, or it is gone for good. Called without the lock, may block.
  // Answers the asynchronous events that this makes; they come back by async_event().
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
  // A device of as many contexts as `datapath.shards` says, for threads that are not to wait for each other: each has a
  // lock, a socket and threads of its own, and queue pairs belong to one for life. At most kShardsMax; fewer, but one
  // at least, where brdmad has no more sockets to lease. They are contexts as any other, but
  // - their keys are alike: where all see the same calls of alloc_pd, register_memory, deregister_memory, alloc_window
  //   and dealloc_window in the same order, one region has the same keys in all;
  // - what happens to the interface, and that brdmad is gone, is told once;
  // - of their progress threads no more spin at a time than half of the cores.
  // All call the one handler, each with its own lock held.
  static Result<std::vector<std::unique_ptr<Context>>, ContextError> open_shards(const DeviceInfo& device,
                                                                                 NotificationHandler* handler);
  ~Context();  // gives the lease back; every object is gone

  // To be called before Engine::create_qp(): sees to it that there is a number for one more queue pair. Asks the daemon
  // where those that the context has are used up, and blocks for milliseconds then. Error: none to be had.
  [[nodiscard]] ContextError prepare_queue_pair();

  // The engine's operations, under the lock. Destruction makes progress: sends what was posted.
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
  // `times`: empty, or as long as `out`: when each was made (CqOptions::stamped), by CLOCK_MONOTONIC.
  std::size_t poll_cq(CompletionQueue* cq, std::span<Completion> out, std::span<Instant> times = {});
  // Posts from `requests` in order until one fails; `posted` says how many were taken.
  Status post_send(QueuePair* qp, std::span<const SendRequest> requests, std::size_t& posted);
  // The same for a list in the caller's own form. `take` writes its next requests into the given place, as many as
  // there are and fit, and answers how many; it is called once, with the lock held, and the place is the context's: a
  // caller with a small stack need not have it.
  template <class Request>
  using Take = std::size_t (*)(void* list, std::span<Request> into);
  Status post_send(QueuePair* qp, Take<SendRequest> take, void* list, std::size_t& posted);
  Status post_receive(QueuePair* qp, Take<ReceiveRequest> take, void* list, std::size_t& posted);
  Status post_receive(SharedReceiveQueue* srq, Take<ReceiveRequest> take, void* list, std::size_t& posted);
  Status post_send_all(QueuePair* qp, std::span<const SendRequest> requests);  // all of them, or none
  Status post_receive(QueuePair* qp, std::span<const ReceiveRequest> requests, std::size_t& posted);
  Status post_receive(SharedReceiveQueue* srq, std::span<const ReceiveRequest> requests, std::size_t& posted);
  void request_notify(CompletionQueue* cq, bool solicited_only);
  // Arms a queue in each of several contexts alike, at most kShardsMax, whatever they were armed for before. All are
  // locked at once, so no notification comes in between, and `decide` is called when they are: it says what for. Always
  // to be named in the same order, for the locks' sake.
  enum class NotifyOf : std::uint8_t { kNothing, kSolicited, kAny };
  struct NotifiedQueue {
    Context* context = nullptr;
    CompletionQueue* queue = nullptr;
  };
  static void request_notify(std::span<const NotifiedQueue> queues, const std::function<NotifyOf()>& decide);
  // For a program that sleeps until packets come, instead of being woken by the progress thread: one thread of its own
  // less in the way of each packet. It waits for any of packet_descriptors() to become readable (-1: none), and calls
  // attend(), which takes what has come, in its own thread; `all`: until nothing is left, where only new packets wake
  // it (EPOLLET); `then_sleeps`: where that gives it no event it goes to sleep, so that no acknowledgement need wait
  // for its reply. The progress thread keeps the deadlines, and takes over where nobody comes for some milliseconds.
  // The descriptors are the context's, and valid while it is.
  [[nodiscard]] std::array<int, 2> packet_descriptors() const;
  void attend(bool all = false, bool then_sleeps = false);
  // As Engine::attach_multicast, and the interface joins the group. Errors also as setsockopt(2) has them.
  Status attach_multicast(QueuePair* qp, const IpAddress& group);
  Status detach_multicast(QueuePair* qp, const IpAddress& group);

  // Before a queue pair is destroyed or moved to RESET or ERR: what has arrived and nobody took out of the socket yet
  // is handled (an acknowledgement among it still completes what it acknowledges), then Engine::send_final_acks().
  void send_final_acks(QueuePair* qp);

  // From now on each WRITE that has arrived whole in `region` is told to the handler's write_event(), with `user`: the
  // receiver need not poll its memory, nor the sender spend an immediate. It is told once the last byte is in its
  // place, before the sender knows. EINVAL: not a region of this context. The region may be deregistered while it is
  // watched.
  Status watch_writes(MemoryRegion* region, void* user);
  Status unwatch_writes(MemoryRegion* region);

  // The program ends with the context still open: acknowledgements that it owes leave. Does nothing in a forked child,
  // nor when the lock can't be had soon: exit() may have been called anywhere.
  void leave();

  [[nodiscard]] const DeviceInfo& device() const;
  // False once its lease has ended: nothing will arrive any more. True while brdmad is dead and may be started again.
  [[nodiscard]] bool connected() const;

  // In a forked child: another thread of the parent was in a call, so nothing here can be relied on.
  [[nodiscard]] bool is_busy();
  // Before a first queue pair is made: the lease is this process's, which may be a forked child. Then it has its own
  // threads from here on, and the parent makes no queue pair of this context.
  void take_over();

  struct Impl;

 private:
  explicit Context(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace brdma
