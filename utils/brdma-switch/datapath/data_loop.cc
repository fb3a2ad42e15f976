#include "datapath/data_loop.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <ctime>
#include <system_error>
#include <utility>

#include "io/shard/clock.h"

namespace brdma::lab {
namespace {

constexpr std::size_t kBufferSize = 9216;          // an MTU of 9000 with headers
constexpr std::uint32_t kBufferCount = 32'768;     // 300 MB of address space; memory only for used ones
constexpr std::size_t kRingBytesAll = 128u << 20;  // divided among the ports
constexpr std::size_t kRingBytesMin = 4u << 20;
constexpr std::size_t kRoundFramesMax = 32;  // frames taken from a port before due packets leave
constexpr Duration kLatenessMax = 10_ms;     // lateness that is compensated; more is a clock that was set
constexpr Duration kSpin = 5_us;             // sleeping and waking takes longer than this
constexpr Duration kReadingMax = 1_us;       // between two clocks; more: an interruption came between
constexpr int kReadingsMax = 4;

// The offset of the real-time clock, with which the kernel stamps frames, to ours. Losing the core between the two
// readings would make every frame of the round look older, and its delay shorter than configured.
Duration real_time_ahead() {
  Duration ahead{};
  for (int i = 0; i < kReadingsMax; ++i) {
    timespec real{};
    const Instant before = io::monotonic_now();
    clock_gettime(CLOCK_REALTIME, &real);
    const Instant after = io::monotonic_now();
    ahead = Duration::from_ns(std::int64_t{real.tv_sec} * 1'000'000'000 + real.tv_nsec - after.ns());
    if (after - before < kReadingMax) break;
  }
  return ahead;
}

}  // namespace

struct DataLoop::Call {
  const std::function<void()>* work = nullptr;
  bool done = false, dropped = false;
  std::condition_variable finished;
};

DataLoop::DataLoop(const std::vector<PortSpec>& ports, const MakeCore& make_core)
    : specs_(ports),
      passes_batches_(PacketPort::passes_datagram_batches("lo")),
      pool_(kBufferCount, kBufferSize),
      core_(make_core(pool_)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!wake_.valid()) throw std::system_error(errno, std::generic_category(), "cannot make an event descriptor");
  const std::size_t ring_bytes = std::max(kRingBytesAll / ports.size(), kRingBytesMin);
  for (const PortSpec& spec : ports) {
    Port port;
    port.socket = std::make_unique<PacketPort>(spec.interface, kBufferSize, passes_batches_, ring_bytes);
    port.batch = std::make_unique<TransmitBatch>(pool_, passes_batches_);
    polled_.push_back({port.socket->single_fd(), POLLIN, 0});
    polled_.push_back({port.socket->batch_fd(), POLLIN, 0});
    ports_.push_back(std::move(port));
  }
  polled_.push_back({wake_.get(), POLLIN, 0});
}

void DataLoop::run() {
  for (;;) {
    serve_calls();
    {
      const std::lock_guard lock{mutex_};
      if (stopped_) break;
    }
    // Many rounds between polls of the mailbox: the eventfd in wait() and the round count bound how long a call waits.
    for (int round = 0; round < 64; ++round) {
      const Duration ahead = real_time_ahead();
      bool busy = false;
      for (std::uint32_t i = 0; i < ports_.size(); ++i) busy |= receive_frames(i, ahead);
      busy |= transmit(io::monotonic_now());
      if (busy) continue;
      wait();
      if ((polled_.back().revents & POLLIN) != 0) break;
    }
  }
  const std::lock_guard lock{mutex_};
  for (Call* call : std::exchange(calls_, {})) {
    call->dropped = true;
    call->finished.notify_all();
  }
}

// A frame's time is its arrival in the kernel, not our reading: a wakeup takes as long as a short link's delay.
bool DataLoop::receive_frames(std::uint32_t port, Duration real_time_ahead) {
  std::size_t taken = 0;
  for (; taken < kRoundFramesMax; ++taken) {
    const auto frame = ports_[port].socket->receive();
    if (!frame) break;
    const Instant now = io::monotonic_now(), arrival = Instant::from_ns(frame->arrival_ns) - real_time_ahead;
    take_frame(port, *frame, std::clamp(arrival, now - kLatenessMax, now));
    ports_[port].socket->release();
  }
  return taken != 0;
}

void DataLoop::take_frame(std::uint32_t port, const ReceivedFrame& frame, Instant now) {
  PortTrouble& trouble = ports_[port].trouble;
  const auto info = fabric::inspect_frame(frame.bytes);
  if (!info || frame.truncated) {
    ++trouble.malformed;
    return;
  }
  if (frame.offload.gso_type == kGsoUdpDatagrams && info->is_udp && frame.offload.gso_size != 0) {
    return take_datagrams(port, frame, *info, now);
  }
  if (frame.offload.gso_type != kGsoNone || frame.bytes.size() > kBufferSize) {
    ++trouble.malformed;
    return;
  }
  const auto buffer = pool_.take();
  if (!buffer) {
    ++trouble.no_buffer;
    return;
  }
  std::memcpy(pool_.buffer(*buffer).data(), frame.bytes.data(), frame.bytes.size());
  SwitchPacket packet;
  packet.buffer = *buffer;
  packet.size = static_cast<std::uint16_t>(frame.bytes.size());
  packet.udp_offset = info->udp_offset;
  packet.is_ipv6 = info->is_ipv6;
  packet.partial_checksum = (frame.offload.flags & kNeedsChecksum) != 0;
  packet.checksum_start = frame.offload.checksum_start;
  packet.checksum_offset = frame.offload.checksum_offset;
  core_->handle_packet(port, packet, *info, now);
}

// A batch: one packet for each segment, as the host's interface would have sent them.
void DataLoop::take_datagrams(std::uint32_t port, const ReceivedFrame& frame, const fabric::FrameInfo& info,
                              Instant now) {
  const std::size_t segment = frame.offload.gso_size;
  if (info.payload_offset + segment > kBufferSize) {
    ++ports_[port].trouble.malformed;
    return;
  }
  const ConstBytes headers = frame.bytes.first(info.payload_offset);
  const std::uint16_t first_id = fabric::identification(headers, info);
  ConstBytes rest = frame.bytes.subspan(info.payload_offset);
  for (std::uint16_t i = 0; !rest.empty(); ++i) {
    const ConstBytes payload = rest.first(std::min(segment, rest.size()));
    rest = rest.subspan(payload.size());
    const auto buffer = pool_.take();
    if (!buffer) {
      ++ports_[port].trouble.no_buffer;
      continue;
    }
    const MutableBytes bytes = pool_.buffer(*buffer);
    std::memcpy(bytes.data(), headers.data(), headers.size());
    std::memcpy(bytes.data() + headers.size(), payload.data(), payload.size());
    fabric::set_datagram_size(bytes.first(headers.size()), info, payload.size(),
                              static_cast<std::uint16_t>(first_id + i));
    SwitchPacket packet;
    packet.buffer = *buffer;
    packet.size = static_cast<std::uint16_t>(headers.size() + payload.size());
    packet.udp_offset = info.udp_offset;
    packet.is_ipv6 = info.is_ipv6;
    packet.partial_checksum = true;
    packet.checksum_start = info.udp_offset;
    packet.checksum_offset = fabric::kUdpChecksumOffset;
    core_->handle_packet(port, packet, info, now);
  }
}

bool DataLoop::transmit(Instant now) {
  core_->handle_timeout(now);
  bool any = false;
  for (std::uint32_t i = 0; i < ports_.size(); ++i) {
    Port& port = ports_[i];
    while (const auto packet = core_->poll(i, now)) {
      port.batch->add(*packet);
      any = true;
      if (port.batch->full()) port.trouble.refused += port.batch->flush(*port.socket);
    }
    if (!port.batch->empty()) port.trouble.refused += port.batch->flush(*port.socket);
  }
  return any;
}

void DataLoop::wait() {
  polled_.back().revents = 0;
  const auto next = core_->next_timeout();
  timespec timeout{};
  if (next) {
    const Duration left = *next - io::monotonic_now();
    if (left < kSpin) return;
    timeout.tv_sec = left.ns() / 1'000'000'000;
    timeout.tv_nsec = left.ns() % 1'000'000'000;
  }
  if (ppoll(polled_.data(), polled_.size(), next ? &timeout : nullptr, nullptr) < 0) polled_.back().revents = 0;
}

bool DataLoop::call(const std::function<void()>& work) {
  Call call;
  call.work = &work;
  std::unique_lock lock{mutex_};
  if (stopped_) return false;
  calls_.push_back(&call);
  const std::uint64_t one = 1;
  (void)!write(wake_.get(), &one, sizeof one);
  call.finished.wait(lock, [&] { return call.done || call.dropped; });
  return call.done;
}

void DataLoop::serve_calls() {
  std::uint64_t count = 0;
  (void)!read(wake_.get(), &count, sizeof count);
  const std::lock_guard lock{mutex_};
  for (Call* call : std::exchange(calls_, {})) {
    (*call->work)();
    call->done = true;
    call->finished.notify_all();
  }
}

void DataLoop::stop() {
  const std::lock_guard lock{mutex_};
  stopped_ = true;
  const std::uint64_t one = 1;
  (void)!write(wake_.get(), &one, sizeof one);
}

const PortTrouble& DataLoop::trouble(std::size_t port) {
  ports_[port].trouble.overruns += ports_[port].socket->take_overruns();
  return ports_[port].trouble;
}

}  // namespace brdma::lab
