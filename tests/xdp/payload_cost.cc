// Cost of sending a batch by AF_XDP with the payload copied into the socket's chunks, as in io/xdp/xdp_transmit.cc,
// compared with descriptors that point to the payload in place: in memory of the program that is registered with the
// socket (docs/explanation/datapath.md). Over veth, whose driver copies once more; nobody receives the packets on the
// other end.
//
//   payload_cost [--rounds N]            both modes in turn, medians; as root
//   payload_cost --way N --packets N     one mode alone, 4096 bytes each, for callgrind
#include <net/if.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string_view>
#include <utility>
#include <vector>

#include "found_steering.h"
#include "io/system/mapping.h"
#include "io/xdp/xdp_abi.h"
#include "io/xdp/xdp_frame.h"
#include "io/xdp/xdp_rings.h"
#include "private_network.h"
#include "xdp/xdp_grant.h"

namespace brdma::test {
namespace {

constexpr std::uint32_t kChunks = 4096, kChunkBytes = io::kXdpChunkBytes;
constexpr std::uint64_t kProgramsMemory = std::uint64_t{kChunks} / 2 * kChunkBytes;  // the upper half
// As much as stays in the cache: the ICRC has just been computed from it.
constexpr std::uint64_t kProgramsBytes = 64 * 1024;
constexpr std::size_t kRoceHeaders = 32, kIcrc = 4, kBatch = 15;
constexpr std::array<std::uint8_t, 6> kNobody{2, 0, 0, 0, 9, 99}, kUs{2, 0, 0, 0, 9, 1};

enum class Way : std::uint8_t { kCopied, kInPlace, kInPlaceAcrossPages };
constexpr std::array<const char*, 3> kWays{"copied", "in place, a page each", "in place, across pages"};

void must(bool done, const char* what) {
  if (done) return;
  std::perror(what);
  std::exit(1);
}

class Sender {
 public:
  Sender() {
    daemon::XdpWish wish;
    wish.ifindex = if_nametoindex("left");
    wish.mode = io::XdpMode::kNative;
    wish.receive_chunks = 0;
    wish.transmit_chunks = kChunks;
    auto granted = grant_xdp_there(wish);
    must(granted.ok(), "an AF_XDP socket");
    grant_ = std::move(granted).value();
    xdp_mmap_offsets offsets{};
    socklen_t size = sizeof offsets;
    must(getsockopt(fd(), SOL_XDP, XDP_MMAP_OFFSETS, &offsets, &size) == 0, "XDP_MMAP_OFFSETS");
    const int budget = kChunks;
    (void)setsockopt(fd(), SOL_XDP, io::kXdpMaxTxBudget, &budget, sizeof budget);
    memory_ = io::Mapping::shared(grant_.memory.get(), std::size_t{kChunks} * kChunkBytes);
    tx_mapping_ = io::Mapping::shared(fd(), offsets.tx.desc + kChunks * sizeof(xdp_desc), XDP_PGOFF_TX_RING);
    done_mapping_ =
        io::Mapping::shared(fd(), offsets.cr.desc + kChunks * sizeof(std::uint64_t), XDP_UMEM_PGOFF_COMPLETION_RING);
    must(memory_.valid() && tx_mapping_.valid() && done_mapping_.valid(), "mmap");
    tx_ = io::XdpRing<xdp_desc>{{tx_mapping_.data(), offsets.tx, kChunks}};
    done_ = io::XdpRing<std::uint64_t>{{done_mapping_.data(), offsets.cr, kChunks}};
    filled_ = tx_.filled();
  }

  void send_batch(Way way, std::size_t payload) {
    done_.consume_to(done_.produced());
    for (std::size_t i = 0; i < kBatch; ++i) write_packet(way, payload, i);
    tx_.fill_to(filled_);
    while (tx_.taken() != filled_) {
      const long sent = syscall(SYS_sendto, fd(), nullptr, 0, MSG_DONTWAIT, nullptr, 0);
      must(sent >= 0 || errno == EAGAIN || errno == EINTR || errno == EBUSY, "sendto");
    }
  }

 private:
  [[nodiscard]] int fd() const { return grant_.socket.get(); }
  [[nodiscard]] std::byte* at(std::uint64_t address) const { return memory_.data() + address; }
  std::uint64_t next_chunk() {
    chunk_ = (chunk_ + 1) % (kChunks / 2);
    return std::uint64_t{chunk_} * kChunkBytes;
  }
  void describe(std::uint64_t address, std::size_t bytes, bool more) {
    xdp_desc& descriptor = tx_.at(filled_++);
    descriptor.addr = address;
    descriptor.len = static_cast<std::uint32_t>(bytes);
    descriptor.options = more ? io::kXdpPacketContinues : 0;
  }
  std::size_t write_headers(std::uint64_t chunk, std::size_t payload, std::size_t index) {
    const io::FrameHeaders headers{.source = IpAddress::v4(10, 9, 0, 1),
                                   .destination = IpAddress::v4(10, 9, 0, 2),
                                   .source_port = 0xC123,
                                   .identification = static_cast<std::uint16_t>(index)};
    const std::size_t size = io::write_frame_headers(headers, kNobody, kUs, kRoceHeaders + payload + kIcrc, at(chunk));
    std::memcpy(at(chunk) + size, roce_headers_.data(), kRoceHeaders);
    return size + kRoceHeaders;
  }
  void write_packet(Way way, std::size_t payload, std::size_t index) {
    const std::uint64_t first = next_chunk();
    std::uint64_t from = programs_ + (way == Way::kInPlaceAcrossPages ? 1000 : 0);
    programs_ += (payload + kChunkBytes - 1) / kChunkBytes * kChunkBytes;
    if (programs_ + 3 * kChunkBytes > kProgramsMemory + kProgramsBytes) programs_ = kProgramsMemory;
    std::size_t used = write_headers(first, payload, index);
    if (way == Way::kCopied)
      copy(first, used, from, payload);
    else
      point(first, used, from, payload);
  }
  void copy(std::uint64_t chunk, std::size_t used, std::uint64_t from, std::size_t payload) {
    while (payload > 0) {
      if (used == kChunkBytes) {
        describe(chunk, used, true);
        chunk = next_chunk();
        used = 0;
      }
      const std::size_t take = std::min(payload, kChunkBytes - used);
      std::memcpy(at(chunk) + used, at(from), take);
      from += take, payload -= take, used += take;
    }
    if (used + kIcrc > kChunkBytes) {  // its four bytes are cut here, not across two
      describe(chunk, used, true);
      chunk = next_chunk();
      used = 0;
    }
    std::memcpy(at(chunk) + used, roce_headers_.data(), kIcrc);
    describe(chunk, used + kIcrc, false);
  }
  void point(std::uint64_t chunk, std::size_t used, std::uint64_t from, std::size_t payload) {
    std::memcpy(at(chunk) + used, roce_headers_.data(), kIcrc);
    describe(chunk, used, true);
    while (payload > 0) {
      const std::size_t take = std::min<std::size_t>(payload, kChunkBytes - from % kChunkBytes);
      describe(from, take, true);
      from += take, payload -= take;
    }
    describe(chunk + used, kIcrc, false);
  }

  daemon::XdpGrant grant_;
  io::Mapping memory_, tx_mapping_, done_mapping_;
  io::XdpRing<xdp_desc> tx_;
  io::XdpRing<std::uint64_t> done_;
  std::array<std::byte, kRoceHeaders> roce_headers_{};
  std::uint32_t filled_ = 0, chunk_ = 0;
  std::uint64_t programs_ = kProgramsMemory;
};

// The thread's own processor time, so that other work affects it little; the kernel sends within the call.
double nanoseconds_a_packet(Sender& sender, Way way, std::size_t payload) {
  constexpr int kBatches = 1000;
  const auto cpu = [] {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
  };
  const double begin = cpu();
  for (int i = 0; i < kBatches; ++i) sender.send_batch(way, payload);
  return (cpu() - begin) / (kBatches * kBatch);
}

void compare(Sender& sender, std::size_t payload, int rounds) {
  std::array<std::vector<double>, kWays.size()> took;
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t way = 0; way < kWays.size(); ++way)
      took[way].push_back(nanoseconds_a_packet(sender, static_cast<Way>(way), payload));
  }
  std::array<double, kWays.size()> median{};
  for (std::size_t way = 0; way < kWays.size(); ++way) {
    std::sort(took[way].begin(), took[way].end());
    median[way] = took[way][took[way].size() / 2];
    std::printf("%5zu bytes  %-24s %6.0f ns a packet (%.0f to %.0f)  %.2f of copied\n", payload, kWays[way],
                median[way], took[way].front(), took[way].back(), median[way] / median[0]);
  }
}

int run(int argc, char** argv) {
  int rounds = 9, way = -1, packets = 15'000;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view name = argv[i];
    (name == "--rounds" ? rounds : name == "--way" ? way : packets) = std::atoi(argv[i + 1]);
  }
  if (!enter_private_network()) {
    std::fprintf(stderr, "skipped: no network namespace to be had\n");
    return 77;
  }
  const SecondNetwork network;
  must(network.ready(), "a veth pair");
  Sender sender;
  if (way >= 0) {
    for (int sent = 0; sent < packets; sent += kBatch) sender.send_batch(static_cast<Way>(way), 4096);
    return 0;
  }
  for (const std::size_t payload : {1024u, 4096u, 8192u}) compare(sender, payload, rounds);
  return 0;
}

}  // namespace
}  // namespace brdma::test

int main(int argc, char** argv) { return brdma::test::run(argc, argv); }
