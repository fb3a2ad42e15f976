// write_events/write_queue.h - the unread events of one write channel (bitmaprdma/write_events.h), and the descriptor
// that is readable while there are some; and the map from watched regions to queues.
//
// The descriptor is a pipe that holds one byte while the queue has events, so a burst of WRITEs costs one system call.
// Regions have numbers: the engine's `user` of a watched region is one, and an event delivered after the end of the
// watch finds no entry, and is dropped. Thread-safety: any. Locks, in this order: WriteWatches', a queue's; neither is
// held while anything waits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "base/ring.h"
#include "bitmaprdma/types.h"
#include "bitmaprdma/write_events.h"
#include "events/event_pipe.h"

namespace brdma::provider {

using WatchNumber = std::uint64_t;  // never used twice in a device's life; 0: none

class WriteQueue {
 public:
  // Errors: EMFILE, ENFILE, ENOMEM.
  [[nodiscard]] static Result<std::shared_ptr<WriteQueue>, Status> make(std::uint32_t events_max);
  ~WriteQueue();  // closes the descriptor
  WriteQueue(const WriteQueue&) = delete;
  WriteQueue& operator=(const WriteQueue&) = delete;

  [[nodiscard]] int fd() const { return fd_; }
  // If full, counts the event as lost. Does nothing once it has ended.
  void push(WatchNumber watch, const brdma_write_event& event);
  // Removes those of that region.
  void drop(WatchNumber watch);
  // At least one, waiting for it unless the descriptor has O_NONBLOCK. Errors as brdma_get_write_events().
  [[nodiscard]] Result<std::size_t, Status> take(std::span<brdma_write_event> out);
  [[nodiscard]] std::uint64_t lost();

  // From now on there is nothing to take, and waiters get `error`.
  void end(int error);
  [[nodiscard]] int ended();  // 0: not

  // Around fork(): no other thread is in the queue. The child continues with a pipe of its own, or has ended().
  void before_fork() { lock_.lock(); }
  void after_fork() { lock_.unlock(); }
  void renew_in_child();
  void abandon_in_child();

 private:
  struct Entry {
    WatchNumber watch = 0;
    brdma_write_event event{};
  };
  WriteQueue(EventPipe::Made made, std::uint32_t events_max);
  [[nodiscard]] std::size_t take_now(std::span<brdma_write_event> out);
  void make_readable();
  void make_unreadable();

  const int fd_;
  const std::size_t events_max_;
  std::mutex lock_;
  std::shared_ptr<EventPipe> pipe_;
  Ring<Entry> events_;
  std::uint64_t lost_ = 0;
  int ended_ = 0;
};

// For a device: its channels' queues, and its watched regions.
class WriteWatches {
 public:
  void add(std::shared_ptr<WriteQueue> queue);
  // With all its watches.
  void remove(const WriteQueue& queue);
  [[nodiscard]] WatchNumber watch(const std::shared_ptr<WriteQueue>& queue, std::uint64_t user);
  // Also drops its waiting events.
  void unwatch(WatchNumber watch);
  [[nodiscard]] bool is_of(WatchNumber watch, const WriteQueue& queue);
  void deliver(const WriteArrival& arrival);

  // Around fork(). In the child, before after_fork(): the device is the parent's, or the child may continue with it.
  void before_fork();
  void after_fork();
  void abandon_in_child();
  void renew_in_child();

 private:
  struct Watch {
    std::shared_ptr<WriteQueue> queue;
    std::uint64_t user = 0;
  };
  std::mutex lock_;
  std::vector<std::shared_ptr<WriteQueue>> queues_;
  std::unordered_map<WatchNumber, Watch> watches_;
  WatchNumber last_ = 0;
};

// The `user` argument of Context::watch_writes().
inline void* user_of(WatchNumber watch) { return reinterpret_cast<void*>(static_cast<std::uintptr_t>(watch)); }

}  // namespace brdma::provider
