#include "datapath/packet_port.h"

#include <arpa/inet.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

namespace brdma::lab {
namespace {

[[noreturn]] void fail(const std::string& what) { throw std::system_error(errno, std::generic_category(), what); }

void set_option(int fd, int name, int value, const char* what) {
  if (setsockopt(fd, SOL_PACKET, name, &value, sizeof value) != 0) fail(what);
}

io::FileDescriptor open_packet_socket(const std::string& interface) {
  // Protocol 0 until everything is set up: no frame comes before.
  io::FileDescriptor socket{::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  if (!socket.valid()) fail("cannot open a packet socket");
  set_option(socket.get(), PACKET_VNET_HDR, 1, "packet socket with offload header");
  set_option(socket.get(), PACKET_QDISC_BYPASS, 1, "packet socket without queueing");
  set_option(socket.get(), PACKET_IGNORE_OUTGOING, 1, "packet socket that ignores what leaves");
  if (if_nametoindex(interface.c_str()) == 0) fail("no interface " + interface);
  return socket;
}

void bind_to(int fd, const std::string& interface, std::uint16_t protocol) {
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(protocol);
  address.sll_ifindex = static_cast<int>(if_nametoindex(interface.c_str()));
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) fail("cannot bind to " + interface);
}

// Accepts only frames of length_min to length_max bytes.
void filter_by_length(int fd, std::size_t length_min, std::size_t length_max) {
  const auto min = static_cast<std::uint32_t>(length_min), max = static_cast<std::uint32_t>(length_max);
  std::array<sock_filter, 5> program{
      sock_filter{BPF_LD | BPF_W | BPF_LEN, 0, 0, 0},
      sock_filter{BPF_JMP | BPF_JGE | BPF_K, 0, 2, min},
      sock_filter{BPF_JMP | BPF_JGT | BPF_K, 1, 0, max},
      sock_filter{BPF_RET | BPF_K, 0, 0, 0xFFFF'FFFF},
      sock_filter{BPF_RET | BPF_K, 0, 0, 0},
  };
  const sock_fprog filter{program.size(), program.data()};
  if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter) != 0) fail("cannot filter frames");
}

}  // namespace

ReceiveRing::ReceiveRing(const std::string& interface, std::size_t length_min, std::size_t length_max,
                         std::size_t ring_bytes)
    : socket_(open_packet_socket(interface)) {
  filter_by_length(socket_.get(), length_min, length_max);
  set_option(socket_.get(), PACKET_VERSION, TPACKET_V2, "packet ring version 2");
  constexpr std::size_t kOverhead = 128;  // the slot's header, the address and the alignment before the frame
  frame_size_ = (length_max + kOverhead + TPACKET_ALIGNMENT - 1) / TPACKET_ALIGNMENT * TPACKET_ALIGNMENT;
  block_size_ = std::bit_ceil(std::max<std::size_t>(frame_size_, 1u << 20));
  frames_per_block_ = block_size_ / frame_size_;
  const std::size_t blocks = std::max<std::size_t>(ring_bytes / block_size_, 2);
  frame_count_ = blocks * frames_per_block_;
  ring_bytes_ = blocks * block_size_;
  const tpacket_req request{static_cast<unsigned>(block_size_), static_cast<unsigned>(blocks),
                            static_cast<unsigned>(frame_size_), static_cast<unsigned>(frame_count_)};
  if (setsockopt(socket_.get(), SOL_PACKET, PACKET_RX_RING, &request, sizeof request) != 0) {
    fail("cannot make a receive ring of " + std::to_string(ring_bytes_) + " bytes");
  }
  void* memory = mmap(nullptr, ring_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, socket_.get(), 0);
  if (memory == MAP_FAILED) fail("cannot map the receive ring");
  ring_ = static_cast<std::byte*>(memory);
  bind_to(socket_.get(), interface, ETH_P_ALL);
}

ReceiveRing::~ReceiveRing() {
  if (ring_ != nullptr) munmap(ring_, ring_bytes_);
}

std::byte* ReceiveRing::slot() const {
  return ring_ + next_ / frames_per_block_ * block_size_ + next_ % frames_per_block_ * frame_size_;
}

std::optional<ReceivedFrame> ReceiveRing::receive() const {
  std::byte* const at = slot();
  auto* header = reinterpret_cast<tpacket2_hdr*>(at);
  const std::uint32_t status = std::atomic_ref{header->tp_status}.load(std::memory_order_acquire);
  if ((status & TP_STATUS_USER) == 0) return std::nullopt;
  ReceivedFrame frame;
  frame.bytes = {at + header->tp_mac, header->tp_snaplen};
  std::memcpy(&frame.offload, at + header->tp_mac - sizeof frame.offload, sizeof frame.offload);
  frame.arrival_ns = std::int64_t{header->tp_sec} * 1'000'000'000 + header->tp_nsec;
  frame.truncated = header->tp_snaplen < header->tp_len;
  return frame;
}

void ReceiveRing::release() {
  auto* header = reinterpret_cast<tpacket2_hdr*>(slot());
  std::atomic_ref{header->tp_status}.store(TP_STATUS_KERNEL, std::memory_order_release);
  next_ = next_ + 1 == frame_count_ ? 0 : next_ + 1;
}

std::uint64_t ReceiveRing::take_overruns() {
  tpacket_stats stats{};
  socklen_t size = sizeof stats;
  if (getsockopt(socket_.get(), SOL_PACKET, PACKET_STATISTICS, &stats, &size) != 0) return 0;
  return stats.tp_drops;
}

PacketPort::PacketPort(const std::string& interface, std::size_t frame_max, bool batches, std::size_t ring_bytes)
    : singles_(interface, 0, frame_max, batches ? ring_bytes / 2 : ring_bytes) {
  constexpr std::size_t kBatchMax = 65'535 + 64;  // the longest IP packet, and its Ethernet header
  if (batches) batches_.emplace(interface, frame_max + 1, kBatchMax, ring_bytes / 2);
}

// A host's frames are put into the rings one after the other. So a frame in one ring while the other is empty is the
// oldest, provided that the other was polled later.
std::optional<ReceivedFrame> PacketPort::receive() {
  auto single = singles_.receive();
  received_from_ = &singles_;
  if (!batches_) return single;
  const auto batch = batches_->receive();
  if (!batch) return single;
  if (!single) single = singles_.receive();
  if (single && single->arrival_ns <= batch->arrival_ns) return single;
  received_from_ = &*batches_;
  return batch;
}

std::size_t PacketPort::send(std::span<mmsghdr> messages) {
  const auto count = static_cast<unsigned>(messages.size());
  int sent = sendmmsg(singles_.fd(), messages.data(), count, MSG_DONTWAIT);
  // The kernel never splits a frame that bypasses the queueing layer, but drops it if the interface does not take it
  // whole: a veth whose other end got an XDP program since the start. From here on frames go through that layer.
  if (sent < 0 && errno == ENOBUFS && std::exchange(past_queueing_, false)) {
    set_option(singles_.fd(), PACKET_QDISC_BYPASS, 0, "packet socket with queueing");
    sent = sendmmsg(singles_.fd(), messages.data(), count, MSG_DONTWAIT);
  }
  return sent < 0 ? 0 : static_cast<std::size_t>(sent);
}

std::uint64_t PacketPort::take_overruns() {
  return singles_.take_overruns() + (batches_ ? batches_->take_overruns() : 0);
}

bool PacketPort::passes_datagram_batches(const std::string& interface) {
  // A kernel that knows the type checks further and refuses a frame without a checksum (EINVAL either way): so the
  // frame must be correct, and addressed to nobody.
  try {
    const io::FileDescriptor socket = open_packet_socket(interface);
    bind_to(socket.get(), interface, ETH_P_IP);
    struct {  // no padding: two-byte members before bytes
      OffloadHeader offload;
      std::array<std::uint8_t, 14 + 20 + 8 + 64> frame;
    } probe{};
    probe.offload.flags = kNeedsChecksum;
    probe.offload.gso_type = kGsoUdpDatagrams;
    probe.offload.header_size = 42;
    probe.offload.gso_size = 32;
    probe.offload.checksum_start = 34;
    probe.offload.checksum_offset = 6;
    probe.frame[0] = 0x02;  // 02:00:00:00:00:00: no lab host has it
    probe.frame[6] = 0x02;
    probe.frame[12] = 0x08;
    probe.frame[14] = 0x45;
    probe.frame[17] = 20 + 8 + 64;
    probe.frame[23] = 17;
    probe.frame[39] = 8 + 64;
    return ::send(socket.get(), &probe, sizeof probe, MSG_DONTWAIT) == static_cast<ssize_t>(sizeof probe);
  } catch (const std::system_error&) {
    return false;
  }
}

}  // namespace brdma::lab
