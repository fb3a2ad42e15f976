#include "mirrored_network.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <net/if.h>
#include <sched.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <set>

#include "base/datagram.h"
#include "private_network.h"
#include "test_network.h"
#include "xdp/bpf_program.h"
#include "xdp/libbpf_names.h"
#include "xdp/xdp_steering.h"

namespace brdma::test {
namespace {

using P = daemon::BpfProgram;

constexpr unsigned kQueues = 8, kSlots = 256;
// In the map, behind the slots: the loss as a part of 2^32, and counts of packets of two kinds.
constexpr unsigned kLossKey = kSlots, kXdpKey = kSlots + 1, kUdpKey = kSlots + 2, kKeys = kSlots + 3;
constexpr int kDrop = 2;  // TC_ACT_SHOT
// Of a packet from UDP's destination port to the end of BTH's destination QP number, whose last byte is the slot.
constexpr int kPortAtV4 = 14 + 20 + 2, kPortAtV6 = 14 + 40 + 2, kPartBytes = 14;
constexpr std::int16_t kKey = -4, kPart = -24, kChecksum = kPart + 4, kSlot = kPart + 13;  // on the stack
constexpr std::int32_t kManagement = 1;                                                    // slot of queue pair 1

int queues_map = -1;

std::uint32_t read_map(std::uint32_t key) {
  std::uint32_t value = 0;
  (void)bpf_map_lookup_elem(queues_map, &key, &value);
  return value;
}
void set_map(std::uint32_t key, std::uint32_t value) { (void)bpf_map_update_elem(queues_map, &key, &value, BPF_ANY); }

// r0 points to the value of the key in r5; or jumps to `none`.
void look_up(P& p, P::Label none) {
  p.store_word(P::r10, kKey, P::r5);
  p.load_map(P::r1, queues_map);
  p.move(P::r2, P::r10);
  p.add_to(P::r2, kKey);
  p.call(BPF_FUNC_map_lookup_elem);
  p.jump_if_equal(P::r0, 0, none);
}

// Bytes at the offset in r2 to the stack; or jumps to `none`.
void load_packet(P& p, int bytes, P::Label none) {
  p.move(P::r1, P::r6);
  p.move(P::r3, P::r10);
  p.add_to(P::r3, kPart);
  p.set(P::r4, bytes);
  p.call(BPF_FUNC_skb_load_bytes);
  p.jump_if_not(P::r0, 0, none);
}

// Counts a RoCE packet of IPv4 by its sending path.
void count(P& p, P::Label drop, P::Label done) {
  const P::Label known = p.new_label();
  p.load(P::Size::kHalf, P::r5, P::r10, kPart);
  p.jump_if_not(P::r5, htons(kRoceUdpPort), done);
  p.load(P::Size::kByte, P::r5, P::r10, kSlot);
  p.jump_if_equal(P::r5, kManagement, done);
  p.load(P::Size::kHalf, P::r4, P::r10, kChecksum);
  p.set(P::r5, kXdpKey);
  p.jump_if_equal(P::r4, 0, known);
  p.set(P::r5, kUdpKey);
  p.bind(known);
  look_up(p, drop);
  p.load(P::Size::kWord, P::r5, P::r0, 0);
  p.add_to(P::r5, 1);
  p.store_word(P::r0, 0, P::r5);
}

// Packets for all hosts (neighbour and router discovery) do not come back: the system would take them for others'.
std::vector<bpf_insn> mirror_program(std::uint32_t ifindex) {
  P p;
  const P::Label drop = p.new_label(), ipv6 = p.new_label(), to_slot = p.new_label(), back = p.new_label();
  p.move(P::r6, P::r1);
  p.set(P::r2, 0);
  load_packet(p, 1, drop);
  p.load(P::Size::kByte, P::r5, P::r10, kPart);
  p.mask(P::r5, 1);
  p.jump_if_not(P::r5, 0, drop);

  p.set(P::r5, kLossKey);
  look_up(p, drop);
  p.load(P::Size::kWord, P::r7, P::r0, 0);
  p.call(BPF_FUNC_get_prandom_u32);
  p.jump_if_above(P::r7, P::r0, drop);

  p.set(P::r7, 1);  // queue 0, for packets that are not RoCE
  p.load(P::Size::kWord, P::r5, P::r6, offsetof(__sk_buff, protocol));
  p.jump_if_not(P::r5, htons(0x0800), ipv6);
  p.set(P::r2, kPortAtV4);
  load_packet(p, kPartBytes, back);
  count(p, drop, to_slot);
  p.jump(to_slot);
  p.bind(ipv6);
  p.set(P::r2, kPortAtV6);
  load_packet(p, kPartBytes, back);
  p.bind(to_slot);
  p.load(P::Size::kByte, P::r5, P::r10, kSlot);
  look_up(p, drop);
  p.load(P::Size::kWord, P::r7, P::r0, 0);
  p.bind(back);
  p.store_word(P::r6, offsetof(__sk_buff, queue_mapping), P::r7);
  p.set(P::r1, static_cast<std::int32_t>(ifindex));
  p.set(P::r2, 0);
  p.call(BPF_FUNC_redirect);
  p.exit();
  p.bind(drop);
  p.set(P::r0, kDrop);
  p.exit();
  return p.assemble();
}

// Of this thread's network namespace; every packet that comes in through it goes out through it.
bool attach_mirror(std::uint32_t ifindex) {
  for (std::uint32_t slot = 0; slot < kSlots; ++slot) mirror_slot(slot, 0);
  const std::vector<bpf_insn> code = mirror_program(ifindex);
  const int program =
      bpf_prog_load(BPF_PROG_TYPE_SCHED_CLS, "mirror", "Dual MIT/GPL", code.data(), code.size(), nullptr);
  if (program < 0) return false;
  LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = static_cast<int>(ifindex), .attach_point = BPF_TC_INGRESS);
  LIBBPF_OPTS(bpf_tc_opts, attached, .prog_fd = program);
  const bool done = bpf_tc_hook_create(&hook) == 0 && bpf_tc_attach(&hook, &attached) == 0;
  close(program);
  return done;
}

bool batch(const std::string& options, const std::string& lines) {
  std::FILE* const ip = popen(("ip " + options + " -batch -").c_str(), "w");
  if (ip == nullptr) return false;
  (void)std::fputs(lines.c_str(), ip);
  return pclose(ip) == 0;
}

bool write_setting(const std::string& name, const char* value) {
  std::ofstream file{"/proc/sys/net/ipv4/conf/" + name};
  file << value;
  return static_cast<bool>(file.flush());
}

// The interface's own addresses are reached through it, and are the machine's where packets come in.
bool make_routes() {
  constexpr const char* kRules =
      "rule add pref 10 iif mirrored lookup local\n"
      "rule add pref 20 lookup 100\n"
      "rule add pref 30 lookup local\n"
      "rule del pref 0\n";
  return batch("",
               "address add 10.8.0.1/24 dev mirrored\n"
               "address add fd08::1/64 dev mirrored nodad\n"
               "address add fe80::ff:fe00:801/64 dev mirrored nodad\n"
               "link set mirrored up\n"
               "neighbour replace 10.8.0.1 lladdr 02:00:00:00:08:01 dev mirrored nud permanent\n"
               "neighbour replace fd08::1 lladdr 02:00:00:00:08:01 dev mirrored nud permanent\n"
               "neighbour replace fe80::ff:fe00:801 lladdr 02:00:00:00:08:01 dev mirrored nud permanent\n"
               "route add 10.8.0.1/32 dev mirrored src 10.8.0.1 table 100\n"
               "route add fd08::1/128 dev mirrored table 100\n"
               "route add fe80::ff:fe00:801/128 dev mirrored table 100\n") &&
         batch("", kRules) && batch("-6", kRules) && write_setting("mirrored/accept_local", "1") &&
         write_setting("mirrored/rp_filter", "0") && write_setting("all/rp_filter", "0");
}

bool make_network() {
  const int home = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
  if (home < 0 || unshare(CLONE_NEWNET) != 0) return false;
  const int there = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
  const std::string size =
      " mtu 9000 numtxqueues " + std::to_string(kQueues) + " numrxqueues " + std::to_string(kQueues);
  bool done = batch("", "link add mirror" + size + " type veth peer name mirrored address 02:00:00:00:08:01" + size +
                            " netns /proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(home) +
                            "\nlink set mirror addrgenmode none\nlink set mirror up\n") &&
              attach_mirror(if_nametoindex("mirror"));
  if (setns(home, CLONE_NEWNET) != 0) std::abort();  // nothing after this would be valid
  close(home);
  // `there` stays open: the other end lives as long as the process.
  return done && there >= 0 && batch("", "link set mirrored addrgenmode none\n") && make_routes() &&
         wait_until_running(kMirroredInterface);
}

}  // namespace

Entered enter_mirrored_network() {
  if (geteuid() != 0) return Entered::kNotAllowed;
  queues_map = bpf_map_create(BPF_MAP_TYPE_ARRAY, "queues", 4, 4, kKeys, nullptr);
  if (queues_map < 0 || !enter_private_network()) return Entered::kNotAllowed;
  if (!make_network()) return Entered::kFailed;
  const auto tried = daemon::XdpSteering::attach(if_nametoindex(kMirroredInterface), 9000, daemon::XdpHook::kDriver);
  return tried ? Entered::kYes : Entered::kNotAllowed;
}

void mirror_slot(std::uint32_t slot, std::uint32_t queue) {
  set_map(slot, queue + 1);  // as the kernel counts a packet's queue; 0 is none
}

unsigned mirror_steered_slots() {
  static std::set<std::uint32_t> known;
  const auto steering = daemon::XdpSteering::find(if_nametoindex(kMirroredInterface));
  if (!steering.link.valid()) return 0;
  unsigned fresh = 0;
  for (std::uint32_t queue = 0; queue < kQueues; ++queue) {
    const std::uint32_t slot = steering.slot_of(queue);
    if (slot == 0) continue;
    mirror_slot(slot, queue);
    fresh += known.insert(slot).second ? 1 : 0;
  }
  return fresh;
}

void mirror_loses(double part) { set_map(kLossKey, static_cast<std::uint32_t>(part * 4294967295.0)); }

MirroredPackets mirrored_packets() { return {read_map(kXdpKey), read_map(kUdpKey)}; }

}  // namespace brdma::test
