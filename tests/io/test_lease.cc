#include "test_lease.h"

#include <linux/filter.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>

#include "base/datagram.h"

namespace brdma::test {
namespace {

void must(bool done, const char* what) {
  if (done) return;
  std::perror(what);
  std::abort();
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
  static std::vector<std::unique_ptr<Statistics>> all_statistics;
  std::vector<io::Lease> leases(count);
  for (unsigned i = 0; i < count; ++i) {
    leases[i].socket_fd = open_member(dual_stack);
    leases[i].dual_stack = dual_stack;
    leases[i].slot = kFirstSlot + i;
    leases[i].statistics = all_statistics.emplace_back(std::make_unique<Statistics>()).get();
  }
  // Index in the group = low byte of the destination QPN (byte 7 of BTH) less the first slot.
  std::array<sock_filter, 3> steer{{BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 7),
                                    BPF_STMT(BPF_ALU | BPF_SUB | BPF_K, kFirstSlot), BPF_STMT(BPF_RET | BPF_A, 0)}};
  const sock_fprog program{static_cast<unsigned short>(steer.size()), steer.data()};
  must(setsockopt(leases[0].socket_fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof(program)) == 0,
       "SO_ATTACH_REUSEPORT_CBPF");
  return leases;
}

}  // namespace brdma::test
