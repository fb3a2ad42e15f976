#include "context/open_device.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <span>

#include "device_files/device_catalog.h"
#include "events/event_channels.h"
#include "io/daemon/refusal.h"
#include "verbs/objects.h"
#include "verbs/verbs.h"

namespace brdma::provider {
namespace {

// Place of our pointer, from the ibv_context on; the library's part ends before.
constexpr std::size_t kOurPointer = abi::kContextBytes + 184;
static_assert(1536 + kOurPointer + sizeof(void*) <= abi::kContextAllocation);

void* place_of_pointer(const ibv_context* context) {
  return const_cast<std::byte*>(reinterpret_cast<const std::byte*>(context)) + kOurPointer;
}

}  // namespace

OpenDevice::OpenDevice(Libibverbs& core, const abi::Layout& layout, void* verbs_context)
    : core_(core),
      layout_(layout),
      verbs_context_(verbs_context),
      ibv_(reinterpret_cast<ibv_context*>(static_cast<std::byte*>(verbs_context) + layout.context_offset)) {
  const OpenDevice* self = this;
  std::memcpy(place_of_pointer(ibv_), &self, sizeof self);
}

Result<void*, Status> OpenDevice::open(ibv_device* device, int cmd_fd) {
  Libibverbs& core = Libibverbs::of(device);
  const abi::Layout* layout = core.layout(device);
  const auto info = layout == nullptr ? std::nullopt : find_device(device->name);
  if (!info) {
    ::close(cmd_fd);
    return Status(layout == nullptr ? ENOTSUP : ENODEV);
  }
  void* verbs_context = core.core().init_and_alloc_context(device, cmd_fd, abi::kContextAllocation, nullptr, 0);
  if (verbs_context == nullptr) return Status(ENOMEM);  // it has closed cmd_fd
  std::unique_ptr<OpenDevice> self(new OpenDevice(core, *layout, verbs_context));
  Status status = self->make_async_pipe();
  if (!status.ok()) {
    complain(device->name + (": " + io::refusal("no channel for asynchronous events can be made", status.error())));
  } else if (auto joined = SharedDevice::join(*info); joined) {
    self->shared_ = joined.value();
  } else {
    complain(joined.reason().message);
    status = Status(joined.reason().error);
  }
  if (!status.ok()) {
    self->release_core();
    return status;
  }
  self->ibv_->num_comp_vectors = kCompletionVectors;
  abi::OpTable ops(layout->release);
  fill_operations(ops);
  core.core().set_ops(verbs_context, ops.data());
  self->shared_->add(*self);
  self.release();
  return verbs_context;
}

// Set before the library checks it: otherwise it would request the descriptor from the kernel.
Status OpenDevice::make_async_pipe() {
  const auto made = make_event_channel(EventsOf::kDevice);
  if (!made) return made.reason();
  ibv_->async_fd = made.value().fd;
  async_events_ = made.value().pipe;
  return Status::success();
}

OpenDevice& OpenDevice::of_context(const ibv_context* context) {
  OpenDevice* self = nullptr;
  std::memcpy(&self, place_of_pointer(context), sizeof self);
  return *self;
}

void OpenDevice::close() {
  if (!abandoned()) {
    {
      const std::lock_guard held(objects());
      undestroyed_.destroy_all(shards(), write_watches());
    }
    shared_->remove(*this);
    shared_->leave();
  }
  release_core();
}

void OpenDevice::release_core() {
  core_.core().uninit_context(verbs_context_);  // closes cmd_fd and async_fd
  std::free(verbs_context_);
}

void OpenDevice::abandon() {
  abi::OpTable ops(layout_.release);
  fill_abandoned_operations(ops);
  core_.core().set_ops(verbs_context_, ops.data());
  ibv_async_event fatal{};
  fatal.event_type = IBV_EVENT_DEVICE_FATAL;
  async_events_->replace(ibv_->async_fd, std::as_bytes(std::span(&fatal, 1)));
  replace_event_channels(this);
}

void OpenDevice::async_event(int ibv_event_type, void* user) {
  const std::lock_guard held(events_);
  ibv_async_event event{};
  event.event_type = static_cast<enum ibv_event_type>(ibv_event_type);
  std::uint32_t* written = nullptr;
  switch (event.event_type) {
    case IBV_EVENT_CQ_ERR: {
      auto* cq = static_cast<CompletionQueueObject*>(user);
      event.element.cq = &cq->core.cq;
      written = &cq->async_events_written;
      break;
    }
    case IBV_EVENT_SRQ_LIMIT_REACHED: {
      auto* srq = static_cast<SharedReceiveQueueObject*>(user);
      event.element.srq = &srq->core.srq;
      written = &srq->async_events_written;
      break;
    }
    case IBV_EVENT_DEVICE_FATAL:
      break;
    case IBV_EVENT_PORT_ACTIVE:
    case IBV_EVENT_PORT_ERR:
    case IBV_EVENT_GID_CHANGE:
      event.element.port_num = 1;
      break;
    default: {
      auto* qp = static_cast<QueuePairObject*>(user);
      event.element.qp = &qp->core.qp;
      written = &qp->async_events_written;
    }
  }
  // A program that never reads its events fills the pipe: further ones are lost, as nothing may block here.
  if (async_events_->write(std::as_bytes(std::span(&event, 1))) && written != nullptr) ++*written;
}

std::uint32_t OpenDevice::purge_async_events(const void* element) {
  return async_events_->purge(ibv_->async_fd, sizeof(ibv_async_event), [element](std::span<const std::byte> record) {
    ibv_async_event event;
    std::memcpy(&event, record.data(), sizeof event);
    switch (event.event_type) {  // others carry a port number, which must not be taken for a pointer
      case IBV_EVENT_DEVICE_FATAL:
      case IBV_EVENT_PORT_ACTIVE:
      case IBV_EVENT_PORT_ERR:
      case IBV_EVENT_GID_CHANGE:
        return false;
      default:
        return static_cast<const void*>(event.element.qp) == element;
    }
  });
}

}  // namespace brdma::provider
