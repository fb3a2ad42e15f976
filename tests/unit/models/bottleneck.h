// Flows through one queue: hosts, the queue with a rate and a limit, a delay, and answers that come back by the delay
// alone. Losses at random by seed, or each nth packet. Events in the order of (time, insertion): a run repeats exactly.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <queue>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "models/protocols.h"
#include "models/switch/ecn.h"

namespace brdma::models::bottleneck {

struct Options {
  Bandwidth rate = Bandwidth::from_bps(10'000'000'000);
  Bandwidth host_rate = Bandwidth::from_bps(1'000'000'000'000);
  Duration one_way = 5_us;
  std::uint64_t buffer = 1'000'000'000;  // bytes that wait; the packet on the link is not counted
  std::uint32_t loss_per_million = 0;    // of data frames
  std::uint64_t loss_every = 0;          // each nth data frame that is no retransmission; 0: none
  std::optional<EcnThresholds> ecn;
  bool notifies = false;  // EDN, of drops of both kinds
  std::uint64_t seed = 1;
};

class Network {
 public:
  explicit Network(const Options& options) : options_(options), random_(options.seed) {}

  // Returns the flow's number.
  FlowId add(const Protocol& protocol, std::uint64_t bytes, Duration begin = {}) {
    const auto flow = static_cast<FlowId>(flows_.size());
    flows_.push_back({make_sender(protocol, flow), make_receiver(protocol, flow), {}, {}, {}, {}});
    ++running_;
    after(begin, [this, flow, bytes] {
      flows_[flow].sender->start(bytes, now_);
      look_at(flow);
    });
    return flow;
  }
  void run_until(Duration end) {
    while (!events_.empty() && events_.top().at <= Instant{} + end) step();
    now_ = Instant{} + end;
  }
  // True if all flows ended before `limit`.
  bool run_until_done(Duration limit) {
    while (!events_.empty() && events_.top().at <= Instant{} + limit && running_ > 0) step();
    return running_ == 0;
  }

  [[nodiscard]] Sender& sender(FlowId flow) { return *flows_[flow].sender; }
  [[nodiscard]] Receiver& receiver(FlowId flow) { return *flows_[flow].receiver; }
  // When the source knew that all had arrived.
  [[nodiscard]] std::optional<Instant> ended(FlowId flow) const { return flows_[flow].ended; }
  [[nodiscard]] std::uint64_t sent_bytes() const { return sent_bytes_; }  // that left the queue, on the wire
  [[nodiscard]] std::uint64_t dropped() const { return dropped_; }
  [[nodiscard]] std::uint64_t queued_max() const { return queued_max_; }

 private:
  struct Flow {
    std::unique_ptr<Sender> sender;
    std::unique_ptr<Receiver> receiver;
    Instant link_free;
    std::optional<Instant> woken_at;  // the earliest pending look
    std::optional<Instant> answers_at;
    std::optional<Instant> ended;
  };
  struct Event {
    Instant at;
    std::uint64_t number;
    std::function<void()> action;
    bool operator<(const Event& other) const { return at != other.at ? at > other.at : number > other.number; }
  };

  void after(Duration delay, std::function<void()> action) {
    events_.push({now_ + delay, number_++, std::move(action)});
  }
  void step() {
    const Event event = events_.top();
    events_.pop();
    now_ = event.at;
    event.action();
  }
  // Sends what the flow may send now, and wakes when that changes.
  void look_at(FlowId id) {
    Flow& flow = flows_[id];
    Sender& sender = *flow.sender;
    if (sender.done()) {
      if (!flow.ended) {
        flow.ended = now_;
        --running_;
      }
      return;
    }
    if (sender.next_deadline() && *sender.next_deadline() <= now_) sender.on_deadline(now_);
    if (flow.link_free <= now_) {
      if (const auto frame = sender.next_frame(now_)) {
        const Duration time = options_.host_rate.time_for(frame->wire_bytes);
        flow.link_free = now_ + time;
        after(time, [this, frame = *frame] { arrive(frame); });
      }
    }
    wake(id);
  }
  void wake(FlowId id) {
    Flow& flow = flows_[id];
    std::optional<Instant> next = flow.sender->next_deadline();
    if (const auto ready = flow.sender->ready_at()) {
      const Instant from = std::max(*ready, flow.link_free);
      if (!next || from < *next) next = from;
    }
    if (!next || (flow.woken_at && *flow.woken_at <= *next)) return;
    flow.woken_at = *next;
    after(std::max(*next - now_, Duration{}), [this, id, at = *next] {
      if (flows_[id].woken_at != at) return;
      flows_[id].woken_at.reset();
      look_at(id);
    });
  }
  [[nodiscard]] bool is_lost(const Frame& frame) {
    if (options_.loss_every > 0 && !frame.again && ++counted_ % options_.loss_every == 0) return true;
    return random_.chance_per_million(options_.loss_per_million);
  }
  void arrive(const Frame& frame) {
    if (is_lost(frame) || queued_ + frame.wire_bytes > options_.buffer + (busy_ ? 0 : frame.wire_bytes)) {
      ++dropped_;
      if (options_.notifies) answer(notification_of(frame, 64, now_));
      return;
    }
    queue_.push_back(frame);
    queued_ += frame.wire_bytes;
    queued_max_ = std::max(queued_max_, queued_);
    if (!busy_) transmit();
  }
  void transmit() {
    Frame frame = queue_.front();
    queue_.pop_front();
    queued_ -= frame.wire_bytes;
    if (options_.ecn && frame.ect && options_.ecn->marks(queued_, random_)) frame.ce = true;
    busy_ = true;
    after(options_.rate.time_for(frame.wire_bytes), [this, frame] {
      busy_ = false;
      sent_bytes_ += frame.wire_bytes;
      after(options_.one_way, [this, frame] { receive(frame); });
      if (!queue_.empty()) transmit();
    });
  }
  void receive(const Frame& frame) {
    std::vector<Frame> out;
    Flow& flow = flows_[frame.flow];
    flow.receiver->on_frame(frame, now_, out);
    for (const Frame& each : out) answer(each);
    wait_for_answer(frame.flow);
  }
  void wait_for_answer(FlowId id) {
    const auto at = flows_[id].receiver->next_deadline();
    if (!at || flows_[id].answers_at == at) return;
    flows_[id].answers_at = at;
    after(*at - now_, [this, id] {
      std::vector<Frame> out;
      flows_[id].receiver->on_deadline(now_, out);
      for (const Frame& each : out) answer(each);
    });
  }
  void answer(const Frame& frame) {
    after(options_.one_way, [this, frame] {
      flows_[frame.flow].sender->on_frame(frame, now_);
      look_at(frame.flow);
    });
  }

  Options options_;
  Random random_;
  Instant now_;
  std::uint64_t number_ = 0;
  std::priority_queue<Event> events_;
  std::deque<Flow> flows_;
  std::size_t running_ = 0;
  std::deque<Frame> queue_;
  std::uint64_t queued_ = 0;
  std::uint64_t queued_max_ = 0;
  bool busy_ = false;
  std::uint64_t counted_ = 0;
  std::uint64_t dropped_ = 0;
  std::uint64_t sent_bytes_ = 0;
};

}  // namespace brdma::models::bottleneck
