// open_device.h - one ibv_context and the brdma::Context behind it.
//
// Memory: libibverbs allocates its verbs_context in a block of abi::kContextAllocation bytes; behind the ibv_context,
// which is its last member, stands a pointer to our OpenDevice (of_context()).
// Locks, in the order in which they are taken:
//   objects()  whoever makes or destroys objects: what is in all shards changes in all, in the same order
//   a shard's  everything that talks to its engine (Context::Session); notifications come with it held
//   events()   event pipes, and how many events of an object have been written
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "abi/layout.h"
#include "after_fork.h"
#include "base/result.h"
#include "bitmaprdma/context.h"
#include "device/engine.h"
#include "event_pipe.h"
#include "libibverbs.h"
#include "shards.h"

namespace brdma::provider {

class OpenDevice final : public NotificationHandler {
 public:
  // Answers libibverbs' verbs_context. Takes cmd_fd, also when it fails; says on standard error why.
  static Result<void*, Status> open(ibv_device* device, int cmd_fd);
  static OpenDevice& of_context(const ibv_context* context);
  ~OpenDevice() override;  // the engine first, then the descriptors
  void release_core();     // gives the verbs_context back to libibverbs and frees it; `this` stays

  [[nodiscard]] Shards& shards() { return shards_; }
  [[nodiscard]] std::mutex& objects() { return objects_; }
  [[nodiscard]] std::mutex& events() { return events_; }
  [[nodiscard]] const abi::Layout& layout() const { return layout_; }
  [[nodiscard]] ibv_context* ibv() const { return ibv_; }
  // As the device files show it now: GID indices refer to that.
  [[nodiscard]] DeviceInfo info() const;
  [[nodiscard]] std::uint32_t next_handle() { return next_handle_.fetch_add(1, std::memory_order_relaxed); }

  // Before a queue pair is made, with objects() held. EBUSY: another process makes them since a fork() (after_fork.h).
  [[nodiscard]] Status claim();
  [[nodiscard]] bool abandoned() const { return abandoned_; }
  // pthread_atfork(3)'s.
  static void before_fork();
  static void after_fork_in_parent();
  static void after_fork_in_child();

  void completion_event(void* cq_user) override;
  void async_event(int ibv_event_type, void* user) override;
  std::vector<int> interface_changed(bool removed) override;
  // The program ends: what the contexts that it left open owe their peers is sent.
  static void leave_all();
  // Call with events() held.
  [[nodiscard]] std::uint32_t purge_async_events(const void* element);

 private:
  OpenDevice(Libibverbs& core, const abi::Layout& layout, void* verbs_context, DeviceInfo device);
  Status make_async_pipe();
  [[nodiscard]] bool is_consistent();
  void abandon();

  Libibverbs& core_;
  abi::Layout layout_;
  void* verbs_context_;
  ibv_context* ibv_;
  DeviceInfo device_;
  DeviceInfo told_;  // as the program has been told; of interface_changed()
  std::shared_ptr<EventPipe> async_events_;
  Ownership ownership_;
  bool abandoned_ = false;  // by a forked child
  std::atomic<std::uint32_t> next_handle_{1};
  std::mutex objects_, events_;
  Shards shards_;
};

inline OpenDevice& device_of(const ibv_context* context) { return OpenDevice::of_context(context); }

// For functions that libibverbs does not call by the table of operations.
inline bool is_abandoned(const ibv_context* context) {
  return any_abandoned.load(std::memory_order_relaxed) && device_of(context).abandoned();
}

}  // namespace brdma::provider
