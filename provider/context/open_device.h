// context/open_device.h - one ibv_context: libibverbs' memory, the pipe of its asynchronous events, and the program's
// objects. The engine behind it, its locks and its lease are the process's (shared_device.h).
//
// Memory: libibverbs allocates its verbs_context in a block of abi::kContextAllocation bytes. Its last member is the
// ibv_context; after it is a pointer to our OpenDevice (of_context()).
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>
#include <mutex>

#include "abi/layout.h"
#include "base/result.h"
#include "bitmaprdma/context.h"
#include "context/shared_device.h"
#include "context/undestroyed.h"
#include "events/event_pipe.h"
#include "plugin/after_fork.h"
#include "plugin/libibverbs.h"

namespace brdma::provider {

class OpenDevice final {
 public:
  // Returns libibverbs' verbs_context. Takes cmd_fd, even on failure; reports the reason on standard error.
  static Result<void*, Status> open(ibv_device* device, int cmd_fd);
  static OpenDevice& of_context(const ibv_context* context);
  ~OpenDevice() = default;
  OpenDevice(const OpenDevice&) = delete;
  OpenDevice& operator=(const OpenDevice&) = delete;
  // Destroys objects that the program has left, and the lease if no other context has it; then libibverbs frees the
  // verbs_context. `this` stays.
  void close();

  [[nodiscard]] Shards& shards() { return shared_->shards(); }
  // The shard for an object that may be in any, so that a context's objects spread over all. objects() held.
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
  // As in the device files now: GID indices refer to it.
  [[nodiscard]] DeviceInfo info() const { return shared_->info(); }
  [[nodiscard]] std::uint32_t next_handle() { return shared_->next_handle(); }

  // Call before a queue pair is made, with objects() held. EBUSY: another process makes them since a fork()
  // (after_fork.h).
  [[nodiscard]] Status claim() { return shared_->claim(); }
  [[nodiscard]] bool abandoned() const { return shared_->abandoned(); }
  // In a forked child, if the device is abandoned: the table of operations and the descriptors are the child's own.
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

// For functions that libibverbs calls outside the table of operations.
inline bool is_abandoned(const ibv_context* context) {
  return any_abandoned.load(std::memory_order_relaxed) && device_of(context).abandoned();
}

}  // namespace brdma::provider
