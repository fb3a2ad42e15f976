#include "context/shared_device.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <list>
#include <memory>
#include <string>
#include <utility>

#include "device_files/device_catalog.h"
#include "io/daemon/refusal.h"
#include "preload/view.h"
#include "rdma_cm/server.h"
#include "verbs/objects.h"

namespace brdma::provider {
namespace {

// A thread may have moved to another network namespace, whose interfaces have the same indices.
struct DeviceKey {
  std::uint64_t namespace_device = 0, namespace_inode = 0;
  std::uint32_t ifindex = 0;
  bool operator==(const DeviceKey&) const = default;
};

DeviceKey key_of(const DeviceInfo& device) {
  struct stat status {};
  if (::stat("/proc/thread-self/ns/net", &status) != 0) status = {};
  return {status.st_dev, status.st_ino, device.ifindex};
}

}  // namespace

struct SharedDevice::Place {
  DeviceKey key;
  std::mutex lock;
  SharedDevice* open = nullptr;
};

namespace {

struct Registry {
  explicit Registry(pid_t owner) : pid(owner) {}
  const pid_t pid;
  std::mutex lock;
  std::list<SharedDevice::Place> places;  // they stay
  std::vector<SharedDevice*> devices;
};

// Never destroyed: contexts may be closed in exit handlers that run after ours. A forked child makes its own: another
// thread may have held the parent's locks.
Registry& registry() {
  static std::atomic<Registry*> current{nullptr};
  Registry* there = current.load(std::memory_order_acquire);
  const pid_t pid = ::getpid();
  while (there == nullptr || there->pid != pid) {
    auto made = std::make_unique<Registry>(pid);
    if (current.compare_exchange_strong(there, made.get(), std::memory_order_acq_rel)) return *made.release();
  }
  return *there;
}

// The parent's, with the forking thread's lock.
Registry* forking = nullptr;

SharedDevice::Place& place_of(const DeviceInfo& device) {
  const DeviceKey key = key_of(device);
  Registry& all = registry();
  const std::lock_guard held(all.lock);
  for (SharedDevice::Place& place : all.places) {
    if (place.key == key) return place;
  }
  SharedDevice::Place& made = all.places.emplace_back();
  made.key = key;
  return made;
}

}  // namespace

SharedDevice::SharedDevice(Place& place, DeviceInfo device)
    : place_(place), device_(std::move(device)), reported_(device_) {}

Result<SharedDevice*, ContextError> SharedDevice::join(const DeviceInfo& device) {
  watch_forks();
  Place& place = place_of(device);
  const std::lock_guard held(place.lock);
  if (place.open != nullptr && place.open->usable()) {
    ++place.open->users_;
    return place.open;
  }
  std::unique_ptr<SharedDevice, void (*)(SharedDevice*)> made(new SharedDevice(place, device),
                                                              [](SharedDevice* each) { delete each; });
  if (const Status status = made->ownership_.make(); !status.ok()) {
    return ContextError{.error = status.error(),
                        .message = io::refusal(device.name + " cannot be opened", status.error())};
  }
  auto contexts = Context::open_shards(made->device_, made.get());
  if (!contexts) return contexts.reason();
  made->shards_ = Shards(std::move(contexts).value());
  preload::refresh();  // the present brdmad may have other GID tables
  {
    const std::lock_guard reporting(made->reporting_);
    made->reported_ = made->info();
  }
  place.open = made.get();  // one whose lease has ended lives on with its contexts
  const std::lock_guard listed(registry().lock);
  registry().devices.push_back(made.get());
  return made.release();
}

void SharedDevice::leave() {
  const std::lock_guard held(place_.lock);
  if (--users_ != 0) return;
  if (place_.open == this) place_.open = nullptr;
  {
    const std::lock_guard listed(registry().lock);
    std::erase(registry().devices, this);
  }
  delete this;
}

bool SharedDevice::usable() {
  {
    const std::lock_guard listed(registry().lock);
    if (divided_) return false;
  }
  {
    const std::lock_guard held(contexts_lock_);
    if (fatal_) return false;
  }
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    if (!shards_[i].connected()) return false;
  }
  return true;
}

void SharedDevice::add(OpenDevice& context) {
  const std::lock_guard held(contexts_lock_);
  contexts_.push_back(&context);
  if (fatal_) context.async_event(IBV_EVENT_DEVICE_FATAL, nullptr);
}

void SharedDevice::remove(OpenDevice& context) {
  const std::lock_guard held(contexts_lock_);
  std::erase(contexts_, &context);
}

Status SharedDevice::claim() {
  if (!ownership_.take()) {
    complain(device_.name + " was opened before fork(), and process " + std::to_string(ownership_.owner()) +
             " has made queue pairs of it: open it in each process that is to have some");
    return Status(EBUSY);
  }
  for (std::size_t i = 0; i < shards_.size(); ++i) shards_[i].take_over();
  return Status::success();
}

void SharedDevice::before_fork() {
  Registry& all = registry();
  all.lock.lock();
  forking = &all;
  for (SharedDevice* device : all.devices) {
    device->contexts_lock_.lock();
    device->write_watches_.before_fork();
  }
}

void SharedDevice::after_fork_in_parent() {
  for (SharedDevice* device : forking->devices) {
    device->divided_ = device->divided_ || device->ownership_.owner() == 0;
    device->write_watches_.after_fork();
    device->contexts_lock_.unlock();
  }
  forking->lock.unlock();
}

void SharedDevice::after_fork_in_child() {
  for (SharedDevice* device : forking->devices) {
    if (!device->abandoned_ && (device->ownership_.owner() != 0 || !device->is_consistent())) device->abandon();
    if (!device->abandoned_) device->write_watches_.renew_in_child();
    device->write_watches_.after_fork();
    device->contexts_lock_.unlock();
  }
  forking->lock.unlock();
}

// True if no thread that no longer exists was inside an operation.
bool SharedDevice::is_consistent() {
  const auto is_free = [](std::mutex& each) {
    if (!each.try_lock()) return false;
    each.unlock();
    return true;
  };
  if (!is_free(place_.lock) || !is_free(reporting_) || !is_free(objects_)) return false;
  if (!std::ranges::all_of(contexts_, [&](OpenDevice* each) { return is_free(each->events()); })) return false;
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    if (shards_[i].is_busy()) return false;
  }
  return true;
}

void SharedDevice::abandon() {
  abandoned_ = true;
  any_abandoned = true;
  for (OpenDevice* context : contexts_) context->abandon();
  write_watches_.abandon_in_child();
}

// Skips devices being opened or closed just now: exit() may have been called in the middle of it.
void SharedDevice::leave_all() {
  Registry& all = registry();
  const std::unique_lock listed(all.lock, std::try_to_lock);
  if (!listed) return;
  for (Place& place : all.places) {
    const std::unique_lock held(place.lock, std::try_to_lock);
    if (!held || place.open == nullptr) continue;
    for (std::size_t i = 0; i < place.open->shards_.size(); ++i) place.open->shards_[i].leave();
  }
}

DeviceInfo SharedDevice::info() const {
  auto now = find_device(device_.ifindex);
  if (now) return std::move(*now);
  DeviceInfo gone = device_;  // its interface is gone: keep the rest
  gone.active = false;
  return gone;
}

std::vector<int> SharedDevice::interface_changed(bool removed) {
  preload::refresh();  // programs notified of changed GIDs read them
  const std::lock_guard reporting(reporting_);
  const DeviceInfo now = info();
  std::vector<int> events;
  const auto same = [](const DeviceInfo::Gid& a, const DeviceInfo::Gid& b) { return a.address == b.address; };
  const bool other_gids = !std::ranges::equal(now.gids, reported_.gids, same);
  if (!removed && other_gids) events.push_back(IBV_EVENT_GID_CHANGE);
  // Connections on a port that is down may get it back with its addresses, or see it removed: then they get an event.
  if (now.active && (other_gids || !reported_.active)) cm_addresses_changed(device_.guid);
  if (now.active != reported_.active) events.push_back(now.active ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR);
  if (removed) {
    events.push_back(IBV_EVENT_DEVICE_FATAL);
    cm_device_removed(device_.guid);
  }
  reported_ = now;
  return events;
}

void SharedDevice::completion_event(void* cq_user) {
  auto& cq = *static_cast<CompletionQueueObject*>(cq_user);
  if (!cq.alone && !cq.rings.fired()) return;
  const std::lock_guard held(device_of(cq.core.cq.context).events());
  cq.write_event();
}

void SharedDevice::async_event(int ibv_event_type, void* user) {
  switch (ibv_event_type) {
    case IBV_EVENT_CQ_ERR:
      return device_of(static_cast<CompletionQueueObject*>(user)->core.cq.context).async_event(ibv_event_type, user);
    case IBV_EVENT_SRQ_LIMIT_REACHED:
      return device_of(static_cast<SharedReceiveQueueObject*>(user)->core.srq.context)
          .async_event(ibv_event_type, user);
    case IBV_EVENT_DEVICE_FATAL:
    case IBV_EVENT_PORT_ACTIVE:
    case IBV_EVENT_PORT_ERR:
    case IBV_EVENT_GID_CHANGE:
      break;
    default:
      return device_of(static_cast<QueuePairObject*>(user)->core.qp.context).async_event(ibv_event_type, user);
  }
  const std::lock_guard held(contexts_lock_);
  if (ibv_event_type == IBV_EVENT_DEVICE_FATAL) fatal_ = true;
  for (OpenDevice* context : contexts_) context->async_event(ibv_event_type, nullptr);
}

}  // namespace brdma::provider
