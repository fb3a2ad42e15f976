// open_device.h - one ibv_context: libibverbs' memory, the pipe of its asynchronous events, what the program has made
// of it. The engine behind it, its locks and its lease are the process's (shared_device.h).
//
// Memory: libibverbs allocates its verbs_context in a block of abi::kContextAllocation bytes; behind the ibv_context,
// which is its last member, stands a pointer to our OpenDevice (of_context()).
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>
#include <mutex>

#include "abi/layout.h"
#include "after_fork.h"
#include "base/result.h"
#include "bitmaprdma/context.h"
#include "event_pipe.h"
#include "libibverbs.h"
#include "shared_device.h"
#include "undestroyed.h"

namespace brdma::provider {

class OpenDevice final {
 public:
  // Answers libibverbs' verbs_context. Takes cmd_fd, also when it fails; says on standard error why.
  static Result<void*, Status> open(ibv_device* device, int cmd_fd);
  static OpenDevice& of_context(const ibv_context* context);
  ~OpenDevice() = default;
  OpenDevice(const OpenDevice&) = delete;
  OpenDevice& operator=(const OpenDevice&) = delete;
  // Objects that the program has left go, and the lease if no other context has it; then the verbs_context goes back to
  // libibverbs and is freed. `this` stays.
  void close();

  [[nodiscard]] Shards& shards() { return shared_->shards(); }
  // Where an object that may be in any shard is put, so that a context's are in all of them. objects() held.
  [[nodiscard]] std::size_t least_used_shard() { return shards().least_used(use_); }
  void put_into(std::size_t shard) {
    ++use_[shard];
    ++shards().use()[shard];
  }
  void taken_from(std::size_t shard) {
    --use_[shard];
    --shards().use()[shard];
  }
  [[nodiscard]] std::mutex& objects() { return shared_->objects(); }
  [[nodiscard]] std::mutex& events() { return events_; }
  [[nodiscard]] WriteWatches& write_watches() { return shared_->write_watches(); }
  [[nodiscard]] Undestroyed& undestroyed() { return undestroyed_; }
  [[nodiscard]] const abi::Layout& layout() const { return layout_; }
  [[nodiscard]] ibv_context* ibv() const { return ibv_; }
  // As the device files show it now: GID indices refer to that.
  [[nodiscard]] DeviceInfo info() const { return shared_->info(); }
  [[nodiscard]] std::uint32_t next_handle() { return shared_->next_handle(); }

  // Before a queue pair is made, with objects() held. EBUSY: another process makes them since a fork() (after_fork.h).
  [[nodiscard]] Status claim() { return shared_->claim(); }
  [[nodiscard]] bool abandoned() const { return shared_->abandoned(); }
  // In a forked child, where the device is abandoned: the table of operations and the descriptors are the child's own.
  void abandon();

  // About an object of this context, or (`user` null) about the port or the device.
  void async_event(int ibv_event_type, void* user);
  // Call with events() held.
  [[nodiscard]] std::uint32_t purge_async_events(const void* element);

 private:
  OpenDevice(Libibverbs& core, const abi::Layout& layout, void* verbs_context);
  Status make_async_pipe();
  void release_core();

  Libibverbs& core_;
  abi::Layout layout_;
  void* verbs_context_;
  ibv_context* ibv_;
  SharedDevice* shared_ = nullptr;
  Undestroyed undestroyed_;
  Shards::Use use_{};
  std::shared_ptr<EventPipe> async_events_;
  std::mutex events_;
};

inline OpenDevice& device_of(const ibv_context* context) { return OpenDevice::of_context(context); }

// For functions that libibverbs does not call by the table of operations.
inline bool is_abandoned(const ibv_context* context) {
  return any_abandoned.load(std::memory_order_relaxed) && device_of(context).abandoned();
}

}  // namespace brdma::provider
