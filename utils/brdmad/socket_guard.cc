#include "socket_guard.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <linux/mount.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "base/datagram.h"
#include "bpf_program.h"
#include "libbpf_names.h"

namespace brdma::daemon {
namespace {

using P = BpfProgram;
constexpr std::int32_t kRefuse = 0, kAllow = 1;
constexpr int kNetnsCookie = 71;  // SO_NETNS_COOKIE, Linux 5.14

// Goes to `others` unless r2, a bpf_sock, is bound to port 4791 in this network namespace. r6: the program's context.
void find_ours(BpfProgram& p, std::uint64_t netns_cookie, P::Label others) {
  p.load(P::Size::kWord, P::r3, P::r2, offsetof(bpf_sock, protocol));
  p.jump_if_not(P::r3, IPPROTO_UDP, others);
  p.load(P::Size::kWord, P::r3, P::r2, offsetof(bpf_sock, src_port));
  p.jump_if_not(P::r3, kRoceUdpPort, others);
  p.move(P::r1, P::r6);
  p.call(BPF_FUNC_get_netns_cookie);
  p.set64(P::r3, netns_cookie);
  p.jump_if_not(P::r0, P::r3, others);
}

void refuse_but(BpfProgram& p, P::Label others) {
  p.set(P::r0, kRefuse);
  p.exit();
  p.bind(others);
  p.set(P::r0, kAllow);
  p.exit();
}

std::vector<bpf_insn> connect_program(std::uint64_t netns_cookie) {
  BpfProgram p;
  const P::Label others = p.new_label();
  p.move(P::r6, P::r1);
  p.load(P::Size::kDouble, P::r2, P::r6, offsetof(bpf_sock_addr, sk));
  find_ours(p, netns_cookie, others);
  refuse_but(p, others);
  return p.assemble();
}

std::vector<bpf_insn> option_program(std::uint64_t netns_cookie) {
  BpfProgram p;
  const P::Label others = p.new_label();
  p.move(P::r6, P::r1);
  p.load(P::Size::kWord, P::r3, P::r6, offsetof(bpf_sockopt, level));
  p.jump_if_not(P::r3, SOL_SOCKET, others);
  p.load(P::Size::kWord, P::r3, P::r6, offsetof(bpf_sockopt, optname));
  p.jump_if_not(P::r3, SO_DETACH_REUSEPORT_BPF, others);
  p.load(P::Size::kDouble, P::r2, P::r6, offsetof(bpf_sockopt, sk));
  find_ours(p, netns_cookie, others);
  refuse_but(p, others);
  return p.assemble();
}

// The root that this process can see of the tree, mounted or not. The group of a socket is its maker's, so any that is
// above this process does.
io::FileDescriptor open_cgroup_root() {
  for (const char* path : {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}) {
    io::FileDescriptor mounted{::open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    struct statfs system {};
    if (mounted.valid() && ::fstatfs(mounted.get(), &system) == 0 && system.f_type == CGROUP2_SUPER_MAGIC)
      return mounted;
  }
  const io::FileDescriptor context{static_cast<int>(::syscall(SYS_fsopen, "cgroup2", FSOPEN_CLOEXEC))};
  if (!context.valid() || ::syscall(SYS_fsconfig, context.get(), FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) != 0)
    return {};
  return io::FileDescriptor{static_cast<int>(::syscall(SYS_fsmount, context.get(), FSMOUNT_CLOEXEC, 0))};
}

// 0: the kernel has no such option.
std::uint64_t own_netns_cookie() {
  const io::FileDescriptor any{::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
  std::uint64_t cookie = 0;
  socklen_t size = sizeof cookie;
  return ::getsockopt(any.get(), SOL_SOCKET, kNetnsCookie, &cookie, &size) == 0 ? cookie : 0;
}

// Invalid on failure, with errno.
io::FileDescriptor attach(int cgroup, bpf_prog_type type, bpf_attach_type where, const std::vector<bpf_insn>& code) {
  LIBBPF_OPTS(bpf_prog_load_opts, load);
  load.expected_attach_type = where;
  const io::FileDescriptor program{bpf_prog_load(type, "brdma_guard", "Dual MIT/GPL", code.data(), code.size(), &load)};
  if (!program.valid()) return {};
  return io::FileDescriptor{bpf_link_create(program.get(), cgroup, where, nullptr)};
}

ContextError cannot_guard(const std::string& what) {
  return {errno, "cannot keep users apart: " + what + ": " + std::strerror(errno) +
                     " (--users-trust-each-other serves them all the same)"};
}

}  // namespace

Result<std::vector<io::FileDescriptor>, ContextError> guard_sockets() {
  const std::uint64_t cookie = own_netns_cookie();
  if (cookie == 0) return cannot_guard("reading the cookie of the network namespace (needs Linux 5.14)");
  const io::FileDescriptor root = open_cgroup_root();
  if (!root.valid()) return cannot_guard("opening the cgroup tree (CAP_SYS_ADMIN)");
  const auto connect = connect_program(cookie), option = option_program(cookie);
  std::vector<io::FileDescriptor> links;
  const auto add = [&](bpf_prog_type type, bpf_attach_type where, const std::vector<bpf_insn>& code) {
    links.push_back(attach(root.get(), type, where, code));
    return links.back().valid();
  };
  if (!add(BPF_PROG_TYPE_CGROUP_SOCK_ADDR, BPF_CGROUP_INET4_CONNECT, connect) ||
      !add(BPF_PROG_TYPE_CGROUP_SOCK_ADDR, BPF_CGROUP_INET6_CONNECT, connect) ||
      !add(BPF_PROG_TYPE_CGROUP_SOCKOPT, BPF_CGROUP_SETSOCKOPT, option))
    return cannot_guard("attaching BPF programs to it (CAP_BPF, CAP_NET_ADMIN)");
  return links;
}

}  // namespace brdma::daemon
