// events/event_channels.h - the event pipes of this process, found by the program's descriptor: completion channels and
// the descriptors of asynchronous events. A pipe is kept while it can be read; completion queues keep it too.
// Thread-safety: any. A forked child finds the list in order.
#pragma once

#include <cstdint>
#include <memory>

#include "events/channel_sleep.h"
#include "events/event_pipe.h"

namespace brdma::provider {

// A new pipe, registered by its program's end. Errors as EventPipe::make().
enum class EventsOf : std::uint8_t { kCompletions, kDevice };
[[nodiscard]] Result<EventPipe::Made, Status> make_event_channel(EventsOf what);

// `fd` is about to be closed. Null: not, or no longer, a pipe of ours.
[[nodiscard]] std::shared_ptr<EventPipe> event_channel_of_closing(int fd);

// Null: no completion channel of ours.
[[nodiscard]] std::shared_ptr<EventPipe> find_completion_channel(int fd);

// A completion channel, and its sleeper (channel_sleep.h): the program sleeps on it now or soon. Nulls: not, or no
// longer, ours.
struct SleepingChannel {
  std::shared_ptr<EventPipe> pipe;
  std::shared_ptr<ChannelSleep> sleep;
};
[[nodiscard]] SleepingChannel find_sleeping_channel(int fd);
// Without a system call: by EventPipe::inode(), and what `fd` was when find_sleeping_channel() last saw it. By now it
// may be another file (EventPipe::has_end()).
[[nodiscard]] SleepingChannel find_sleeping_channel(ino_t inode);
[[nodiscard]] SleepingChannel recall_sleeping_channel(int fd);

// A completion queue, by its address in records, writes into the channel with the program's descriptor `fd`, until it
// leaves. `device`: its owner. `context`: the one whose packets make its events; null: several.
void event_channel_joined(const EventPipe& channel, int fd, const void* queue, const void* device, Context* context);
void event_channel_left(const EventPipe& channel, const void* queue);

// In a forked child: the device's channels hold a record of each queue that used them, then they end.
void replace_event_channels(const void* device);

// Call after a descriptor of it was closed.
void event_channel_closed(const std::shared_ptr<EventPipe>& channel);

}  // namespace brdma::provider
