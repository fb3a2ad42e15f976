#include "xdp/xdp_answer.h"

#include <net/if.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "io/daemon/lease_protocol.h"
#include "io/system/pass_descriptors.h"
#include "xdp/xdp_features.h"
#include "xdp/xdp_grant.h"

namespace brdma::daemon {
namespace {

constexpr const char* kNoRight =
    "transmitting by AF_XDP needs the right to put any frame on the network: CAP_NET_RAW, or brdmad --xdp-transmit "
    "USER";

bool is_leased(const SharedState& state, std::uint32_t slot) {
  return slot < io::kSlotCount && state.slots[slot].state == SlotState::kLeased;
}

// 0: it is gone.
std::uint32_t interface_of(const SlotRecord& record) {
  constexpr std::string_view kPrefix = "brdma_";
  const std::string_view device = io::get_text(record.device);
  return device.starts_with(kPrefix) ? ::if_nametoindex(std::string{device.substr(kPrefix.size())}.c_str()) : 0;
}

// Refuses hopeless cases without touching the interface. Refuses the generic hook where it does harm: it gets batches
// that a local sender left unsplit, and nothing shows the length of their packets.
ContextError check_mode(XdpWish& wish) {
  std::array<char, IF_NAMESIZE> name{};
  if (::if_indextoname(wish.ifindex, name.data()) == nullptr) return {ENODEV, "the interface is gone"};
  wish.generic_too = !is_virtual(name.data());
  if (wish.mode == io::XdpMode::kGeneric && !wish.generic_too)
    return {EOPNOTSUPP, "the generic XDP hook does not split batches of senders on this machine: take 'native'"};
  const XdpFeatures features = xdp_features(wish.ifindex);
  wish.zero_copy_too = features.zero_copy || !features.known;
  if (wish.mode == io::XdpMode::kZeroCopy && !features.zero_copy)
    return {EOPNOTSUPP, "the interface's driver has no AF_XDP without copying"};
  return {};
}

Result<XdpGrant, ContextError> grant_to(LeaseBook& book, std::uint32_t uid, const io::XdpRequest& request,
                                        bool may_transmit) {
  const SharedState& state = book.state();
  if (request.version != io::kXdpVersion) return ContextError{EPROTO, "brdmad is of another version"};
  if (!is_leased(state, request.slot) || state.slots[request.slot].lease_id != request.lease_id ||
      (uid != 0 && state.slots[request.slot].uid != uid))
    return ContextError{EACCES, "only the owner of the lease gets an AF_XDP socket"};
  XdpWish wish;
  wish.ifindex = interface_of(state.slots[request.slot]);
  wish.slot = request.slot;
  wish.mode = request.mode;
  wish.receive_chunks = request.receive_chunks;
  wish.transmit_chunks = may_transmit ? request.transmit_chunks : 0;
  if (wish.receive_chunks == 0 && wish.transmit_chunks == 0) return ContextError{EPERM, kNoRight};
  wish.leased = [&state](std::uint32_t slot) { return is_leased(state, slot); };
  if (const ContextError unfit = check_mode(wish); unfit.error != 0) return unfit;
  wish.steering = book.xdp_steering(wish.ifindex);
  wish.leaving = book.leaving_xdp(wish.ifindex);
  auto granted = grant_xdp(wish);
  if (!granted || wish.receive_chunks == 0) return granted;
  if (!book.use_xdp(wish.slot, wish.ifindex, std::exchange(granted.value().attached, std::nullopt)))
    return ContextError{EPIPE, "brdmad is ending"};
  return granted;
}

void send_answer(int connection, const io::XdpReply& reply, std::span<const int> descriptors) {
  // A process that does not read gets none: closing our descriptors removes everything.
  const ConstBytes bytes{reinterpret_cast<const std::byte*>(&reply), sizeof reply};
  if (io::send_with_descriptors(connection, bytes, descriptors, MSG_DONTWAIT) != static_cast<ssize_t>(sizeof reply))
    spdlog::warn("an answer about AF_XDP was not taken: {}", std::strerror(errno));
}

}  // namespace

void answer_xdp(int connection, LeaseBook& book, std::uint32_t uid, const io::XdpRequest& request, bool may_transmit) {
  io::XdpReply reply;
  auto granted = grant_to(book, uid, request, may_transmit);
  if (!granted) {
    reply.error = granted.reason().error;
    io::put_text(reply.message, granted.reason().message);
    spdlog::info("slot {} gets no AF_XDP socket: {}", request.slot, granted.reason().message);
    return send_answer(connection, reply, {});
  }
  XdpGrant& grant = granted.value();
  // A process with the link can detach the program from the interface, also for other users.
  if (!book.has_one_user()) grant.link.reset();
  reply.mode = grant.mode;
  reply.queue = grant.queue;
  reply.receive_chunks = request.receive_chunks;
  reply.transmit_chunks = may_transmit ? request.transmit_chunks : 0;
  if (request.transmit_chunks > 0 && !may_transmit) io::put_text(reply.message, kNoRight);
  spdlog::info("slot {} gets an AF_XDP socket, queue {}, to{}{}", request.slot, grant.queue,
               reply.receive_chunks > 0 ? " receive" : "", reply.transmit_chunks > 0 ? " transmit" : "");
  const std::array descriptors{grant.socket.get(), grant.memory.get(), grant.link.get()};
  send_answer(connection, reply, std::span{descriptors}.first(grant.link.valid() ? 3 : 2));
}

}  // namespace brdma::daemon
