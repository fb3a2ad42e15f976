// run/ping_pong.h - the lane of latencies of SEND and WRITE: one message goes, the same number comes back. A sample is
// half of a round trip. WRITEs go with an immediate, so that the other side knows that all of it is there.
#pragma once

#include <cstdint>

#include "run/checker.h"
#include "run/greeting.h"
#include "values/recording.h"
#include "verbs/endpoint.h"

namespace brdma::perf {

// Slots 0 and 1 go out, 2 and 3 take what comes, in turn. So the next message is sealed, and the last one checked,
// outside of the measured time.

// Seals the first message, before the run.
void prepare_ping(Endpoint& endpoint, Checker& checker);
// Sends message `number` of lane 0, then seals the next; both sides do.
void send_ping(Endpoint& endpoint, Checker& checker, std::uint64_t number);
// Looks at what came, and gives its receive back.
void take_ping(Endpoint& endpoint, Checker& checker, const ibv_wc& completion, std::uint64_t number);

class PingPong {
 public:
  PingPong(Endpoint& endpoint, Checker& checker, Recording& recording)
      : endpoint_(endpoint), checker_(checker), recording_(recording) {}

  // Sends the next if none is on its way. now: ns from the start.
  void post(std::int64_t now, bool stopping, std::uint64_t count_max);
  void handle(const ibv_wc& completion, std::int64_t now);
  [[nodiscard]] bool idle() const { return sent_ == received_; }
  [[nodiscard]] std::uint64_t messages() const { return received_; }
  [[nodiscard]] std::uint64_t sent() const { return sent_; }

 private:
  Endpoint& endpoint_;
  Checker& checker_;
  Recording& recording_;
  std::uint64_t sent_ = 0, received_ = 0;
  std::int64_t sent_at_ = 0;
};

}  // namespace brdma::perf
