// bitmaprdma/write_events.h - notification of plain RDMA WRITEs, for verbs programs in C11 and C++. A receiver that
// watches a memory region gets one event for each WRITE that has arrived in it. It need not poll its memory, and the
// sender needs no immediate: WRITEs of any peer, with or without immediate, on RC and UC queue pairs.
//
// Order of calls: brdma_create_write_channel() on an open device; brdma_watch_writes() for each region; poll(2) on the
// channel's fd, or brdma_get_write_events(), which blocks; brdma_destroy_write_channel() before ibv_close_device().
//
// An event means: all bytes of the WRITE are in memory, and everything that its queue pair received before it has been
// executed. Events of one queue pair come in the order in which the peer posted its WRITEs. A WRITE of 0 bytes makes no
// event, nor does one by the key of a memory window. Peer and wire are not affected.
//
// Limits: a channel keeps `events_max` events. Those that come while it is full are lost, and counted: see
// brdma_lost_write_events(). A region is watched by one channel at a time; a channel watches any number of regions.
// Errors: functions that return int give 0, or a positive errno value and nothing has changed; the others -1 or a null
// pointer, with errno. Do not pass a destroyed channel or region, as with any verbs object.
// Thread-safety: every function, any thread; destroying a channel ends brdma_get_write_events() in other threads with
// EBADF. No call may begin once destruction has begun. No function is async-signal-safe. No callbacks.
// fork(): a child has the channel of a device that has queue pairs as it has other objects of that device: every call
// is EIO at once, the fd is readable, and the channel may be destroyed. The parent does not notice.
// Source: docs/explanation/transfers.md, "Notification of WRITEs" (docs/design, RR-9).
// Link: pkg-config bitmaprdma, or -lbitmaprdma -libverbs.
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ibv_context;
struct ibv_mr;

struct brdma_write_channel {
  struct ibv_context* context;  // device that it was created on
  // Readable (POLLIN) while events wait. Blocking and close-on-exec; the program may set O_NONBLOCK, and must neither
  // read nor close it.
  int fd;
};

struct brdma_write_event {
  uint64_t user;     // as given to brdma_watch_writes()
  uint64_t address;  // of the first byte, as the peer named it: wr.rdma.remote_addr of its work request
  uint32_t length;   // bytes, 1 to 2^31
  uint32_t qp_num;   // of the queue pair that received it, in this process
};

// `events_max`: events kept until the program takes them, at 32 bytes each; 0: 4096. At most 2^20.
// Errors: EOPNOTSUPP `context` is another provider's; EINVAL null, or events_max too large; EMFILE, ENFILE no
// descriptor left (a channel needs two); ENOMEM; EIO in a forked child.
struct brdma_write_channel* brdma_create_write_channel(struct ibv_context* context, uint32_t events_max);

// Regions of the channel are no longer watched; unread events are dropped. Error: EINVAL null.
int brdma_destroy_write_channel(struct brdma_write_channel* channel);

// From now on each WRITE that arrives in `mr` makes an event with `user`, including a WRITE that began before.
// ibv_rereg_mr() keeps it watched. Errors: EINVAL null, or no region of the channel's context; EBUSY watched already,
// by this or another channel; EIO in a forked child; EBADF the context was closed.
int brdma_watch_writes(struct brdma_write_channel* channel, struct ibv_mr* mr, uint64_t user);

// No event of `mr` is delivered from now on: waiting ones are dropped. ibv_dereg_mr() does the same. Errors: EINVAL as
// above; ENOENT this channel does not watch it; EIO in a forked child; EBADF the context was closed.
int brdma_unwatch_writes(struct brdma_write_channel* channel, struct ibv_mr* mr);

// Takes up to `count` events, oldest first, and returns their number: at least one. Waits while there is none, unless
// the fd has O_NONBLOCK. Errors (-1): EAGAIN none, and O_NONBLOCK; EINTR a signal; EINVAL null, or count below 1; EIO
// in a forked child; EBADF the channel is being destroyed, its context was closed, or its fd was.
int brdma_get_write_events(struct brdma_write_channel* channel, struct brdma_write_event* events, int count);

// Number of events lost since the channel was created, because the program did not take earlier ones in time. Includes
// those that the device lost before it knew their channel (more than 4096 WRITEs completed by one packet): they count
// for each of its channels. Null: 0.
uint64_t brdma_lost_write_events(struct brdma_write_channel* channel);

#ifdef __cplusplus
}
#endif
