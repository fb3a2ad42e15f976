// context/shared_device.h - a device that this process has open: one lease of brdmad's (one a shard), for any number of
// ibv_contexts on it (OpenDevice). Settings are those of the first open; the last close returns the lease.
//
// Notifications go to the context of their object; those about the port, and IBV_EVENT_DEVICE_FATAL, to all. fork(): a
// child's new contexts are on a device of its own; inherited ones: after_fork.h. Thread-safety: all functions, any
// thread. Locks, in the order of taking:
//   a device's place     while it is opened and closed for good, as long as that takes
//   the process's list   of places and open devices; while the process forks
//   objects()            for making and destroying objects: objects in all shards change in all, in the same order
//   a shard's            every call of its engine (Context::Session); notifications come with it held
//   the list of contexts
//   OpenDevice::events() event pipes, and the number of written events of an object
//   WriteWatches'        watched regions, then each queue's; only write_event() and fork() take it with another held
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "base/result.h"
#include "bitmaprdma/context.h"
#include "context/shards.h"
#include "plugin/after_fork.h"
#include "write_events/write_queue.h"

namespace brdma::provider {

class OpenDevice;

class SharedDevice final : public NotificationHandler {
 public:
  struct Place;  // of a device in the process's list

  // The process's open one, or a new one where it has none, or one whose lease has ended. leave() must follow.
  static Result<SharedDevice*, ContextError> join(const DeviceInfo& device);
  // The last one closes it: when this returns brdmad has the lease back. Not for a device that is abandoned().
  void leave();
  // From now on the context gets the common reports; IBV_EVENT_DEVICE_FATAL at once if already reported.
  void add(OpenDevice& context);
  void remove(OpenDevice& context);
  // The process ends: sends the final ACKs of its open devices.
  static void leave_all();

  // Call before a queue pair is made, with objects() held. EBUSY: another process makes them since a fork().
  [[nodiscard]] Status claim();
  [[nodiscard]] bool abandoned() const { return abandoned_; }  // by a forked child: the parent's
  // Handlers of pthread_atfork(3).
  static void before_fork();
  static void after_fork_in_parent();
  static void after_fork_in_child();

  [[nodiscard]] Shards& shards() { return shards_; }
  [[nodiscard]] std::mutex& objects() { return objects_; }
  [[nodiscard]] WriteWatches& write_watches() { return write_watches_; }
  // As in the device files now: GID indices refer to it.
  [[nodiscard]] DeviceInfo info() const;
  [[nodiscard]] std::uint32_t next_handle() { return next_handle_.fetch_add(1, std::memory_order_relaxed); }

  void completion_event(void* cq_user) override;
  void async_event(int ibv_event_type, void* user) override;
  void write_event(const WriteArrival& arrival) override { write_watches_.deliver(arrival); }
  std::vector<int> interface_changed(bool removed) override;

 private:
  SharedDevice(Place& place, DeviceInfo device);
  ~SharedDevice() override = default;
  [[nodiscard]] bool usable();
  [[nodiscard]] bool is_consistent();
  void abandon();

  Place& place_;
  std::uint32_t users_ = 1;  // place's lock held
  const DeviceInfo device_;
  std::mutex reporting_;
  DeviceInfo reported_;  // to the program; reporting_ held
  Ownership ownership_;
  bool divided_ = false;    // a child may continue with it: no further contexts here; place's lock or the list's held
  bool abandoned_ = false;  // set in a child that has one thread
  std::atomic<std::uint32_t> next_handle_{1};
  std::mutex objects_, contexts_lock_;
  std::vector<OpenDevice*> contexts_;  // contexts_lock_ held
  bool fatal_ = false;                 // likewise
  WriteWatches write_watches_;
  Shards shards_;  // destroyed first: from then on nothing notifies
};

}  // namespace brdma::provider
