#include "rdma_cm/server.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <ctime>
#include <memory>
#include <mutex>

#include "device_files/device_catalog.h"
#include "io/cm/cm_service.h"
#include "io/udp/socket_address.h"
#include "plugin/after_fork.h"
#include "plugin/libibverbs.h"
#include "preload/view.h"
#include "rdma_cm/channels.h"
#include "rdma_cm/execute.h"

namespace brdma::provider {
namespace {

// The devices as in the program's libibverbs; its channels.
class Host final : public io::CmServiceHost {
 public:
  // An address may have come since the devices were listed.
  std::optional<cm::LocalDevice> device_of(const IpAddress& local, std::uint32_t scope) override {
    if (const auto found = listed(local, scope)) return found;
    preload::refresh();
    return listed(local, scope);
  }
  void event_added(cm::ChannelNumber channel) override { channels.event_added(channel); }
  std::uint32_t take_back_events(cm::ChannelNumber channel, std::uint32_t count) override {
    return channels.take_back_events(channel, count);
  }
  Channels channels;

 private:
  static std::optional<cm::LocalDevice> listed(const IpAddress& local, std::uint32_t scope) {
    const DeviceList devices = current_devices();
    for (const DeviceInfo& device : *devices) {
      if (io::is_link_local(local) && scope != 0 && device.ifindex != scope) continue;
      for (std::size_t i = 0; i < device.gids.size(); ++i) {
        if (device.gids[i].address != local) continue;
        return cm::LocalDevice{device.guid, static_cast<std::uint8_t>(i), device.active_mtu, device.ifindex};
      }
    }
    return std::nullopt;
  }
};

struct Server {
  std::mutex starting;
  Host host;
  std::atomic<io::CmService*> service{nullptr};  // made at the first channel; never destroyed, as threads may be in it
  std::atomic<pid_t> pid{0};                     // of its process: not of a forked child
};

// Never destroyed: hooks run until the very end of the process.
Server& server() {
  static auto* const instance = new Server;
  return *instance;
}
std::atomic<bool> in_use{false};

io::CmService* running() {
  Server& me = server();
  io::CmService* const service = me.service.load(std::memory_order_acquire);
  return service != nullptr && me.pid == ::getpid() ? service : nullptr;
}

class Desk final : public CmDesk {
 public:
  explicit Desk(io::CmService& service) : service_(service) {}
  std::unique_ptr<Session> begin() override { return std::make_unique<Locked>(service_); }
  void pause() override {
    const timespec time{0, 50'000};
    ::nanosleep(&time, nullptr);
  }
  std::optional<cm::ChannelNumber> find_channel(int fd) override { return server().host.channels.find(fd); }

 private:
  // The lock first: it protects the rest.
  struct Lock {
    explicit Lock(io::CmService& service) : session(service) {}
    io::CmService::Session session;
  };
  struct Locked final : Lock, Session {
    explicit Locked(io::CmService& service) : Lock(service), Session(*session.operator->(), session.now()) {}
  };
  io::CmService& service_;
};

}  // namespace

int open_cm_channel() {
  Server& me = server();
  const std::lock_guard lock(me.starting);
  if (running() == nullptr) {  // a forked child has lost its parent's, and starts its own
    auto service = io::CmService::start(me.host);
    if (!service) {
      complain("no RDMA-CM: " + service.reason().message);
      errno = service.reason().error;
      return -1;
    }
    me.pid = ::getpid();
    me.service.store(service.value().release(), std::memory_order_release);
  }
  watch_forks();
  const int fd = me.host.channels.open();
  if (fd >= 0) in_use = true;
  return fd;
}

ssize_t cm_write(int fd, const void* bytes, std::size_t count) {
  io::CmService* const service = running();
  const auto channel = server().host.channels.find(fd);
  if (service == nullptr || !channel) {
    errno = EBADF;
    return -1;
  }
  Desk desk(*service);
  const int error = execute(desk, *channel, fd, bytes, count);
  if (error == 0) return static_cast<ssize_t>(count);
  errno = error;
  return -1;
}

void cm_descriptor_copied(int from, int to) {
  if (in_use) server().host.channels.copied(from, to);
}

void cm_descriptor_closed(int fd) {
  if (!in_use || server().pid != ::getpid()) return;
  const auto channel = server().host.channels.closed(fd);
  io::CmService* const service = running();
  if (!channel || service == nullptr) return;
  io::CmService::Session session(*service);
  session->close_channel(*channel, session.now());
}

void cm_addresses_changed(std::uint64_t device_guid) {
  if (io::CmService* const service = running()) io::CmService::Session(*service)->addresses_changed(device_guid);
}

void cm_device_removed(std::uint64_t device_guid) {
  if (io::CmService* const service = running()) io::CmService::Session(*service)->device_removed(device_guid);
}

void cm_after_fork() {
  if (in_use && server().pid != ::getpid()) server().host.channels.replace();
}

void leave_cm() {
  if (io::CmService* const service = running()) service->leave();
}

}  // namespace brdma::provider
