#include "udp/socket_guard.h"

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
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

#include "base/datagram.h"
#include "xdp/bpf_program.h"
#include "xdp/libbpf_names.h"

namespace brdma::daemon {
namespace {

using P = BpfProgram;
constexpr std::int32_t kRefuse = 0, kAllow = 1;
constexpr int kNetnsCookie = 71;  // SO_NETNS_COOKIE, Linux 5.14

// Jumps to `others` unless r2, a bpf_sock, is bound to port 4791 in this network namespace. r6: the program's context.
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

// Decodes a path of mountinfo: \ooo stands for spaces and the like.
std::string plain(std::string_view escaped) {
  std::string text;
  for (std::size_t i = 0; i < escaped.size(); ++i) {
    if (escaped[i] != '\\' || i + 3 >= escaped.size()) {
      text += escaped[i];
      continue;
    }
    text += static_cast<char>((escaped[i + 1] - '0') * 64 + (escaped[i + 2] - '0') * 8 + (escaped[i + 3] - '0'));
    i += 3;
  }
  return text;
}

// This process's cgroup in the tree; empty: the system has none.
std::string own_cgroup() {
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    if (line.starts_with("0::")) return line.substr(3);
  }
  return {};
}

bool is_at_or_above(std::string_view group, std::string_view own) {
  return group == "/" || (own.starts_with(group) && (own.size() == group.size() || own[group.size()] == '/'));
}

// A place where the tree is mounted from this process's group or one above it: a socket's group is that of its creator.
io::FileDescriptor open_mounted_cgroup() {
  const std::string own = own_cgroup();
  std::ifstream mounts("/proc/self/mountinfo");
  for (std::string line; std::getline(mounts, line);) {
    std::istringstream words(line);
    std::string id, parent, device, root, place, word;
    words >> id >> parent >> device >> root >> place;
    while (words >> word && word != "-") {
    }
    if (!(words >> word) || word != "cgroup2" || !is_at_or_above(plain(root), own)) continue;
    io::FileDescriptor mounted{::open(plain(place).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    struct statfs system {};  // something else may be mounted over it
    if (mounted.valid() && ::fstatfs(mounted.get(), &system) == 0 && system.f_type == CGROUP2_SUPER_MAGIC)
      return mounted;
  }
  return {};
}

// Mounts the tree where no mount is visible (CAP_SYS_ADMIN).
io::FileDescriptor open_cgroup_root() {
  if (io::FileDescriptor mounted = open_mounted_cgroup(); mounted.valid()) return mounted;
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
  if (!root.valid())
    return cannot_guard("opening the cgroup tree (version 2; mounted nowhere, and mounting it needs CAP_SYS_ADMIN)");
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
