#include "run/streams.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "values/samples.h"

namespace brdma::perf {
namespace {

constexpr std::uint32_t kModeration = 16, kModeratedBelow = 4096;  // bytes
constexpr std::size_t kFlowsWaitingMax = 100'000;
constexpr std::size_t kNoStream = ~std::size_t{0};

ibv_wr_opcode opcode_of(Operation operation) {
  switch (operation) {
    case Operation::kWrite:
      return IBV_WR_RDMA_WRITE;
    case Operation::kRead:
      return IBV_WR_RDMA_READ;
    case Operation::kSend:
      return IBV_WR_SEND;
    case Operation::kAtomic:
      return IBV_WR_ATOMIC_FETCH_AND_ADD;
  }
  return IBV_WR_RDMA_WRITE;
}

}  // namespace

Streams::Streams(Endpoint& endpoint, Checker& checker, Recording& recording, const Plan& plan,
                 std::optional<Arrivals> arrivals)
    : endpoint_(endpoint),
      checker_(checker),
      recording_(recording),
      arrivals_(std::move(arrivals)),
      stream_of_lane_(endpoint.lanes().size(), kNoStream),
      counts_(endpoint.lanes().size()),
      sample_messages_(plan.mode == Mode::kLatency) {
  for (std::uint32_t i = 0; i < endpoint.lanes().size(); ++i) {
    const Lane& lane = endpoint.lanes()[i];
    if (lane.role == Role::kPingPong) continue;
    Stream stream;
    stream.lane = i;
    stream.is_load = plan.mode == Mode::kLatency && i > 0;
    stream.by_flows = arrivals_.has_value();
    const bool alike = !stream.by_flows && lane.size < kModeratedBelow;
    stream.moderation = alike ? std::clamp(lane.depth / 4, 1u, kModeration) : 1;
    stream.credits = lane.operation == Operation::kWrite ? kCheckedSlots : 0;
    stream.in_flight.resize(lane.depth);
    stream_of_lane_[i] = streams_.size();
    streams_.push_back(std::move(stream));
  }
}

bool Streams::idle() const {
  return std::all_of(streams_.begin(), streams_.end(),
                     [](const Stream& stream) { return stream.posted == stream.completed && stream.flows.empty(); });
}

void Streams::begin_flow(Stream& stream, std::int64_t at) {
  if (stream.flows.size() >= kFlowsWaitingMax) {
    throw RunError(
        "100,000 flows wait on a queue pair: the offered load is above what the network takes; raise --every");
  }
  const std::uint64_t bytes = arrivals_->draw_size();
  stream.flows.push_back({at, bytes, bytes, bytes});
  ++begun_;
}

void Streams::begin_flows(std::int64_t now, bool stopping) {
  const auto may_begin = [&] { return !stopping && (count_max_ == 0 || begun_ < count_max_); };
  while (arrivals_->by_time() && arrivals_->next() <= now && may_begin()) {
    begin_flow(streams_[next_stream_++ % streams_.size()], arrivals_->next());
    arrivals_->pass();
  }
  if (arrivals_->by_time()) return;
  for (Stream& stream : streams_) {
    if (stream.flows.empty() && may_begin()) begin_flow(stream, now);
  }
}

void Streams::post(std::int64_t now, bool stopping) {
  if (arrivals_) begin_flows(now, stopping);
  for (Stream& stream : streams_) post_stream(stream, now, stopping);
}

std::uint32_t Streams::next_bytes(Stream& stream, bool stopping) {
  const std::uint32_t size = endpoint_.lanes()[stream.lane].size;
  if (stream.by_flows) {
    while (stream.posting < stream.flows.size() && stream.flows[stream.posting].to_post == 0) ++stream.posting;
    if (stream.posting == stream.flows.size()) return 0;
    Flow& flow = stream.flows[stream.posting];
    const auto bytes = static_cast<std::uint32_t>(std::min<std::uint64_t>(flow.to_post, size));
    flow.to_post -= bytes;
    return bytes;
  }
  // After the end one more message may be needed, whose completion stands for the others'.
  if (stopping) return stream.unsignaled != 0 ? size : 0;
  if (stream.is_load) return size;
  if (count_max_ != 0 && begun_ >= count_max_) return 0;
  ++begun_;
  return size;
}

void Streams::post_stream(Stream& stream, std::int64_t now, bool stopping) {
  const std::uint32_t depth = endpoint_.lanes()[stream.lane].depth;
  while (stream.posted - stream.completed < depth) {
    const std::uint32_t bytes = next_bytes(stream, stopping);
    if (bytes == 0) return;
    const bool counted_out = !stream.is_load && count_max_ != 0 && begun_ >= count_max_;
    post_message(stream, bytes, now, stopping || counted_out);
  }
}

// What to post, and the number with which it is sealed.
Post Streams::prepared(Stream& stream, std::uint32_t bytes, std::uint64_t& number) {
  const Lane& lane = endpoint_.lanes()[stream.lane];
  LaneCount& count = counts_[stream.lane];
  Post post{opcode_of(lane.operation)};
  post.length = bytes;
  post.slot = static_cast<std::uint32_t>(stream.posted % lane.depth);
  ++stream.since_checked;
  if (lane.operation == Operation::kWrite && stream.credits != 0 && stream.since_checked >= lane.crc_every) {
    stream.since_checked = 0;
    --stream.credits;
    number = count.checked++;
    post.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    post.immediate = bytes;
    post.remote_slot = lane.depth + static_cast<std::uint32_t>(number % kCheckedSlots);
    return post;
  }
  number = count.plain++;
  post.remote_slot = lane.operation == Operation::kAtomic ? 0 : static_cast<std::uint32_t>(number % lane.depth);
  return post;
}

void Streams::post_message(Stream& stream, std::uint32_t bytes, std::int64_t now, bool last) {
  const Lane& lane = endpoint_.lanes()[stream.lane];
  std::uint64_t number = 0;
  Post post = prepared(stream, bytes, number);
  const std::span<std::byte> message = endpoint_.slot(stream.lane, post.slot).first(bytes);
  switch (lane.operation) {
    case Operation::kWrite:
      checker_.seal_message(message, number, post.opcode == IBV_WR_RDMA_WRITE_WITH_IMM);
      break;
    case Operation::kSend:
      checker_.seal_message(message, number, number % lane.crc_every == 0);
      break;
    case Operation::kRead:
    case Operation::kAtomic:
      checker_.seal_message(message, ~number, false);  // what comes must replace this
      break;
  }
  const bool full = stream.posted + 1 - stream.completed == lane.depth;
  post.signaled = last || full || stream.unsignaled + 1 >= stream.moderation;
  stream.unsignaled = post.signaled ? 0 : stream.unsignaled + 1;
  stream.in_flight[stream.posted % lane.depth] = {now, number, bytes};
  ++stream.posted;
  endpoint_.post(stream.lane, post);
}

void Streams::handle(const ibv_wc& completion, std::int64_t now) {
  const WorkId id = work_id(completion.wr_id);
  Stream& stream = streams_[stream_of_lane_[id.lane]];
  if (id.receive) {  // a credit
    ++stream.credits;
    endpoint_.post_receive(id.lane, id.slot);
    return;
  }
  const std::uint32_t depth = endpoint_.lanes()[stream.lane].depth;
  while (stream.completed != stream.posted) {
    const bool was_it = stream.completed % depth == id.slot;
    complete(stream, now);
    if (was_it) return;
  }
}

void Streams::check_content(const Stream& stream, const InFlight& message, std::uint32_t slot) {
  const Lane& lane = endpoint_.lanes()[stream.lane];
  const std::span<std::byte> content = endpoint_.slot(stream.lane, slot).first(message.bytes);
  if (lane.operation == Operation::kRead) {
    checker_.check_message(content, message.number % lane.depth, message.bytes == lane.size,
                           message.number % lane.crc_every == 0);
  } else if (lane.operation == Operation::kAtomic) {
    std::uint64_t before = 0;
    std::memcpy(&before, content.data(), sizeof before);
    checker_.checked_value();
    if (before != message.number) {
      checker_.flaw("atomic " + std::to_string(message.number) + " returned " + std::to_string(before));
    }
  }
}

void Streams::complete(Stream& stream, std::int64_t now) {
  const auto slot = static_cast<std::uint32_t>(stream.completed % stream.in_flight.size());
  const InFlight message = stream.in_flight[slot];
  ++stream.completed;
  check_content(stream, message, slot);
  if (stream.is_load) {
    load_bytes_ += message.bytes;
    return;
  }
  ++messages_;
  bytes_ += message.bytes;
  recording_.complete(now, 1, message.bytes);
  if (sample_messages_) recording_.sample({now, static_cast<std::uint64_t>(now - message.posted), message.bytes});
  if (stream.by_flows) complete_flow(stream, message.bytes, now);
}

void Streams::complete_flow(Stream& stream, std::uint32_t bytes, std::int64_t now) {
  Flow& flow = stream.flows.front();
  flow.to_complete -= bytes;
  if (flow.to_complete != 0) return;
  recording_.sample({now, static_cast<std::uint64_t>(now - flow.begun), flow.bytes});
  stream.flows.pop_front();
  stream.posting -= std::min<std::size_t>(stream.posting, 1);
}

}  // namespace brdma::perf
