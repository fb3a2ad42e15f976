// write_events/write_channel.h - notification of WRITEs for programs (bitmaprdma/write_events.h): checks and
// translates; the events wait in a WriteQueue. Functions return as that header states. Thread-safety: any, except
// during destruction of an object.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/result.h"
#include "bitmaprdma/write_events.h"
#include "write_events/write_queue.h"

struct ibv_context;
struct ibv_mr;

namespace brdma::provider {

class OpenDevice;
class Shards;
struct MemoryRegionObject;

struct WriteChannelObject {
  brdma_write_channel core{};
  OpenDevice* device = nullptr;  // while the queue has not ended
  std::shared_ptr<WriteQueue> queue;
  std::uint64_t lost_before = 0;  // by the device, when the channel was created
};

inline WriteChannelObject& object_of(brdma_write_channel* channel) {
  return *reinterpret_cast<WriteChannelObject*>(channel);
}

[[nodiscard]] Result<brdma_write_channel*, Status> create_write_channel(ibv_context* context, std::uint32_t events_max);
void destroy_write_channel(WriteChannelObject& channel);
Status watch_writes(WriteChannelObject& channel, const ibv_mr* mr, std::uint64_t user);
Status unwatch_writes(WriteChannelObject& channel, const ibv_mr* mr);
[[nodiscard]] std::uint64_t lost_write_events(WriteChannelObject& channel);

// Its context is closed: the program still has the structure.
void leave_write_channel(WriteChannelObject& channel, WriteWatches& watches);

}  // namespace brdma::provider
