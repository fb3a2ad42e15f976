#include "write_events/write_channel.h"

#include <cerrno>
#include <cstddef>
#include <mutex>
#include <utility>

#include "base/check.h"
#include "verbs/objects.h"
#include "verbs/verbs.h"

namespace brdma::provider {
namespace {

static_assert(kCoreFirst<WriteChannelObject>);

constexpr std::uint32_t kEventsUsual = 4096, kEventsMax = 1u << 20;

// By the pointer that every provider sets and ibv_poll_cq() calls: nothing else of another provider's context is read.
bool is_ours(const ibv_context* context) {
  return context->ops.poll_cq == &verbs::poll_cq || has_abandoned_operations(context);
}

// Events lost by the device, in all shards, before they reached a channel.
std::uint64_t lost_by_device(Shards& shards) {
  std::uint64_t lost = 0;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    lost += Context::Session(shards[i]).engine().statistics().get(Counter::kWriteEventsLost);
  }
  return lost;
}

// 0: usable.
int error_of(WriteChannelObject& channel) {
  const int error = channel.queue->ended();
  if (error == EIO) complain_of_abandoned();
  return error;
}

// Null: none of this context's. Only its address is compared. OpenDevice::objects() held.
MemoryRegionObject* find_region(OpenDevice& device, const ibv_mr* mr) {
  auto& regions = device.undestroyed().regions;
  const auto found = regions.find(reinterpret_cast<MemoryRegionObject*>(const_cast<ibv_mr*>(mr)));
  return found == regions.end() ? nullptr : *found;
}

// OpenDevice::objects() held.
void stop_watching(OpenDevice& device, MemoryRegionObject& region) {
  for (std::size_t i = 0; i < device.shards().size(); ++i) {
    BRDMA_CHECK(device.shards()[i].unwatch_writes(region.engine[i]).ok());
  }
  device.write_watches().unwatch(std::exchange(region.watch, 0));
}

}  // namespace

Result<brdma_write_channel*, Status> create_write_channel(ibv_context* context, std::uint32_t events_max) {
  if (context == nullptr || events_max > kEventsMax) return Status(EINVAL);
  if (!is_ours(context)) return Status(EOPNOTSUPP);
  if (is_abandoned(context)) {
    complain_of_abandoned();
    return Status(EIO);
  }
  auto queue = WriteQueue::make(events_max == 0 ? kEventsUsual : events_max);
  if (!queue) return queue.reason();
  OpenDevice& device = device_of(context);
  auto channel = std::make_unique<WriteChannelObject>();
  channel->core = {.context = context, .fd = queue.value()->fd()};
  channel->device = &device;
  channel->queue = std::move(queue).value();
  const std::lock_guard held(device.objects());
  channel->lost_before = lost_by_device(device.shards());
  device.write_watches().add(channel->queue);
  device.undestroyed().write_channels.insert(channel.get());
  return &channel.release()->core;
}

void destroy_write_channel(WriteChannelObject& channel) {
  if (channel.queue->ended() == 0) {
    OpenDevice& device = *channel.device;
    const std::lock_guard held(device.objects());
    for (MemoryRegionObject* region : device.undestroyed().regions) {
      if (device.write_watches().is_of(region->watch, *channel.queue)) stop_watching(device, *region);
    }
    device.undestroyed().write_channels.erase(&channel);
    leave_write_channel(channel, device.write_watches());
  }
  delete &channel;
}

void leave_write_channel(WriteChannelObject& channel, WriteWatches& watches) {
  watches.remove(*channel.queue);
  channel.queue->end(EBADF);
}

Status watch_writes(WriteChannelObject& channel, const ibv_mr* mr, std::uint64_t user) {
  if (const int error = error_of(channel); error != 0) return Status(error);
  OpenDevice& device = *channel.device;
  const std::lock_guard held(device.objects());
  MemoryRegionObject* const region = find_region(device, mr);
  if (region == nullptr) return Status(EINVAL);
  if (region->watch != 0) return Status(EBUSY);
  region->watch = device.write_watches().watch(channel.queue, user);
  for (std::size_t i = 0; i < device.shards().size(); ++i) {
    BRDMA_CHECK(device.shards()[i].watch_writes(region->engine[i], user_of(region->watch)).ok());
  }
  return Status::success();
}

Status unwatch_writes(WriteChannelObject& channel, const ibv_mr* mr) {
  if (const int error = error_of(channel); error != 0) return Status(error);
  OpenDevice& device = *channel.device;
  const std::lock_guard held(device.objects());
  MemoryRegionObject* const region = find_region(device, mr);
  if (region == nullptr) return Status(EINVAL);
  if (!device.write_watches().is_of(region->watch, *channel.queue)) return Status(ENOENT);
  stop_watching(device, *region);
  return Status::success();
}

std::uint64_t lost_write_events(WriteChannelObject& channel) {
  std::uint64_t lost = channel.queue->lost();
  if (channel.queue->ended() == 0) lost += lost_by_device(channel.device->shards()) - channel.lost_before;
  return lost;
}

}  // namespace brdma::provider
