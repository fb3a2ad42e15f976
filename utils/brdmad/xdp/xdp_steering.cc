#include "xdp/xdp_steering.h"

#include <arpa/inet.h>
#include <linux/if_link.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "base/datagram.h"
#include "io/daemon/lease_protocol.h"
#include "xdp/bpf_program.h"
#include "xdp/libbpf_names.h"

namespace brdma::daemon {
namespace {

constexpr const char* kProgramName = "brdma_steer";
constexpr std::uint32_t kHasFragments = 1u << 5;  // BPF_F_XDP_HAS_FRAGS, Linux 5.18

// Offsets in a frame.
constexpr std::int16_t kEtherType = 12, kIp = 14;
constexpr std::int16_t kV4Total = kIp + 2, kV4Fragment = kIp + 6, kV4Protocol = kIp + 9;
constexpr std::int16_t kV6Payload = kIp + 4, kV6Next = kIp + 6;
constexpr std::int16_t kV4Header = 20, kV6Header = 40;
constexpr std::int16_t kUdp = kIp + kV4Header, kPort = kUdp + 2, kQpn = kUdp + 8 + 4;  // with the byte before it
constexpr std::int16_t kLeast = kUdp + 8 + 12;                                         // with BTH
constexpr std::int32_t kProtocolUdp = 17, kFragmentBits = 0x3FFF, kMulticastQpn = 0x00FF'FFFF;

std::int32_t in_packet16(std::uint16_t value) { return htons(value); }

using P = BpfProgram;

// Sets r2 so that UDP lies at kUdp behind it and r7 to the IP packet's length; other packets jump to `pass`.
void find_udp(BpfProgram& p, P::Label pass) {
  const P::Label ipv4 = p.new_label(), udp = p.new_label();
  p.move(P::r4, P::r2);
  p.add_to(P::r4, kLeast);
  p.jump_if_above(P::r4, P::r3, pass);
  p.load(P::Size::kHalf, P::r5, P::r2, kEtherType);
  p.jump_if_equal(P::r5, in_packet16(0x0800), ipv4);
  p.jump_if_not(P::r5, in_packet16(0x86DD), pass);

  p.move(P::r4, P::r2);
  p.add_to(P::r4, kLeast + kV6Header - kV4Header);
  p.jump_if_above(P::r4, P::r3, pass);
  p.load(P::Size::kByte, P::r5, P::r2, kV6Next);
  p.jump_if_not(P::r5, kProtocolUdp, pass);
  p.load(P::Size::kHalf, P::r7, P::r2, kV6Payload);
  p.from_network16(P::r7);
  p.add_to(P::r7, kV6Header);
  p.add_to(P::r2, kV6Header - kV4Header);
  p.jump(udp);

  p.bind(ipv4);
  p.load(P::Size::kByte, P::r5, P::r2, kIp);
  p.jump_if_not(P::r5, 0x45, pass);
  p.load(P::Size::kHalf, P::r5, P::r2, kV4Fragment);
  p.mask(P::r5, in_packet16(kFragmentBits));
  p.jump_if_not(P::r5, 0, pass);
  p.load(P::Size::kByte, P::r5, P::r2, kV4Protocol);
  p.jump_if_not(P::r5, kProtocolUdp, pass);
  p.load(P::Size::kHalf, P::r7, P::r2, kV4Total);
  p.from_network16(P::r7);
  p.bind(udp);
}

// BPF_OBJ_GET_INFO_BY_FD. An older kernel returns E2BIG if a byte behind its structure is not zero. Padding is such a
// byte, and `{}` need not clear it (clang's does not).
template <class Info>
void clear(Info& info) {
  std::memset(&info, 0, sizeof info);
}
template <class Info>
bool read_info(int fd, Info& info) {
  std::uint32_t size = sizeof info;
  return bpf_obj_get_info_by_fd(fd, &info, &size) == 0;
}

// Information about a program, with the numbers of its maps.
struct ProgramInfo {
  bpf_prog_info info;
  std::array<std::uint32_t, 4> maps{};
  [[nodiscard]] bool read(int fd) {
    clear(info);
    info.nr_map_ids = static_cast<std::uint32_t>(maps.size());
    info.map_ids = reinterpret_cast<std::uint64_t>(maps.data());
    return read_info(fd, info);
  }
};

// The map of that name among those of the program; invalid: none.
io::FileDescriptor map_named(const ProgramInfo& program, std::string_view name) {
  for (std::uint32_t i = 0; i < std::min<std::size_t>(program.info.nr_map_ids, program.maps.size()); ++i) {
    io::FileDescriptor map{bpf_map_get_fd_by_id(program.maps[i])};
    bpf_map_info info;
    clear(info);
    if (map.valid() && read_info(map.get(), info) && name == info.name) return map;
  }
  return {};
}

// Zeroes if there is none.
bpf_link_info link_info(int link) {
  bpf_link_info info;
  clear(info);
  if (!read_info(link, info)) clear(info);
  return info;
}

// The program that the link attaches to the interface (0: to any). No link if it is not ours, or is in another
// namespace: links have the interface's number but not its namespace; the interface has its program's number.
XdpSteering held_by(std::uint32_t link_id, std::uint32_t ifindex) {
  io::FileDescriptor link{bpf_link_get_fd_by_id(link_id)};
  const bpf_link_info info = link_info(link.get());
  if (info.type != BPF_LINK_TYPE_XDP || info.xdp.ifindex == 0 || (ifindex != 0 && info.xdp.ifindex != ifindex))
    return {};
  const io::FileDescriptor program{bpf_prog_get_fd_by_id(info.prog_id)};
  ProgramInfo read;
  if (!program.valid() || !read.read(program.get()) || std::string_view{read.info.name} != kProgramName) return {};
  if (!is_attached(info.prog_id, info.xdp.ifindex)) return {};
  XdpSteering found;
  found.slots = map_named(read, "slots");
  found.lessees = map_named(read, "lessees");
  found.sockets = map_named(read, "sockets");
  if (found.slots.valid() && found.sockets.valid()) found.link = std::move(link);
  return found;
}

ContextError attach_error(int error, XdpHook hook) {
  const std::string what = hook == XdpHook::kDriver ? "the driver's XDP hook" : "the generic XDP hook";
  switch (error) {
    case EPERM:
      return {error, "attaching an XDP program needs CAP_NET_ADMIN and CAP_BPF: brdmad must run as root"};
    case EBUSY:
    case EEXIST:
      return {EBUSY, "another XDP program is attached to the interface"};
    default:
      return {error, what + " does not take the program: " + std::strerror(error)};
  }
}

constexpr std::int16_t kKey = -4;  // on the stack

// Loads the word of an array at `index` into `to`; if there is none, the value `none`. Clobbers r0 to r5.
void look_up(BpfProgram& p, int map, P::Register index, P::Register to, P::Label none) {
  p.store_word(P::r10, kKey, index);
  p.load_map(P::r1, map);
  p.move(P::r2, P::r10);
  p.add_to(P::r2, kKey);
  p.call(BPF_FUNC_map_lookup_elem);
  p.jump_if_equal(P::r0, 0, none);
  p.load(P::Size::kWord, to, P::r0, 0);
}

// r7: the slot; from then on the lessee's, if it has one.
void find_lessee(BpfProgram& p, int lessees_map, P::Label pass) {
  const P::Label own = p.new_label();
  p.jump_if_below(P::r7, kExtraSlotsFirst, own);
  p.move(P::r8, P::r7);
  p.add_to(P::r8, -static_cast<std::int32_t>(kExtraSlotsFirst));
  look_up(p, lessees_map, P::r8, P::r5, pass);
  p.jump_if_equal(P::r5, 0, own);
  p.move(P::r7, P::r5);
  p.bind(own);
}

}  // namespace

bool is_attached(std::uint32_t program, std::uint32_t ifindex) {
  LIBBPF_OPTS(bpf_xdp_query_opts, there);
  return bpf_xdp_query(static_cast<int>(ifindex), 0, &there) == 0 &&
         (program == there.drv_prog_id || program == there.skb_prog_id);
}

std::vector<bpf_insn> steering_program(int slots_map, int lessees_map, int sockets_map, std::uint32_t mtu) {
  BpfProgram p;
  const P::Label pass = p.new_label();
  p.move(P::r6, P::r1);
  p.load(P::Size::kWord, P::r2, P::r6, offsetof(xdp_md, data));
  p.load(P::Size::kWord, P::r3, P::r6, offsetof(xdp_md, data_end));
  find_udp(p, pass);
  p.jump_if_above(P::r7, static_cast<std::int32_t>(mtu), pass);
  p.load(P::Size::kHalf, P::r5, P::r2, kPort);
  p.jump_if_not(P::r5, in_packet16(kRoceUdpPort), pass);
  p.load(P::Size::kWord, P::r7, P::r2, kQpn);
  p.from_network32(P::r7);
  p.mask(P::r7, io::kSlotCount - 1);
  p.load(P::Size::kWord, P::r5, P::r2, kQpn);
  p.mask(P::r5, static_cast<std::int32_t>(htonl(kMulticastQpn)));
  p.jump_if_equal32(P::r5, static_cast<std::int32_t>(htonl(kMulticastQpn)), pass);

  find_lessee(p, lessees_map, pass);
  p.load(P::Size::kWord, P::r8, P::r6, offsetof(xdp_md, rx_queue_index));
  look_up(p, slots_map, P::r8, P::r5, pass);
  p.jump_if_not(P::r5, P::r7, pass);
  p.load_map(P::r1, sockets_map);
  p.move(P::r2, P::r8);
  p.set(P::r3, XDP_PASS);  // if the map has no socket
  p.call(BPF_FUNC_redirect_map);
  p.exit();
  p.bind(pass);
  p.set(P::r0, XDP_PASS);
  p.exit();
  return p.assemble();
}

Result<XdpSteering, ContextError> XdpSteering::attach(std::uint32_t ifindex, std::uint32_t mtu, XdpHook hook) {
  XdpSteering steering;
  steering.slots.reset(bpf_map_create(BPF_MAP_TYPE_ARRAY, "slots", 4, 4, kXdpQueuesMax, nullptr));
  if (!steering.slots.valid()) return attach_error(errno, hook);
  steering.lessees.reset(bpf_map_create(BPF_MAP_TYPE_ARRAY, "lessees", 4, 4, kExtraSlotsMax, nullptr));
  if (!steering.lessees.valid()) return attach_error(errno, hook);
  steering.sockets.reset(bpf_map_create(BPF_MAP_TYPE_XSKMAP, "sockets", 4, 4, kXdpQueuesMax, nullptr));
  if (!steering.sockets.valid()) return attach_error(errno, hook);
  const std::vector<bpf_insn> code =
      steering_program(steering.slots.get(), steering.lessees.get(), steering.sockets.get(), mtu);
  LIBBPF_OPTS(bpf_prog_load_opts, load);
  load.prog_flags = kHasFragments;
  const io::FileDescriptor program{
      bpf_prog_load(BPF_PROG_TYPE_XDP, kProgramName, "Dual MIT/GPL", code.data(), code.size(), &load)};
  if (!program.valid()) return attach_error(errno, hook);
  LIBBPF_OPTS(bpf_link_create_opts, options);
  options.flags = hook == XdpHook::kDriver ? XDP_FLAGS_DRV_MODE : XDP_FLAGS_SKB_MODE;
  steering.link.reset(bpf_link_create(program.get(), static_cast<int>(ifindex), BPF_XDP, &options));
  if (!steering.link.valid()) return attach_error(errno, hook);
  return steering;
}

XdpSteering XdpSteering::find(std::uint32_t ifindex) {
  for (std::uint32_t id = 0; bpf_link_get_next_id(id, &id) == 0;) {
    if (XdpSteering found = held_by(id, ifindex); found.link.valid()) return found;
  }
  return {};
}

KeptSteerings XdpSteering::find_all() {
  KeptSteerings all;
  for (std::uint32_t id = 0; bpf_link_get_next_id(id, &id) == 0;) {
    XdpSteering found = held_by(id, 0);
    found.orphaned = true;
    if (found.link.valid()) all.emplace(link_info(found.link.get()).xdp.ifindex, std::move(found));
  }
  return all;
}

bool XdpSteering::is_attached_to(std::uint32_t ifindex) const {
  const bpf_link_info info = link_info(link.get());
  return info.type == BPF_LINK_TYPE_XDP && info.xdp.ifindex == ifindex && is_attached(info.prog_id, ifindex);
}

std::uint32_t XdpSteering::program_id() const { return link_info(link.get()).prog_id; }

std::uint32_t XdpSteering::slot_of(std::uint32_t queue) const {
  std::uint32_t slot = 0;
  return bpf_map_lookup_elem(slots.get(), &queue, &slot) == 0 ? slot : 0;
}

Status XdpSteering::steer(std::uint32_t queue, std::uint32_t slot, int socket_fd) const {
  // In this order: a packet in between finds no socket and goes to the kernel.
  if (bpf_map_update_elem(slots.get(), &queue, &slot, BPF_ANY) != 0) return Status{errno};
  if (bpf_map_update_elem(sockets.get(), &queue, &socket_fd, BPF_ANY) != 0) return Status{errno};
  return Status::success();
}

Status XdpSteering::set_lessees(const Lessees& table) const {
  if (!lessees.valid()) return Status{ENOENT};
  Status done = Status::success();
  for (std::uint32_t i = 0; i < table.size(); ++i) {
    if (bpf_map_update_elem(lessees.get(), &i, &table[i], BPF_ANY) != 0) done = Status{errno};
  }
  return done;
}

}  // namespace brdma::daemon
