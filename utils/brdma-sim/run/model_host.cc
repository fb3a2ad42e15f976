#include "run/model_host.h"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

#include "base/check.h"
#include "fabric/routing/ip_header.h"

namespace brdma::simulator {
namespace {

constexpr std::uint8_t kCapable = 2;          // ECT(0)
constexpr std::uint16_t kFirstPort = 0xC000;  // flows differ in their source port, so that equal-cost paths are used
constexpr std::uint32_t kNoticeBytes = 78;    // ICMP source quench: Ethernet 18, IP 20, ICMP 8, quoted IP and 12 bytes
static_assert(std::is_trivially_copyable_v<models::Frame>);

void put(const models::Frame& frame, sim::Packet& packet) {
  packet.bytes.resize(sizeof frame);
  std::memcpy(packet.bytes.data(), &frame, sizeof frame);
  packet.frame_bytes = frame.wire_bytes;
  packet.traffic_class = frame.ect ? kCapable : std::uint8_t{0};
  packet.hop_limit = 64;
}

void add_to(models::Counters& sum, const models::Counters& part) {
  sum.sent += part.sent;
  sum.timeouts += part.timeouts;
  sum.probes += part.probes;
  sum.reductions += part.reductions;
  for (std::size_t i = 0; i < models::kCauses; ++i) sum.again[i] += part.again[i];
}

}  // namespace

models::Frame frame_of(const sim::Packet& packet) {
  models::Frame frame;
  BRDMA_CHECK(packet.bytes.size() == sizeof frame);
  std::memcpy(&frame, packet.bytes.data(), sizeof frame);
  if (fabric::ecn_of(packet.traffic_class) == fabric::kCongested) frame.ce = true;
  return frame;
}

std::optional<sim::PacketIndex> notice_of(sim::PacketPool& pool, const sim::Packet& dropped, Instant now) {
  const models::Frame frame = frame_of(dropped);
  if (frame.kind != models::FrameKind::kData) return std::nullopt;
  const sim::PacketIndex index = pool.take();
  sim::Packet& packet = pool[index];
  packet.source = dropped.destination;
  packet.destination = dropped.source;
  packet.source_port = dropped.source_port;
  put(models::notification_of(frame, kNoticeBytes, now), packet);
  return index;
}

std::uint32_t ModelHost::add(End end) {
  by_flow_.emplace(end.flow, static_cast<std::uint32_t>(ends_.size()));
  ends_.push_back(std::move(end));
  return static_cast<std::uint32_t>(ends_.size() - 1);
}

void ModelHost::accept(models::FlowId flow, std::unique_ptr<models::Receiver> receiver, const IpAddress& peer) {
  End end;
  end.flow = flow;
  end.receiver = std::move(receiver);
  end.peer = peer;
  add(std::move(end));
}

void ModelHost::begin(models::FlowId flow, std::unique_ptr<models::Sender> sender, const IpAddress& peer,
                      std::uint64_t bytes, Instant now) {
  End end;
  end.flow = flow;
  end.sender = std::move(sender);
  end.peer = peer;
  end.sender->start(bytes, now);
  arrange(add(std::move(end)), now);
  changed();
}

std::vector<models::FlowId> ModelHost::take_done() { return std::exchange(done_, {}); }

models::Counters ModelHost::counters() const {
  models::Counters sum = ended_;
  for (const End& end : ends_) {
    if (end.sender) add_to(sum, end.sender->counters());
  }
  return sum;
}

void ModelHost::arrange(std::uint32_t number, Instant now) {
  End& end = ends_[number];
  std::optional<Instant> wake;
  if (end.receiver) wake = end.receiver->next_deadline();
  if (end.sender) {
    wake = end.sender->next_deadline();
    const std::optional<Instant> ready = end.sender->ready_at();
    if (ready && *ready > now && (!wake || *ready < *wake)) wake = ready;
    if (ready && *ready <= now && !end.in_turn) {
      end.in_turn = true;
      turns_.push_back(number);
    }
  }
  deadlines_.set(number, wake, now);
}

void ModelHost::keep_answers(std::uint32_t number) {
  for (const models::Frame& frame : made_) answers_.push_back({number, frame});
  made_.clear();
}

void ModelHost::end_if_done(End& end) {
  if (!end.sender || !end.sender->done()) return;
  add_to(ended_, end.sender->counters());
  end.sender.reset();
  done_.push_back(end.flow);
  is_done_new_ = true;
}

void ModelHost::arrive(std::uint32_t number, const models::Frame& frame, Instant now) {
  End& end = ends_[number];
  if (frame.to_source() && end.sender) {
    end.sender->on_frame(frame, now);
    end_if_done(end);
  } else if (!frame.to_source() && end.receiver) {
    end.receiver->on_frame(frame, now, made_);
    keep_answers(number);
  }
  arrange(number, now);
}

void ModelHost::handle_arrival(sim::PacketIndex index, Instant now) {
  const sim::Packet& packet = pool_[index];
  if (!packet.spoilt) {
    const models::Frame frame = frame_of(packet);
    const auto end = by_flow_.find(frame.flow);
    if (end != by_flow_.end()) arrive(end->second, frame, now);
  }
  pool_.give_back(index);
  changed();
}

std::optional<Instant> ModelHost::next_wake(Instant now) const {
  if (is_done_new_) return now;
  std::optional<Instant> wake = deadlines_.next();
  if (answers_.empty() && turns_.empty()) return wake;
  const Instant free = std::max(now, free_.at());
  return wake ? std::min(*wake, free) : free;
}

void ModelHost::keep_deadlines(Instant now) {
  deadlines_.begin_pass(now);
  while (const auto number = deadlines_.next_due()) {
    End& end = ends_[*number];
    if (end.sender) {
      if (const auto due = end.sender->next_deadline(); due && *due <= now) end.sender->on_deadline(now);
      end_if_done(end);
    } else if (end.receiver) {
      end.receiver->on_deadline(now, made_);
      keep_answers(*number);
    }
    arrange(*number, now);
  }
}

bool ModelHost::run(Instant now, SendPacket send) {
  keep_deadlines(now);
  is_done_new_ = false;
  while (free_.at() <= now && send_one(now, send)) {
  }
  return true;
}

bool ModelHost::send_one(Instant now, SendPacket send) {
  if (!answers_.empty()) {
    const Answer answer = answers_.front();
    answers_.pop_front();
    transmit(ends_[answer.end], answer.frame, now, send);
    return true;
  }
  while (!turns_.empty()) {
    const std::uint32_t number = turns_.front();
    turns_.pop_front();
    End& end = ends_[number];
    end.in_turn = false;
    const auto frame = end.sender ? end.sender->next_frame(now) : std::nullopt;
    arrange(number, now);
    BRDMA_CHECK(frame || !end.in_turn);  // it said that it is ready
    if (!frame) continue;
    transmit(end, *frame, now, send);
    return true;
  }
  return false;
}

void ModelHost::transmit(const End& end, models::Frame frame, Instant now, SendPacket send) {
  const sim::PacketIndex index = pool_.take();
  sim::Packet& packet = pool_[index];
  packet.source = address_;
  packet.destination = end.peer;
  packet.source_port = static_cast<std::uint16_t>(kFirstPort + frame.flow % 0x3FFF);
  put(frame, packet);
  if (rate_) free_.extend(frame.wire_bytes, *rate_, now);
  send(index);
}

}  // namespace brdma::simulator
