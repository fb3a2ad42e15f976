#include "rdma_cm/server.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <mutex>

#include "device_catalog.h"
#include "io/cm_service.h"
#include "libibverbs.h"
#include "rdma_cm/channels.h"
#include "rdma_cm/commands.h"
#include "rdma_cm/translate.h"

namespace brdma::provider {
namespace {

using namespace ucma;  // NOLINT(google-build-using-namespace): this file speaks it

// The devices as the program's libibverbs knows them; the channels that it reads.
class Host final : public io::CmServiceHost {
 public:
  std::optional<cm::LocalDevice> device_of(const IpAddress& local) override {
    const DeviceList devices = current_devices();
    for (const DeviceInfo& device : *devices) {
      for (std::size_t i = 0; i < device.gids.size(); ++i) {
        if (device.gids[i].address != local) continue;
        return cm::LocalDevice{device.guid, static_cast<std::uint8_t>(i), device.active_mtu};
      }
    }
    return std::nullopt;
  }
  void event_added(cm::ChannelNumber channel) override { channels.event_added(channel); }
  void events_removed(cm::ChannelNumber channel, std::uint32_t count) override {
    channels.events_removed(channel, count);
  }
  Channels channels;
};

struct Server {
  std::mutex starting;
  Host host;
  std::atomic<io::CmService*> service{nullptr};  // made at the first channel; never destroyed, as threads may be in it
  std::atomic<pid_t> pid{0};                     // whose it is: not a forked child's
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

// What a command does: answers 0 or an errno value.
struct Call {
  io::CmService& service;
  cm::ChannelNumber channel;
  int fd;
  const std::byte* payload;
  std::size_t in, out;

  template <class Payload>
  [[nodiscard]] Payload as() const {
    Payload value{};  // of an older library what it has not is zero
    std::memcpy(static_cast<void*>(&value), payload, std::min(in, sizeof value));
    return value;
  }
  // No more than the caller has room for.
  template <class Answer>
  void answer(std::uint64_t address, const Answer& value) const {
    std::memcpy(reinterpret_cast<void*>(address), &value, std::min(out, sizeof value));
  }
};

int create_id(const Call& call) {
  const auto command = call.as<CreateId>();
  if (command.port_space != kPortSpaceTcp && command.port_space != kPortSpaceUdp) return EPROTONOSUPPORT;
  const auto space = command.port_space == kPortSpaceUdp ? wire::PortSpace::kUdp : wire::PortSpace::kTcp;
  io::CmService::Session session(call.service);
  const auto id = session->create(call.channel, command.uid, space);
  if (!id) return id.reason().error();
  call.answer(command.response, id.value());
  return 0;
}

int destroy_id(const Call& call) {
  const auto command = call.as<Id>();
  io::CmService::Session session(call.service);
  const auto events = session->destroy(command.id, session.now());
  if (!events) return events.reason().error();
  call.answer(command.response, events.value());
  return 0;
}

int bind_ip(const Call& call) {
  const auto command = call.as<BindIp>();
  const auto address = address_of(command.address);
  if (!address) return EAFNOSUPPORT;
  io::CmService::Session session(call.service);
  return session->bind(command.id, *address).error();
}

int resolve_ip(const Call& call) {
  const auto command = call.as<ResolveIp>();
  const auto destination = address_of(command.destination);
  if (!destination) return EAFNOSUPPORT;
  io::CmService::Session session(call.service);
  return session->resolve_address(command.id, address_of(command.source), *destination).error();
}

int resolve_route(const Call& call) {
  io::CmService::Session session(call.service);
  return session->resolve_route(call.as<ResolveRoute>().id).error();
}

int query_route(const Call& call) {
  const auto command = call.as<Id>();
  io::CmService::Session session(call.service);
  const auto route = session->query(command.id);
  if (!route) return route.reason().error();
  call.answer(command.response, answer_of(route.value()));
  return 0;
}

int connect(const Call& call) {
  const auto command = call.as<Connect>();
  io::CmService::Session session(call.service);
  return session
      ->connect(command.id, parameters_of(command.parameters), {command.ece.vendor_id, command.ece.attr_mod},
                session.now())
      .error();
}

int listen(const Call& call) {
  const auto command = call.as<Listen>();
  io::CmService::Session session(call.service);
  return session->listen(command.id, command.backlog).error();
}

// With parameters the answer to a request; without, the confirmation of a reply.
int accept(const Call& call) {
  const auto command = call.as<Accept>();
  io::CmService::Session session(call.service);
  if (command.parameters.valid == 0) return session->confirm(command.id).error();
  return session
      ->accept(command.id, command.uid, parameters_of(command.parameters),
               {command.ece.vendor_id, command.ece.attr_mod}, session.now())
      .error();
}

int reject(const Call& call) {
  const auto command = call.as<Reject>();
  io::CmService::Session session(call.service);
  const ConstBytes words{command.private_data.data(), command.private_data_len};
  return session->reject(command.id, command.reason, words, session.now()).error();
}

int disconnect(const Call& call) {
  io::CmService::Session session(call.service);
  return session->disconnect(call.as<Disconnect>().id, session.now()).error();
}

int init_qp_attr(const Call& call) {
  const auto command = call.as<InitQpAttr>();
  io::CmService::Session session(call.service);
  const auto setting = session->queue_pair_setting(command.id, static_cast<QpState>(command.qp_state));
  if (!setting) return setting.reason().error();
  call.answer(command.response, answer_of(setting.value()));
  return 0;
}

// Waits, unless the program has made its descriptor non-blocking; not with any lock held. Another thread, or the end of
// an identifier, may have taken the event in between.
int get_event(const Call& call) {
  const auto command = call.as<GetEvent>();
  for (;;) {
    std::uint64_t one = 0;
    if (::read(call.fd, &one, sizeof one) != sizeof one) return errno;
    io::CmService::Session session(call.service);
    if (const auto event = session->fetch_event(call.channel)) {
      call.answer(command.response, answer_of(*event));
      return 0;
    }
  }
}

int set_option(const Call& call) {
  const auto command = call.as<SetOption>();
  if (command.level != kLevelId) return command.level == kLevelIb ? 0 : ENOSYS;  // paths are not for programs to choose
  std::uint32_t value = 0;
  const std::size_t size = command.name == kOptionTos || command.name == kOptionAckTimeout ? 1 : 4;
  if (command.length != size || command.value == 0) return EINVAL;
  std::memcpy(&value, reinterpret_cast<const void*>(command.value), size);
  io::CmService::Session session(call.service);
  auto options = session->port_options(command.id);
  if (!options) return ENOENT;
  switch (command.name) {
    case kOptionTos:
      return session->set_traffic_class(command.id, static_cast<std::uint8_t>(value)).error();
    case kOptionAckTimeout:
      return session->set_ack_timeout(command.id, static_cast<std::uint8_t>(value)).error();
    case kOptionReuseAddress:
      options->reuse = value != 0;
      return session->set_port_options(command.id, *options).error();
    case kOptionAfOnly:
      options->ipv6_only = value != 0;
      return session->set_port_options(command.id, *options).error();
    default:
      return ENOSYS;
  }
}

int notify(const Call& call) {
  io::CmService::Session session(call.service);
  return session->established(call.as<Notify>().id).error();
}

int join_ip_multicast(const Call& call) {
  const auto command = call.as<JoinIpMulticast>();
  const auto group = address_of(command.group);
  if (!group) return EAFNOSUPPORT;
  io::CmService::Session session(call.service);
  const auto membership = session->join(command.id, command.uid, *group);
  if (!membership) return membership.reason().error();
  call.answer(command.response, membership.value());
  return 0;
}

int leave_multicast(const Call& call) {
  const auto command = call.as<Id>();
  io::CmService::Session session(call.service);
  const auto events = session->leave(command.id);
  if (!events) return events.reason().error();
  call.answer(command.response, events.value());
  return 0;
}

int migrate_id(const Call& call) {
  const auto command = call.as<MigrateId>();
  io::CmService::Session session(call.service);
  const auto events = session->migrate(command.id, call.channel);
  if (!events) return events.reason().error();
  call.answer(command.response, events.value());
  return 0;
}

struct Entry {
  Command command;
  std::size_t in_min;
  int (*serve)(const Call&);
};
constexpr Entry kCommands[] = {
    {Command::kCreateId, 18, create_id},
    {Command::kDestroyId, 12, destroy_id},
    {Command::kBindIp, sizeof(BindIp), bind_ip},
    {Command::kResolveIp, sizeof(ResolveIp), resolve_ip},
    {Command::kResolveRoute, sizeof(ResolveRoute), resolve_route},
    {Command::kQueryRoute, 12, query_route},
    {Command::kConnect, offsetof(Connect, reserved), connect},
    {Command::kListen, sizeof(Listen), listen},
    {Command::kAccept, offsetof(Accept, reserved), accept},
    {Command::kReject, sizeof(Reject), reject},
    {Command::kDisconnect, sizeof(Disconnect), disconnect},
    {Command::kInitQpAttr, sizeof(InitQpAttr), init_qp_attr},
    {Command::kGetEvent, sizeof(GetEvent), get_event},
    {Command::kSetOption, sizeof(SetOption), set_option},
    {Command::kNotify, sizeof(Notify), notify},
    {Command::kJoinIpMulticast, sizeof(JoinIpMulticast), join_ip_multicast},
    {Command::kLeaveMulticast, 12, leave_multicast},
    {Command::kMigrateId, sizeof(MigrateId), migrate_id},
};

Header header_of(const void* bytes) {
  Header header;
  std::memcpy(&header, bytes, sizeof header);
  return header;
}

}  // namespace

int open_cm_channel() {
  Server& me = server();
  const std::lock_guard lock(me.starting);
  if (running() == nullptr) {  // a forked child has lost what its parent had, and starts its own
    auto service = io::CmService::start(me.host);
    if (!service) {
      complain("no RDMA-CM: " + service.reason().message);
      errno = service.reason().error;
      return -1;
    }
    me.pid = ::getpid();
    me.service.store(service.value().release(), std::memory_order_release);
  }
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
  if (bytes == nullptr || count < sizeof(Header) || sizeof(Header) + header_of(bytes).in != count) {
    errno = EINVAL;
    return -1;
  }
  const Header header = header_of(bytes);
  const auto entry = std::find_if(std::begin(kCommands), std::end(kCommands), [&](const Entry& candidate) {
    return candidate.command == static_cast<Command>(header.command);
  });
  int error = ENOSYS;
  if (entry != std::end(kCommands)) {
    const Call call{*service,  *channel,  fd, static_cast<const std::byte*>(bytes) + sizeof header,
                    header.in, header.out};
    error = header.in < entry->in_min ? EINVAL : entry->serve(call);
  }
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

void leave_cm() {
  if (io::CmService* const service = running()) service->leave();
}

}  // namespace brdma::provider
