// long_path.h - a sender and a receiver on a path that holds a given number of packets of 256 bytes, one of which
// leaves each 333 ns. Measures the cost of an acknowledgement over the window, in instructions (ack_bench.cc) and in
// examined entries (requester_acknowledgement_cost_test.cc). Header only.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <vector>

#include "base/random.h"
#include "two_hosts.h"

namespace brdma::bench_micro {

inline constexpr std::uint32_t kStep = 64;  // packets a round of the loop
inline constexpr Duration kStepTime = Duration::from_ns(std::int64_t{kStep} * 333);
inline constexpr std::uint32_t kMessageBytes = 1u << 20;

inline void make_long(Host& host, std::uint8_t number, RecoveryMode mode, std::uint32_t window) {
  host.config.segments_max = kStep;
  host.config.receive_packets = 1u << 20;
  host.config.receive_bytes = 1u << 30;
  RecoveryConfig& recovery = host.config.recovery;
  recovery.mode = mode;
  for (recovery.window_packets = 4096; recovery.window_packets < window * 3;) recovery.window_packets *= 2;
  recovery.state_bytes_max = 1u << 30;
  recovery.hold_bytes_max = 256u << 20;
  recovery.congestion.control = CongestionControl::kNone;
  open(host, number);
}

struct Packet {
  Instant due;
  std::uint16_t place = 0;  // in its batch
  std::vector<std::byte> bytes;
};
using Packets = std::deque<Packet>;

// Takes one batch; returns the number of packets.
inline std::uint32_t take_batch(Host& from, Packets& out, Instant due, Instant now) {
  static TransmitBuffer buffer;
  Transmit transmit;
  if (!from.engine->poll_transmit(buffer, transmit, now)) return 0;
  std::vector<std::byte> whole;
  for (const Slice& slice : transmit.slices) {
    const auto* data = static_cast<const std::byte*>(slice.data);
    whole.insert(whole.end(), data, data + slice.size);
  }
  for (std::size_t at = 0, i = 0; at < whole.size(); at += transmit.segment_bytes, ++i) {
    const auto end = std::min(whole.size(), at + transmit.segment_bytes);
    out.push_back(
        {due,
         static_cast<std::uint16_t>(i),
         {whole.begin() + static_cast<std::ptrdiff_t>(at), whole.begin() + static_cast<std::ptrdiff_t>(end)}});
  }
  return transmit.segments;
}

inline void hand_over(const Host& from, Host& to, Packets& packets, Instant now) {
  for (; !packets.empty() && packets.front().due <= now; packets.pop_front()) {
    Datagram datagram;
    datagram.source = from.address;
    datagram.destination = to.address;
    datagram.source_port = 0xC000;
    datagram.ip_id_known = true;
    datagram.ip_id = packets.front().place;
    datagram.bytes = packets.front().bytes;
    to.engine->handle_datagram(datagram, now);
  }
  if (const auto due = to.engine->next_timeout(); due && *due <= now) to.engine->handle_timeout(now);
}

// Data and timers; acknowledgements and feedback are made.
inline void hand_to_receiver(const Host& from, Host& to, Packets& packets, Packets& out, Instant now) {
  hand_over(from, to, packets, now);
  while (take_batch(to, out, now, now) > 0) {
  }
}

// The measured functions, with names of their own for counters by function.
struct Ends {
  decltype(&hand_to_receiver) receiver = hand_to_receiver;
  decltype(&hand_over) sender = hand_over;  // acknowledgements and timers
};

class LongPath {
 public:
  LongPath(RecoveryMode mode, std::uint32_t window, const Ends& ends = {}) : ends_(ends), window_(window) {
    make_long(a_, 1, mode, window);
    make_long(b_, 2, mode, window);
    connect(a_, b_, PathMtu::k256, now_, /*timeout=*/20);
    connect(b_, a_, PathMtu::k256, now_, /*timeout=*/20);
  }
  // The next 64 packets leave; of those, so many in a million are lost.
  void step(std::uint32_t missing_ppm) {
    now_ = now_ + kStepTime;
    post();
    const Instant due = now_ + kStepTime * (std::int64_t{window_} / kStep);
    const std::size_t before = wire_.size();
    for (budget_ += kStep; budget_ > 0;) {
      const std::uint32_t sent = take_batch(a_, wire_, due, now_);
      if (sent == 0) break;
      budget_ -= static_cast<std::int64_t>(sent);
    }
    budget_ = std::min<std::int64_t>(budget_, 0);
    for (std::size_t i = before; i < wire_.size();) {
      if (missing_ppm != 0 && random_.below(1'000'000) < missing_ppm) {
        wire_.erase(wire_.begin() + static_cast<std::ptrdiff_t>(i));
      } else {
        ++i;
      }
    }
    ends_.receiver(a_, b_, wire_, back_, now_);
    ends_.sender(b_, a_, back_, now_);
  }
  [[nodiscard]] const Host& sender() const { return a_; }
  [[nodiscard]] const Host& receiver() const { return b_; }
  [[nodiscard]] std::uint64_t of_sender(Counter counter) const { return a_.statistics.get(counter); }
  [[nodiscard]] std::uint64_t of_receiver(Counter counter) const { return b_.statistics.get(counter); }

 private:
  void post() {
    Completion taken[64];
    for (std::size_t n; (n = a_.engine->poll_cq(a_.cq, taken)) > 0; completed_ += n) {
      for (std::size_t i = 0; i < n; ++i)
        if (taken[i].status != CompletionStatus::kSuccess) std::abort();
    }
    const std::uint64_t wanted = std::min<std::uint64_t>(1000, 16 + std::uint64_t{window_} * 4 / (kMessageBytes / 256));
    const Sge sge{a_.at(), kMessageBytes, a_.key};
    for (; posted_ - completed_ < wanted; ++posted_) {
      const SendRequest request{.wr_id = posted_,
                                .sges = {&sge, 1},
                                .opcode = WorkOpcode::kRdmaWrite,
                                .flags = kSendSignaled,
                                .remote_address = b_.at(),
                                .rkey = b_.key};
      if (!a_.engine->post_send(a_.qp, request, now_).ok()) std::abort();
    }
  }

  Ends ends_;
  Host a_, b_;
  Packets wire_, back_;
  std::uint32_t window_;
  std::int64_t budget_ = 0;
  std::uint64_t posted_ = 0, completed_ = 0;
  Instant now_ = Instant::from_ns(1'000'000'000);
  Random random_{1, "missing"};
};

}  // namespace brdma::bench_micro
