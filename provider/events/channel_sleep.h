// events/channel_sleep.h - a program that sleeps on a completion channel takes its packets itself: they wake it
// directly, not through our thread.
//
// In ibv_get_cq_event(), which reads the channel: the read waits for the sockets beside the pipe, and takes the
// packets. In epoll_wait() on a channel that does not block: the program's epoll set gets the sockets, with the
// channel's data. So the channel may be reported readable without an event (ibv_get_cq_event() returns EAGAIN): for
// that it must not block. The sockets are in the set itself, not in one within it: the kernel then knows that the
// sender of a packet is about to sleep, and wakes the program on the sender's processor. The thread still serves
// programs that sleep in poll() or select(), use EPOLLONESHOT or EPOLLEXCLUSIVE, call the kernel directly, or have
// several shards or several channels on a device. Thread-safety: any.
#pragma once

#include <sys/epoll.h>
#include <sys/types.h>

#include <array>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "bitmaprdma/context.h"
#include "events/event_pipe.h"

namespace brdma::provider {

class ChannelSleep {
 public:
  ChannelSleep() = default;
  ~ChannelSleep();
  ChannelSleep(const ChannelSleep&) = delete;
  ChannelSleep& operator=(const ChannelSleep&) = delete;

  // Packets of this context wake a sleeper on the channel. leave() before the context is destroyed; it returns when
  // nobody is in it.
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
  // An epoll set that contains the channel.
  struct Watcher {
    int number;  // the program's
    int epoll;   // our own descriptor of it: the program may close its own while the sockets are in the set
    epoll_event event;
  };
  void control(int operation, int epoll, epoll_event event);
  void unwatch(int number);
  std::mutex lock_;
  Context* context_ = nullptr;
  std::array<int, 2> packets_{-1, -1};  // the context's descriptors
  std::vector<Watcher> watchers_;
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
