// event_channels.h - the event pipes of this process, found by the descriptor that the program has: completion channels
// and the descriptors of asynchronous events. A pipe is kept while anybody can read it; completion queues keep it too.
// Thread-safety: any. A forked child finds the list in order.
#pragma once

#include <cstdint>
#include <memory>

#include "channel_sleep.h"
#include "event_pipe.h"

namespace brdma::provider {

// A new pipe, known by its program's end from here on. Errors as EventPipe::make().
enum class EventsOf : std::uint8_t { kCompletions, kDevice };
[[nodiscard]] Result<EventPipe::Made, Status> make_event_channel(EventsOf what);

// Null: no pipe of ours (any more).
[[nodiscard]] std::shared_ptr<EventPipe> find_event_channel(int fd);

// Null: no completion channel of ours.
[[nodiscard]] std::shared_ptr<EventPipe> find_completion_channel(int fd);

// A completion channel, and the one who sleeps on it (channel_sleep.h), which the program does now or will; nulls: `fd`
// is none of ours (any more).
struct SleepingChannel {
  std::shared_ptr<EventPipe> pipe;
  std::shared_ptr<ChannelSleep> sleep;
};
[[nodiscard]] SleepingChannel find_sleeping_channel(int fd);

// A completion queue, as its records have it, writes into the channel that the program has as `fd`; until it does not
// any more. `device`: whose it is. `context`: whose packets make its events; null: those of several.
void event_channel_joined(const EventPipe& channel, int fd, const void* queue, const void* device, Context* context);
void event_channel_left(const EventPipe& channel, const void* queue);

// In a forked child: the device's channels hold a record of each queue that used them, then they end.
void replace_event_channels(const void* device);

// After a descriptor of it was closed.
void event_channel_closed(const std::shared_ptr<EventPipe>& channel);

}  // namespace brdma::provider
