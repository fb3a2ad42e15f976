#include "check/probe/measure.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "check/probe/probe.h"

namespace brdma::probe {
namespace {

constexpr std::size_t kFrame = 65536;  // of TCP's stream; its first byte: 1 another one follows, 0 the last
constexpr std::chrono::seconds kStalled{5};

double median(std::vector<double>& values) {
  if (values.empty()) return 0;
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

double microseconds_since(Clock::time_point began) {
  return std::chrono::duration<double, std::micro>(Clock::now() - began).count();
}

void wait_for_one(QueuePair& pair) {
  ibv_wc completion{};
  if (!pair.wait(completion, Clock::now() + kStalled)) {
    throw StepFailed("a work request is not complete after 5 s", ETIMEDOUT);
  }
}

}  // namespace

Datagrams::Datagrams(Device& device, int gid_index)
    : device_(device), gid_index_(gid_index), pair_(device, IBV_QPT_UD) {}

void Datagrams::expect(std::uint32_t count, std::uint32_t bytes, std::uint32_t first) {
  expected_ = std::min(count, kLimits.datagrams);
  first_ = first;
  seen_ = 0;
  highest_ = first;
  bytes_ = bytes;
  while (posted_ < expected_) post_receive();  // some may be left from an earlier round
}

// Receives complete in their order, so slots in use are consecutive.
void Datagrams::post_receive() {
  pair_.post_receive(next_slot_++ % kLimits.datagrams);
  ++posted_;
}

void Datagrams::take(std::uint32_t number, Counts& counts) {
  const std::uint32_t at = number - first_;
  if (at >= expected_) return;  // of an earlier round
  if ((seen_ >> at & 1) != 0) {
    ++counts.duplicated;
    return;
  }
  seen_ |= std::uint64_t{1} << at;
  ++counts.received;
  if (number < highest_) ++counts.reordered;
  highest_ = std::max(highest_, number);
}

Datagrams::Counts Datagrams::count(std::chrono::milliseconds quiet) {
  Counts counts;
  ibv_wc completion{};
  while (counts.received < expected_ && pair_.wait(completion, Clock::now() + quiet)) {
    if ((completion.opcode & IBV_WC_RECV) == 0) continue;
    --posted_;
    std::uint32_t number = 0;
    std::memcpy(&number, pair_.payload(completion.wr_id), sizeof number);
    if (completion.byte_len == bytes_ + 40) take(number, counts);
    if (posted_ == 0 && counts.received < expected_) post_receive();
  }
  return counts;
}

void Datagrams::send(std::uint32_t count, std::uint32_t bytes, std::uint32_t first) {
  for (std::uint32_t i = 0; i < count; ++i) {
    pair_.post_datagram(first + i, bytes);
    ibv_wc completion{};
    do {
      if (!pair_.wait(completion, Clock::now() + kStalled)) throw StepFailed("a datagram does not leave", ETIMEDOUT);
      if ((completion.opcode & IBV_WC_RECV) != 0) --posted_;  // late, of an earlier round
    } while ((completion.opcode & IBV_WC_RECV) != 0);
  }
}

double write_rate(QueuePair& pair, const Remote& remote) {
  const auto began = Clock::now(), until = began + std::chrono::milliseconds{kLimits.stream_ms};
  std::uint64_t bytes = 0;
  std::uint32_t outstanding = 0;
  for (;;) {
    const bool more = Clock::now() < until && bytes < kLimits.stream_bytes;
    if (!more && outstanding == 0) break;
    for (; more && outstanding < kLimits.writes_outstanding; ++outstanding) {
      pair.post(IBV_WR_RDMA_WRITE, kLimits.write_bytes, remote);
    }
    wait_for_one(pair);
    --outstanding;
    bytes += kLimits.write_bytes;
  }
  return static_cast<double>(bytes) * 8 / std::max(1.0, microseconds_since(began));
}

double read_round_trip(QueuePair& pair, const Remote& remote) {
  std::vector<double> times;
  const auto until = Clock::now() + std::chrono::milliseconds{2 * kLimits.stream_ms};
  while (times.size() < kLimits.reads && (times.empty() || Clock::now() < until)) {
    const auto began = Clock::now();
    pair.post(IBV_WR_RDMA_READ, 8, remote);
    wait_for_one(pair);
    times.push_back(microseconds_since(began));
  }
  return median(times);
}

void send_stream(Channel& channel) {
  std::vector<std::uint8_t> frame(kFrame, 0x5A);
  const auto until = Clock::now() + std::chrono::milliseconds{kLimits.stream_ms};
  std::uint64_t bytes = 0;
  do {
    bytes += kFrame;
    frame[0] = Clock::now() < until && bytes < kLimits.stream_bytes ? 1 : 0;
    channel.send_bytes(frame);
  } while (frame[0] == 1);
}

std::uint64_t receive_stream(Channel& channel) {
  std::vector<std::uint8_t> frame(kFrame);
  std::uint64_t bytes = 0;
  do {
    channel.receive_bytes(frame);
    bytes += kFrame;
  } while (frame[0] == 1 && bytes < kLimits.stream_bytes);
  if (frame[0] == 1) throw StepFailed("the peer's stream does not end", EIO, "peer_protocol");
  return bytes;
}

double tcp_round_trip(Channel& channel) {
  std::vector<double> times;
  std::array<std::uint8_t, 1> byte{1};
  const auto until = Clock::now() + std::chrono::milliseconds{2 * kLimits.stream_ms};
  for (unsigned i = 1; byte[0] == 1; ++i) {
    byte[0] = i < kLimits.reads && Clock::now() < until ? 1 : 0;  // 0: the last
    const auto began = Clock::now();
    channel.send_bytes(byte);
    channel.receive_bytes(byte);
    times.push_back(microseconds_since(began));
  }
  return median(times);
}

void echo(Channel& channel) {
  std::array<std::uint8_t, 1> byte{1};
  for (unsigned i = 0; byte[0] == 1 && i < kLimits.reads; ++i) {
    channel.receive_bytes(byte);
    channel.send_bytes(byte);
  }
}

}  // namespace brdma::probe
