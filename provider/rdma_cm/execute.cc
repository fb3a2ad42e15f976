#include "rdma_cm/execute.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <iterator>

#include "rdma_cm/commands.h"
#include "rdma_cm/translate.h"
#include "rdma_cm/user_memory.h"

namespace brdma::provider {
namespace {

using namespace ucma;  // NOLINT(google-build-using-namespace): this file speaks it

// A command's execution: returns 0 or an errno value. Checks in the kernel's order: room for the answer, the command's
// own fields, the identifier.
struct Call {
  CmDesk& desk;
  cm::ChannelNumber channel;
  int fd;
  const std::byte* payload;
  std::size_t in, out;

  template <class Payload>
  [[nodiscard]] Payload as() const {
    Payload value{};  // members that an older library lacks are zero
    std::memcpy(static_cast<void*>(&value), payload, std::min(in, sizeof value));
    return value;
  }
  // Before anything changes: 0 if there is room for an answer of at least `least` bytes, else ENOSPC or EFAULT. (It
  // writes to the room: no other check is reliable.)
  template <class Answer>
  [[nodiscard]] int expect_answer(std::uint64_t address, std::size_t least = sizeof(Answer)) const {
    if (out < least) return ENOSPC;
    return copy_to_program(reinterpret_cast<void*>(address), &kNoAnswer, std::min(out, sizeof(Answer))) ? 0 : EFAULT;
  }
  // No more than the caller has room for.
  template <class Answer>
  [[nodiscard]] int answer(std::uint64_t address, const Answer& value) const {
    return copy_to_program(reinterpret_cast<void*>(address), &value, std::min(out, sizeof value)) ? 0 : EFAULT;
  }
  // 0 if there is such an identifier and it belongs to `to`, else ENOENT or EINVAL.
  [[nodiscard]] static int own(CmDesk::Session& session, cm::IdNumber id, cm::ChannelNumber to) {
    const auto has = session.cm.channel_of(id);
    return !has ? ENOENT : *has == to ? 0 : EINVAL;
  }

 private:
  static constexpr EventAnswer kNoAnswer{};  // the longest
};

// With the lock, on an identifier of the caller's channel.
template <class Do>
int with_id(const Call& call, cm::IdNumber id, Do act) {
  const auto session = call.desk.begin();
  if (const int error = Call::own(*session, id, call.channel); error != 0) return error;
  return act(*session);
}

// Likewise; writes the result of `act` (a Result) in the layout `Answer`.
template <class Answer, class Do>
int answer_with_id(const Call& call, cm::IdNumber id, std::uint64_t address, std::size_t least, Do act) {
  if (const int error = call.expect_answer<Answer>(address, least); error != 0) return error;
  return with_id(call, id, [&](CmDesk::Session& session) {
    const auto made = act(session);
    if (!made) return made.reason().error();
    return call.answer(address, static_cast<Answer>(made.value()));
  });
}

std::optional<wire::PortSpace> port_space_of(std::uint16_t number) {
  switch (number) {
    case kPortSpaceTcp:
      return wire::PortSpace::kTcp;
    case kPortSpaceUdp:
      return wire::PortSpace::kUdp;
    case kPortSpaceIb:
      return wire::PortSpace::kIb;
    case kPortSpaceIpoib:
      return wire::PortSpace::kIpoib;
    default:
      return std::nullopt;
  }
}

XrcRole xrc_role_of(std::uint8_t qp_type) {
  if (qp_type == kQpTypeXrcSend) return XrcRole::kInitiator;
  return qp_type == kQpTypeXrcReceive ? XrcRole::kTarget : XrcRole::kNone;
}

int create_id(const Call& call) {
  const auto command = call.as<CreateId>();
  if (const int error = call.expect_answer<cm::IdNumber>(command.response); error != 0) return error;
  const auto space = port_space_of(command.port_space);
  if (!space) return EINVAL;
  const XrcRole xrc = xrc_role_of(command.qp_type);
  const auto type = xrc == XrcRole::kNone ? static_cast<QpType>(command.qp_type) : QpType::kRc;
  if (space == wire::PortSpace::kIb && type != QpType::kRc && type != QpType::kUc && type != QpType::kUd) return EINVAL;
  const auto session = call.desk.begin();
  const auto id = session->cm.create(call.channel, command.uid, *space, type, xrc);
  if (!id) return id.reason().error();
  return call.answer(command.response, id.value());
}

// A thread to which poll() reported an event that is gone by now waits for the next one, which may never come: so
// does rping's client whose connection ends just as it destroys the identifier. The race is the program's own, on any
// device; but here the event and the destroyer wait for the same lock, which makes it a close one. So the reader is
// given a moment.
void let_readers_be_first(const Call& call, cm::IdNumber id) {
  constexpr int kPausesMax = 20;
  for (int pauses = 0; pauses < kPausesMax; ++pauses) {
    if (const auto session = call.desk.begin();
        Call::own(*session, id, call.channel) != 0 || !session->cm.has_fresh_event(id, session->now)) {
      return;
    }
    call.desk.pause();
  }
}

int destroy_id(const Call& call) {
  const auto command = call.as<Id>();
  let_readers_be_first(call, command.id);
  return answer_with_id<std::uint32_t>(
      call, command.id, command.response, sizeof(std::uint32_t),
      [&](CmDesk::Session& session) { return session.cm.destroy(command.id, session.now); });
}

int bind_ip(const Call& call) {
  const auto command = call.as<BindIp>();
  const auto address = address_of(command.address);
  if (!address) return EINVAL;
  return with_id(call, command.id,
                 [&](CmDesk::Session& session) { return session.cm.bind(command.id, *address).error(); });
}

int resolve_ip(const Call& call) {
  const auto command = call.as<ResolveIp>();
  const auto destination = address_of(command.destination), source = address_of(command.source);
  if (!destination || (!source && has_family(command.source))) return EINVAL;
  return with_id(call, command.id, [&](CmDesk::Session& session) {
    return session.cm.resolve_address(command.id, source, *destination).error();
  });
}

int resolve_route(const Call& call) {
  const cm::IdNumber id = call.as<ResolveRoute>().id;
  return with_id(call, id, [&](CmDesk::Session& session) { return session.cm.resolve_route(id).error(); });
}

int query_route(const Call& call) {
  const auto command = call.as<Id>();
  constexpr std::size_t kLeast = offsetof(QueryRouteAnswer, ibdev_index);
  if (const int error = call.expect_answer<QueryRouteAnswer>(command.response, kLeast); error != 0) return error;
  return with_id(call, command.id, [&](CmDesk::Session& session) {
    const auto route = session.cm.query(command.id);
    return route ? call.answer(command.response, answer_of(route.value())) : route.reason().error();
  });
}

int connect(const Call& call) {
  const auto command = call.as<Connect>();
  if (command.parameters.valid == 0) return EINVAL;
  return with_id(call, command.id, [&](CmDesk::Session& session) {
    return session.cm
        .connect(command.id, parameters_of(command.parameters), {command.ece.vendor_id, command.ece.attr_mod},
                 session.now)
        .error();
  });
}

int listen(const Call& call) {
  const auto command = call.as<Listen>();
  return with_id(call, command.id,
                 [&](CmDesk::Session& session) { return session.cm.listen(command.id, command.backlog).error(); });
}

// With parameters the answer to a request; without, the confirmation of a reply.
int accept(const Call& call) {
  const auto command = call.as<Accept>();
  return with_id(call, command.id, [&](CmDesk::Session& session) {
    if (command.parameters.valid == 0) return session.cm.confirm(command.id).error();
    return session.cm
        .accept(command.id, command.uid, parameters_of(command.parameters),
                {command.ece.vendor_id, command.ece.attr_mod}, session.now)
        .error();
  });
}

// Programs may give these two reasons only; 0 means the first.
int reject(const Call& call) {
  const auto command = call.as<Reject>();
  if (command.reason != 0 && command.reason != wire::reject::kConsumer &&
      command.reason != wire::reject::kVendorOption) {
    return EINVAL;
  }
  const ConstBytes words{command.private_data.data(), command.private_data_len};
  return with_id(call, command.id, [&](CmDesk::Session& session) {
    return session.cm.reject(command.id, command.reason, words, session.now).error();
  });
}

int disconnect(const Call& call) {
  const cm::IdNumber id = call.as<Disconnect>().id;
  return with_id(call, id, [&](CmDesk::Session& session) { return session.cm.disconnect(id, session.now).error(); });
}

int init_qp_attr(const Call& call) {
  const auto command = call.as<InitQpAttr>();
  if (const int error = call.expect_answer<InitQpAttrAnswer>(command.response); error != 0) return error;
  if (command.qp_state > static_cast<std::uint32_t>(QpState::kErr)) return EINVAL;
  return with_id(call, command.id, [&](CmDesk::Session& session) {
    const auto setting = session.cm.queue_pair_setting(command.id, static_cast<QpState>(command.qp_state));
    return setting ? call.answer(command.response, answer_of(setting.value())) : setting.reason().error();
  });
}

// Waits, unless the program has made its descriptor non-blocking; not with any lock held. Another thread, or the end of
// an identifier, may have taken the event in between.
int get_event(const Call& call) {
  const auto command = call.as<GetEvent>();
  constexpr std::size_t kLeast = offsetof(EventAnswer, reserved);
  if (const int error = call.expect_answer<EventAnswer>(command.response, kLeast); error != 0) return error;
  for (;;) {
    std::uint64_t one = 0;
    if (::read(call.fd, &one, sizeof one) != sizeof one) return errno;
    const auto session = call.desk.begin();
    if (const auto event = session->cm.fetch_event(call.channel))
      return call.answer(command.response, answer_of(*event));
  }
}

int set_id_option(const SetOption& command, std::uint32_t value, CmDesk::Session& session) {
  auto options = session.cm.port_options(command.id);
  if (!options) return ENOENT;
  switch (command.name) {
    case kOptionTos:
      return session.cm.set_traffic_class(command.id, static_cast<std::uint8_t>(value)).error();
    case kOptionAckTimeout:
      return session.cm.set_ack_timeout(command.id, static_cast<std::uint8_t>(value)).error();
    case kOptionReuseAddress:
      options->reuse = value != 0;
      return session.cm.set_port_options(command.id, *options).error();
    default:
      options->ipv6_only = value != 0;
      return session.cm.set_port_options(command.id, *options).error();
  }
}

// Programs cannot choose paths: checked and ignored.
int check_path_option(const SetOption& command) {
  if (command.name != kOptionIbPath) return ENOSYS;
  return command.length == 0 || command.length % kIbPathBytes != 0 ? EINVAL : 0;
}

int set_option(const Call& call) {
  const auto command = call.as<SetOption>();
  return with_id(call, command.id, [&](CmDesk::Session& session) {
    if (command.level == kLevelIb) return check_path_option(command);
    if (command.level != kLevelId || command.name > kOptionAckTimeout) return ENOSYS;
    const bool short_one = command.name == kOptionTos || command.name == kOptionAckTimeout;
    std::uint32_t value = 0;
    const std::size_t size = short_one ? sizeof(std::uint8_t) : sizeof value;
    if (command.length != size) return EINVAL;
    if (!copy_from_program(&value, reinterpret_cast<const void*>(command.value), size)) return EFAULT;
    return set_id_option(command, value, session);
  });
}

int notify(const Call& call) {
  const auto command = call.as<Notify>();
  return with_id(call, command.id, [&](CmDesk::Session& session) {
    switch (command.event) {
      case kEventCommunicationEstablished:
        return session.cm.established(command.id).error();
      case kEventPathMigrated:  // there is one path, and it is in use: accepted, as by the kernel
        return session.cm.is_connected(command.id) ? 0 : EINVAL;
      default:
        return EINVAL;
    }
  });
}

int join_ip_multicast(const Call& call) {
  const auto command = call.as<JoinIpMulticast>();
  const auto group = address_of(command.group);
  if (!group) return EINVAL;
  return answer_with_id<cm::IdNumber>(
      call, command.id, command.response, sizeof(cm::IdNumber),
      [&](CmDesk::Session& session) { return session.cm.multicast().join(command.id, command.uid, *group); });
}

int leave_multicast(const Call& call) {
  const auto command = call.as<Id>();
  if (const int error = call.expect_answer<std::uint32_t>(command.response); error != 0) return error;
  const auto session = call.desk.begin();
  const auto member = session->cm.multicast().member(command.id);
  if (!member) return ENOENT;
  if (const int error = Call::own(*session, *member, call.channel); error != 0) return error;
  const auto events = session->cm.multicast().leave(command.id);
  return events ? call.answer(command.response, events.value()) : events.reason().error();
}

// From the channel that the command names to the one that it was written to.
int migrate_id(const Call& call) {
  const auto command = call.as<MigrateId>();
  if (const int error = call.expect_answer<std::uint32_t>(command.response); error != 0) return error;
  const int old_fd = static_cast<int>(command.fd);
  const auto from = call.desk.find_channel(old_fd);
  if (!from) return ::fcntl(old_fd, F_GETFD) < 0 ? ENOENT : EINVAL;
  const auto session = call.desk.begin();
  if (const int error = Call::own(*session, command.id, *from); error != 0) return error;
  const auto events = session->cm.migrate(command.id, call.channel);
  return events ? call.answer(command.response, events.value()) : events.reason().error();
}

// The program's own kinds alone; as the kernel, before the identifier is looked at.
int write_event(const Call& call) {
  const auto command = call.as<WriteEvent>();
  if (command.event != kEventUser && command.event != kEventInternal) return EINVAL;
  return with_id(call, command.id, [&](CmDesk::Session& session) {
    return session.cm
        .write_event(command.id, static_cast<cm::RdmaEventKind>(command.event),
                     static_cast<std::int32_t>(command.status), command.argument)
        .error();
  });
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
    {Command::kWriteEvent, sizeof(WriteEvent), write_event},
};

// The write after its header, of which `in` bytes count.
using Bytes = std::array<std::byte, sizeof(Header) + kPayloadMax>;

int serve(CmDesk& desk, cm::ChannelNumber channel, int fd, const Bytes& bytes, std::size_t count) {
  Header header;
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.command >= kCommandsEnd || header.in > count - sizeof header) return EINVAL;
  const auto entry = std::find_if(std::begin(kCommands), std::end(kCommands), [&](const Entry& candidate) {
    return candidate.command == static_cast<Command>(header.command);
  });
  if (entry == std::end(kCommands)) return ENOSYS;
  if (header.in < entry->in_min) return EINVAL;
  return entry->serve(
      {desk, channel, fd, bytes.data() + sizeof header, std::min<std::size_t>(header.in, kPayloadMax), header.out});
}

}  // namespace

int execute(CmDesk& desk, cm::ChannelNumber channel, int fd, const void* program, std::size_t count) {
  Bytes bytes;  // a longer write's beginning: no command is longer
  const std::size_t copied = std::min(count, bytes.size());
  if (copied < sizeof(Header)) return EINVAL;
  if (!copy_from_program(bytes.data(), program, copied)) return EFAULT;
  return serve(desk, channel, fd, bytes, count);
}

}  // namespace brdma::provider
