#include "run/ping_pong.h"

#include <arpa/inet.h>

namespace brdma::perf {
namespace {

constexpr std::uint32_t kLane = 0, kIncoming = 2, kTurns = 2;
constexpr std::uint64_t kSignaledOneIn = 32;  // of up to 64 that a lane has room for

void seal_ping(Endpoint& endpoint, Checker& checker, std::uint64_t number) {
  const auto slot = static_cast<std::uint32_t>(number % kTurns);
  checker.seal_message(endpoint.slot(kLane, slot), number, number % endpoint.lanes()[kLane].crc_every == 0);
}

}  // namespace

void prepare_ping(Endpoint& endpoint, Checker& checker) { seal_ping(endpoint, checker, 0); }

void send_ping(Endpoint& endpoint, Checker& checker, std::uint64_t number) {
  const Lane& lane = endpoint.lanes()[kLane];
  const bool is_send = lane.operation == Operation::kSend;
  Post post{is_send ? IBV_WR_SEND : IBV_WR_RDMA_WRITE_WITH_IMM};
  post.slot = static_cast<std::uint32_t>(number % kTurns);
  post.length = post.immediate = lane.size;
  post.remote_slot = kIncoming + static_cast<std::uint32_t>(number % kTurns);
  post.signaled = number % kSignaledOneIn == kSignaledOneIn - 1;
  endpoint.post(kLane, post);
  seal_ping(endpoint, checker, number + 1);
}

void take_ping(Endpoint& endpoint, Checker& checker, const ibv_wc& completion, std::uint64_t number) {
  const Lane& lane = endpoint.lanes()[kLane];
  const bool is_send = lane.operation == Operation::kSend;
  const std::uint32_t receive = work_id(completion.wr_id).slot;
  const std::uint32_t slot = is_send ? receive : kIncoming + static_cast<std::uint32_t>(number % kTurns);
  const std::uint32_t length = is_send ? completion.byte_len : ntohl(completion.imm_data);
  if (length == lane.size) {
    checker.check_message(endpoint.slot(kLane, slot), number, true, number % lane.crc_every == 0);
  } else {
    checker.flaw("message " + std::to_string(number) + " has " + std::to_string(length) + " bytes");
  }
  endpoint.post_receive(kLane, receive);
}

void PingPong::post(std::int64_t now, bool stopping, std::uint64_t count_max) {
  if (!idle() || stopping || (count_max != 0 && sent_ >= count_max)) return;
  sent_at_ = now;
  send_ping(endpoint_, checker_, sent_++);
}

void PingPong::handle(const ibv_wc& completion, std::int64_t now) {
  if (!work_id(completion.wr_id).receive) return;  // one of our own has left
  const std::uint32_t size = endpoint_.lanes()[kLane].size;
  recording_.complete(now, 1, size);
  recording_.sample({now, static_cast<std::uint64_t>(now - sent_at_) / 2, size});
  take_ping(endpoint_, checker_, completion, received_++);
}

}  // namespace brdma::perf
