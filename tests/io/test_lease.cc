#include "test_lease.h"

#include <linux/filter.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "../xdp/found_steering.h"
#include "base/datagram.h"
#include "io/daemon/lease_protocol.h"
#include "mirrored_network.h"
#include "test_network.h"
#include "xdp/xdp_grant.h"

namespace brdma::test {
namespace {

void must(bool done, const char* what) {
  if (done) return;
  std::perror(what);
  std::abort();
}

std::vector<std::unique_ptr<Statistics>> all_statistics;

Result<io::XdpSockets, ContextError> make_xdp(const io::Lease& lease, const io::XdpWant& want) {
  daemon::XdpWish wish;
  wish.ifindex = if_nametoindex(kMirroredInterface);
  wish.slot = lease.slot;
  wish.mode = io::XdpMode::kNative;
  wish.receive_chunks = want.receive_chunks;
  wish.transmit_chunks = want.transmit_chunks;
  auto granted = grant_xdp_there(wish);
  // The kernel frees a queue some time after its socket was closed, without notification.
  for (int left = 20'000; !granted && granted.reason().error == EBUSY && left > 0; --left) {
    poll(nullptr, 0, 1);
    granted = grant_xdp_there(wish);
  }
  if (!granted) return granted.reason();
  daemon::XdpGrant& grant = granted.value();
  mirror_slot(lease.slot, grant.queue);
  io::XdpReply reply;
  reply.mode = grant.mode;
  reply.queue = grant.queue;
  reply.receive_chunks = want.receive_chunks;
  reply.transmit_chunks = want.transmit_chunks;
  io::XdpSockets sockets;
  sockets.transmit = io::XdpTransmit::open(grant.socket.get(), grant.memory.get(), reply).value();
  sockets.receive =
      io::XdpSocket::open({std::move(grant.socket), std::move(grant.memory), std::move(grant.link)}, reply).value();
  return sockets;
}

int open_member(bool dual_stack) {
  const int fd = socket(dual_stack ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  must(fd >= 0, "socket");
  const int on = 1, off = 0;
  must(setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) == 0, "SO_REUSEPORT");
  if (dual_stack) {
    must(setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)) == 0, "IPV6_V6ONLY");
    sockaddr_in6 any{};
    any.sin6_family = AF_INET6;
    any.sin6_port = htons(kRoceUdpPort);
    must(bind(fd, reinterpret_cast<const sockaddr*>(&any), sizeof(any)) == 0, "bind to port 4791");
  } else {
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_port = htons(kRoceUdpPort);
    must(bind(fd, reinterpret_cast<const sockaddr*>(&any), sizeof(any)) == 0, "bind to port 4791");
  }
  return fd;
}

}  // namespace

std::vector<io::Lease> make_leases(unsigned count, bool dual_stack) {
  std::vector<io::Lease> leases(count);
  for (unsigned i = 0; i < count; ++i) {
    leases[i].socket_fd = open_member(dual_stack);
    leases[i].dual_stack = dual_stack;
    leases[i].slot = kFirstSlot + i;
    if (over_xdp()) leases[i].slot_bits = io::kSlotBits;  // as in the XDP program
    leases[i].statistics = all_statistics.emplace_back(std::make_unique<Statistics>()).get();
  }
  // There are few: index in the group = low byte of the destination QPN (byte 7 of BTH) less the first slot.
  std::array<sock_filter, 3> steer{{BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 7),
                                    BPF_STMT(BPF_ALU | BPF_SUB | BPF_K, kFirstSlot), BPF_STMT(BPF_RET | BPF_A, 0)}};
  const sock_fprog program{static_cast<unsigned short>(steer.size()), steer.data()};
  must(setsockopt(leases[0].socket_fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof(program)) == 0,
       "SO_ATTACH_REUSEPORT_CBPF");
  return leases;
}

std::uint64_t count_of_all(Counter counter) {
  std::uint64_t sum = 0;
  for (const auto& statistics : all_statistics) sum += statistics->get(counter);
  return sum;
}

io::ContextImpl::Options usual_context_options() {
  io::ContextImpl::Options options;
  if (!over_xdp()) return options;
  options.datapath.receive = options.datapath.transmit = control::Datapath::kXdp;
  options.ask_xdp = &make_xdp;
  return options;
}

}  // namespace brdma::test
