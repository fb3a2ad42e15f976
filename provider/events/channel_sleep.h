// events/channel_sleep.h - a program that sleeps on a completion channel takes its packets itself: they wake it
// directly, not through our thread.
//
// In ibv_get_cq_event(), which reads the channel: the read waits for the sockets beside the pipe, and takes the
// packets. In epoll_wait() on a channel that does not block: the program's epoll set gets, with the channel and the
// same data, an epoll instance with the sockets in it. So the channel may be reported readable without an event
// (ibv_get_cq_event() returns EAGAIN): for that it must not block. The thread still serves programs that sleep in
// poll() or select(), use EPOLLONESHOT or EPOLLEXCLUSIVE, call the kernel directly, or have several shards or several
// channels on a device. Thread-safety: any.
#pragma once

#include <sys/epoll.h>
#include <sys/types.h>

#include <array>
#include <cstddef>
#include <memory>
#include <mutex>

#include "bitmaprdma/context.h"
#include "events/event_pipe.h"

namespace brdma::provider {

class ChannelSleep {
 public:
  ChannelSleep() = default;
  ~ChannelSleep();
  ChannelSleep(const ChannelSleep&) = delete;
  ChannelSleep& operator=(const ChannelSleep&) = delete;

  // Packets of this context wake a sleeper on the channel. leave() before it is destroyed; it returns when nobody is in
  // it.
  void join(Context& context);
  void leave();

  // Handles received packets. False: no context.
  [[nodiscard]] bool attend(bool then_sleeps);
  // Descriptors to wait for beside the channel; -1: none.
  [[nodiscard]] std::array<int, 2> packet_descriptors();
  // The program has added the channel to its epoll set. May come before join().
  [[nodiscard]] bool is_watched();
  void watched(int epoll, int operation, const epoll_event& event);

 private:
  void watch_packets(int operation);
  std::mutex lock_;
  Context* context_ = nullptr;
  int packets_ = -1;    // an epoll instance
  int watchers_ = 0;    // epoll sets that contain it
  bool edges_ = false;  // an epoll set reports new packets only (EPOLLET)
};

// Of read(2), on a descriptor that is marked as an event channel's. `named`: by ibv_get_cq_event(), whose caller names
// the channel. Any other caller names a descriptor, which may be another file by now.
ssize_t read_channel(int fd, void* into, std::size_t count, bool named);
// After epoll_ctl(2) on one.
void channel_watched(int epoll, int operation, int fd, const epoll_event* event);

// This thread reads `channel`: a record made meanwhile goes directly to it, not through the pipe. False: it must use
// the pipe.
[[nodiscard]] bool taken_by_reader(const EventPipe& channel, const void* record);

}  // namespace brdma::provider
