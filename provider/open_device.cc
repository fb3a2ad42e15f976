#include "open_device.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "device_catalog.h"
#include "event_channels.h"
#include "io/refusal.h"
#include "objects.h"
#include "preload/view.h"
#include "rdma_cm/server.h"
#include "verbs.h"

namespace brdma::provider {
namespace {

// Where our pointer stands, counted from the ibv_context; the library's part ends before.
constexpr std::size_t kOurPointer = abi::kContextBytes + 184;
static_assert(1536 + kOurPointer + sizeof(void*) <= abi::kContextAllocation);

struct OpenDevices {
  std::mutex lock;
  std::vector<OpenDevice*> list;
};
// Never destroyed: contexts may be closed in exit handlers that run after ours.
OpenDevices& open_devices() {
  static auto* const instance = new OpenDevices;
  return *instance;
}

void* place_of_pointer(const ibv_context* context) {
  return const_cast<std::byte*>(reinterpret_cast<const std::byte*>(context)) + kOurPointer;
}

}  // namespace

OpenDevice::OpenDevice(Libibverbs& core, const abi::Layout& layout, void* verbs_context, DeviceInfo device)
    : core_(core),
      layout_(layout),
      verbs_context_(verbs_context),
      ibv_(reinterpret_cast<ibv_context*>(static_cast<std::byte*>(verbs_context) + layout.context_offset)),
      device_(std::move(device)),
      told_(device_) {
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
  if (verbs_context == nullptr) return Status(ENOMEM);  // has closed cmd_fd
  std::unique_ptr<OpenDevice> self(new OpenDevice(core, *layout, verbs_context, *info));
  Status status = self->ownership_.make();
  if (status.ok()) status = self->make_async_pipe();
  if (!status.ok()) {
    complain(device->name + (": " + io::refusal("no channel for asynchronous events can be made", status.error())));
  } else {
    auto contexts = Context::open_shards(self->device_, self.get());
    if (contexts) {
      self->shards_ = Shards(std::move(contexts).value());
    } else {
      complain(contexts.reason().message);
      status = Status(contexts.reason().error);
    }
  }
  if (!status.ok()) {
    self->release_core();
    return status;
  }
  self->ibv_->num_comp_vectors = 1;
  abi::OpTable ops(layout->release);
  fill_operations(ops);
  core.core().set_ops(verbs_context, ops.data());
  preload::refresh();  // the brdmad that it has now may keep other GID tables
  self->told_ = self->info();
  watch_forks();
  const std::lock_guard guard(open_devices().lock);
  open_devices().list.push_back(self.release());
  return verbs_context;
}

// Set before the library looks: it would ask the kernel for the descriptor otherwise.
Status OpenDevice::make_async_pipe() {
  const auto made = make_event_channel();
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

OpenDevice::~OpenDevice() {
  shards_ = Shards();  // from here on nothing notifies
}

void OpenDevice::release_core() {
  {
    const std::lock_guard guard(open_devices().lock);
    std::erase(open_devices().list, this);
  }
  shards_ = Shards();
  core_.core().uninit_context(verbs_context_);  // closes cmd_fd and async_fd
  std::free(verbs_context_);
}

void OpenDevice::leave_all() {
  const std::unique_lock guard(open_devices().lock, std::try_to_lock);
  if (!guard) return;  // exit() in the middle of opening or closing
  for (OpenDevice* device : open_devices().list) {
    for (std::size_t i = 0; i < device->shards_.size(); ++i) device->shards_[i].leave();
  }
}

Status OpenDevice::claim() {
  if (!ownership_.take()) {
    complain(device_.name + " was opened before fork(), and process " + std::to_string(ownership_.owner()) +
             " has made queue pairs of it: open it in each process that is to have some");
    return Status(EBUSY);
  }
  for (std::size_t i = 0; i < shards_.size(); ++i) shards_[i].take_over();
  return Status::success();
}

void OpenDevice::before_fork() { open_devices().lock.lock(); }
void OpenDevice::after_fork_in_parent() { open_devices().lock.unlock(); }

void OpenDevice::after_fork_in_child() {
  for (OpenDevice* device : open_devices().list) {
    if (device->abandoned_ || (device->ownership_.owner() == 0 && device->is_consistent())) continue;
    device->abandon();
  }
  open_devices().lock.unlock();
}

// No thread that is not there any more was in the midst of something.
bool OpenDevice::is_consistent() {
  for (std::mutex* each : {&objects_, &events_}) {
    if (!each->try_lock()) return false;
    each->unlock();
  }
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    if (shards_[i].is_busy()) return false;
  }
  return true;
}

void OpenDevice::abandon() {
  abandoned_ = true;
  any_abandoned = true;
  abi::OpTable ops(layout_.release);
  fill_abandoned_operations(ops);
  core_.core().set_ops(verbs_context_, ops.data());
  ibv_async_event fatal{};
  fatal.event_type = IBV_EVENT_DEVICE_FATAL;
  async_events_->replace(ibv_->async_fd, std::as_bytes(std::span(&fatal, 1)));
  replace_event_channels(this);
}

DeviceInfo OpenDevice::info() const {
  auto now = find_device(device_.ifindex);
  if (now) return std::move(*now);
  DeviceInfo gone = device_;  // its interface is gone: as it was, but for that
  gone.active = false;
  return gone;
}

std::vector<int> OpenDevice::interface_changed(bool removed) {
  preload::refresh();  // who is told that GIDs have changed asks for them
  const DeviceInfo now = info();
  std::vector<int> events;
  const auto same = [](const DeviceInfo::Gid& a, const DeviceInfo::Gid& b) { return a.address == b.address; };
  const bool other_gids = !std::ranges::equal(now.gids, told_.gids, same);
  if (!removed && other_gids) events.push_back(IBV_EVENT_GID_CHANGE);
  // Connections on a port that is down may see it come back with its addresses, or removed: then they get an event.
  if (now.active && (other_gids || !told_.active)) cm_addresses_changed(device_.guid);
  if (now.active != told_.active) events.push_back(now.active ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR);
  if (removed) {
    events.push_back(IBV_EVENT_DEVICE_FATAL);
    cm_device_removed(device_.guid);
  }
  told_ = now;
  return events;
}

void OpenDevice::completion_event(void* cq_user) {
  auto& cq = *static_cast<CompletionQueueObject*>(cq_user);
  if (!cq.alone && !cq.rings.fired()) return;
  const std::lock_guard held(events_);
  cq.write_event();
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
