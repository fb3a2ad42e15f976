// One end of a flow, whose other end and network the test plays by hand. Packets are numbered from 0.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "models/protocols.h"

namespace brdma::models::by_hand {

inline constexpr FlowId kFlow = 7;
inline constexpr std::uint32_t kPayload = 1000;

inline Instant at(Duration time) { return Instant{} + time; }

class Source {
 public:
  Source(const Protocol& protocol, std::uint64_t packets) : sender_(make_sender(protocol, kFlow)) {
    sender_->start(packets * kPayload, at(0_us));
  }
  Sender& operator*() { return *sender_; }
  Sender* operator->() { return sender_.get(); }

  // The numbers of all packets that leave at `time`, 100 at most.
  std::vector<std::uint64_t> sends(Duration time) {
    std::vector<std::uint64_t> numbers;
    while (numbers.size() < 100 && sender_->ready_at() && *sender_->ready_at() <= at(time)) {
      const auto frame = sender_->next_frame(at(time));
      if (!frame) break;
      last_ = *frame;
      numbers.push_back(frame->sequence / kPayload);
    }
    return numbers;
  }
  // ranges: packets [first, end) that are SACKed. echo: when the packet left that caused this.
  void gets(FrameKind kind, Duration time, std::uint64_t ack, Duration echo,
            const std::vector<std::pair<std::uint64_t, std::uint64_t>>& ranges = {}) {
    Frame frame;
    frame.flow = kFlow;
    frame.kind = kind;
    frame.ack = ack * kPayload;
    frame.echo = at(echo);
    for (const auto& range : ranges) {
      frame.sack[frame.sack_count++] = {range.first * kPayload, range.second * kPayload};
    }
    sender_->on_frame(frame, at(time));
  }
  void gets_ack(Duration time, std::uint64_t ack, Duration echo,
                const std::vector<std::pair<std::uint64_t, std::uint64_t>>& ranges = {}) {
    gets(FrameKind::kAck, time, ack, echo, ranges);
  }
  void gets_nack(Duration time, std::uint64_t ack, std::uint64_t arrived, Duration echo = 0_us) {
    gets(FrameKind::kNack, time, ack, echo, {{arrived, arrived + 1}});
  }
  // A switch dropped this packet's copy that left at `sent_at`.
  void gets_notice(Duration time, std::uint64_t packet, Duration sent_at) {
    Frame data;
    data.flow = kFlow;
    data.sequence = packet * kPayload;
    data.length = kPayload;
    data.sent_at = at(sent_at);
    sender_->on_frame(notification_of(data, 64, at(time)), at(time));
  }
  [[nodiscard]] const Frame& last() const { return last_; }

 private:
  std::unique_ptr<Sender> sender_;
  Frame last_;
};

// The answers of a receiver to packet `number`, sent and received at `time`.
class Destination {
 public:
  explicit Destination(const Protocol& protocol) : receiver_(make_receiver(protocol, kFlow)) {}
  Receiver& operator*() { return *receiver_; }
  Receiver* operator->() { return receiver_.get(); }
  std::vector<Frame> gets(std::uint64_t number, Duration time, bool marked = false, bool last = false) {
    Frame data;
    data.flow = kFlow;
    data.sequence = number * kPayload;
    data.length = kPayload;
    data.ce = marked;
    data.last = last;
    data.sent_at = at(time);
    std::vector<Frame> out;
    receiver_->on_frame(data, at(time), out);
    return out;
  }

 private:
  std::unique_ptr<Receiver> receiver_;
};

inline Protocol protocol(std::string_view name) {
  return *find_protocol(name, {Bandwidth::from_bps(100'000'000'000), 10_us}, kPayload);
}
inline tcp::Settings tcp_of(std::string_view name) { return std::get<tcp::Settings>(protocol(name)); }
inline rdma::Settings rdma_of(std::string_view name) { return std::get<rdma::Settings>(protocol(name)); }

inline std::uint64_t again(const Sender& sender, Cause cause) {
  return sender.counters().again[static_cast<std::size_t>(cause)];
}

}  // namespace brdma::models::by_hand
