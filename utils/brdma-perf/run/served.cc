#include "run/served.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "run/ping_pong.h"
#include "values/samples.h"

namespace brdma::perf {
namespace {

constexpr std::int64_t kHelloTime = 5 * 1'000'000'000LL;
constexpr std::int64_t kRestTime = 10 * 1'000'000'000LL;  // for completions that are still on their way at the end
constexpr std::uint64_t kKilobytesMax = std::uint64_t{1} << 40;

}  // namespace

Served::Served(Loop& loop, std::unique_ptr<Channel> channel) : loop_(loop), channel_(std::move(channel)) {
  try {
    const Json hello = channel_->receive(clock_ns() + kHelloTime);
    const auto plan = hello.find("plan");
    if (plan == hello.end()) throw RunError("it sends no plan: is it brdma perf?");
    plan_ = plan_from_json(*plan);
  } catch (const RunError& error) {
    report(error.what());
    throw;
  }
  passive_ = plan_.operation == Operation::kRead || plan_.operation == Operation::kAtomic ||
             (plan_.operation == Operation::kWrite && plan_.mode != Mode::kLatency);
}

Served::~Served() {
  if (cm_) cm_->close();
}

// The peer learns why; that it cannot be reached does not matter any more.
void Served::report(const std::string& error) {
  try {
    channel_->send({{"error", error}});
  } catch (const RunError&) {
    return;
  }
}

void Served::connect(const Options& options) {
  try {
    plan_.rdma_cm ? connect_by_cm() : connect_by_tcp(options);
  } catch (const RunError& error) {
    report(error.what());
    throw;
  }
}

// What the client READs, and the counters of atomics.
void Served::prepare() {
  received_.resize(endpoint_->lanes().size());
  for (std::uint32_t i = 0; i < endpoint_->lanes().size(); ++i) {
    const Lane& lane = endpoint_->lanes()[i];
    if (lane.operation == Operation::kAtomic) {
      const std::span<std::byte> counter = endpoint_->slot(i, 0);
      std::fill(counter.begin(), counter.end(), std::byte{0});
    }
    for (std::uint32_t slot = 0; lane.operation == Operation::kRead && slot < lane.depth; ++slot) {
      checker_.seal_message(endpoint_->slot(i, slot), slot, true);
    }
    if (lane.role == Role::kPingPong) prepare_ping(*endpoint_, checker_);
  }
}

void Served::connect_by_tcp(const Options& options) {
  device_.emplace(
      Device::open({options.device, options.device_port, options.gid_index, options.ours}, channel_->local_address()));
  endpoint_ = std::make_unique<Endpoint>(loop_, *device_, plan_, Side::kServer);
  prepare();
  std::vector<RemoteQueuePair> own;
  for (std::uint32_t lane = 0; lane < endpoint_->lanes().size(); ++lane) {
    own.push_back(endpoint_->make_queue_pair(lane));
    endpoint_->post_receives(lane);
  }
  channel_->send(
      {{"place", to_json(device_->place())}, {"memory", to_json(endpoint_->memory())}, {"queue_pairs", to_json(own)}});
  const Json ready = channel_->receive(clock_ns() + Channel::kAnswerTime);
  endpoint_->set_remote(memory_from(ready));
  const Place peer = place_from(ready);
  const std::vector<RemoteQueuePair> remote = queue_pairs_from(ready, own.size());
  for (std::uint32_t lane = 0; lane < remote.size(); ++lane) endpoint_->connect(lane, peer, remote[lane]);
}

void Served::connect_by_cm() {
  const std::int64_t deadline = clock_ns() + Channel::kAnswerTime;
  cm_ = std::make_unique<CmServer>(channel_->local_address());
  device_.emplace(Device::borrow(cm_->context(), cm_->port_of_device(), channel_->local_address()));
  endpoint_ = std::make_unique<Endpoint>(loop_, *device_, plan_, Side::kServer);
  prepare();
  channel_->send({{"memory", to_json(endpoint_->memory())}, {"cm_port", cm_->port()}, {"token", cm_->token()}});
  cm_->accept(*endpoint_, deadline);
  endpoint_->set_remote(memory_from(channel_->receive(deadline)));
}

bool Served::work() {
  std::array<ibv_wc, Endpoint::kBatch> completions{};
  const std::size_t count = endpoint_->poll(completions);
  for (std::size_t i = 0; i < count; ++i) handle(completions[i]);
  return count != 0;
}

void Served::handle(const ibv_wc& completion) {
  const WorkId id = work_id(completion.wr_id);
  if (!id.receive) return;  // a credit or a reply has left
  const Lane& lane = endpoint_->lanes()[id.lane];
  if (lane.role == Role::kPingPong) {
    const std::uint64_t number = received_[id.lane].plain++;
    send_ping(*endpoint_, checker_, number);  // what came is looked at after that, outside of the measured time
    take_ping(*endpoint_, checker_, completion, number);
  } else if (lane.operation == Operation::kSend) {
    take_send(completion, id.lane, id.slot);
  } else {
    take_checked_write(completion, id.lane, id.slot);
  }
}

void Served::take_send(const ibv_wc& completion, std::uint32_t lane, std::uint32_t slot) {
  const std::uint64_t number = received_[lane].plain++;
  checker_.check_message(endpoint_->slot(lane, slot).first(completion.byte_len), number, true,
                         number % endpoint_->lanes()[lane].crc_every == 0);
  endpoint_->post_receive(lane, slot);
}

void Served::take_checked_write(const ibv_wc& completion, std::uint32_t lane, std::uint32_t slot) {
  const Lane& of = endpoint_->lanes()[lane];
  const std::uint64_t number = received_[lane].checked++;
  const std::uint32_t length = ntohl(completion.imm_data);
  if (length == 0 || length > of.size) {
    checker_.flaw("a WRITE reports " + std::to_string(length) + " bytes");
  } else {
    const std::uint32_t at = of.depth + static_cast<std::uint32_t>(number % kCheckedSlots);
    checker_.check_message(endpoint_->slot(lane, at).first(length), number, true, true);
  }
  endpoint_->post_receive(lane, slot);
  Post credit{IBV_WR_SEND};
  endpoint_->post(lane, credit);
}

// What was sent but is not polled yet: the other side's completion may come before ours.
void Served::take_rest(const std::vector<LaneCount>& counts) {
  const std::int64_t deadline = clock_ns() + kRestTime;
  const auto missing = [&] {
    for (std::uint32_t i = 0; i < counts.size(); ++i) {
      const Lane& lane = endpoint_->lanes()[i];
      const bool by_plain = lane.operation == Operation::kSend || lane.role == Role::kPingPong;
      if (by_plain && received_[i].plain < counts[i].plain) return true;
      if (received_[i].checked < counts[i].checked) return true;
    }
    return false;
  };
  while (missing() && clock_ns() < deadline) work();
  if (missing()) checker_.flaw("messages that are complete for the client did not come");
}

// Memory after the run: the last message of each slot, of those that no completion has announced.
void Served::look_at(std::uint32_t lane, const LaneCount& count) {
  const Lane& of = endpoint_->lanes()[lane];
  if (of.operation == Operation::kAtomic) {
    std::uint64_t value = 0;
    std::memcpy(&value, endpoint_->slot(lane, 0).data(), sizeof value);
    checker_.checked_value();
    if (value != count.plain)
      checker_.flaw("the counter of " + std::to_string(count.plain) + " atomics is " + std::to_string(value));
  }
  const bool flows = plan_.mode == Mode::kFct;  // their last messages have any length
  if (of.operation != Operation::kWrite || of.role != Role::kStream || flows) return;
  for (std::uint64_t slot = 0; slot < std::min<std::uint64_t>(of.depth, count.plain); ++slot) {
    const std::uint64_t last = count.plain - 1 - (count.plain - 1 - slot) % of.depth;
    checker_.check_message(endpoint_->slot(lane, static_cast<std::uint32_t>(slot)), last, true, false);
  }
}

bool Served::finish() {
  const auto done = channel_->take();
  if (!done) return false;
  const std::vector<LaneCount> counts = counts_from(*done, endpoint_->lanes().size());
  megabytes_ = static_cast<double>(number_from(*done, "kbytes_s", kKilobytesMax)) / 1000;
  take_rest(counts);
  for (std::uint32_t lane = 0; lane < counts.size(); ++lane) look_at(lane, counts[lane]);
  const CheckTotals& totals = checker_.totals();
  channel_->send({{"messages", totals.messages},
                  {"by_crc", totals.by_crc},
                  {"flaws", totals.flaws},
                  {"ns", totals.ns},
                  {"flaw", checker_.first_flaw()}});
  return true;
}

}  // namespace brdma::perf
