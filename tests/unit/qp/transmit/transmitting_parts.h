// The parts of a requester with the writers of new packets (libbitmaprdma/qp/transmit): views that no other unit tests.
#pragma once

#include "qp/transmit/data_packets.h"
#include "qp/transmit/middle_runs.h"
#include "qp/transmit/request_packets.h"
#include "qp/transmit/runs.h"
#include "qp/transmit/single_request.h"
#include "qp/transmit/small_runs.h"
#include "support/sender_parts.h"

namespace brdma::test {

struct TransmittingParts : SendingParts {
  [[nodiscard]] qp::Runs runs() {
    return qp::Runs{{environment, identity, fault, scoreboard, congestion, admission, timers, rnr, paths, judge}};
  }
  [[nodiscard]] qp::SmallRuns small() { return qp::SmallRuns{{runs(), queue, messages, segments, next}}; }
  [[nodiscard]] qp::MiddleRuns middle() { return qp::MiddleRuns{{runs(), queue}}; }
  [[nodiscard]] qp::SingleRequest single() {
    return qp::SingleRequest{{runs(), queue, messages, segments, loss, signals, next}};
  }
  [[nodiscard]] qp::DataPackets data() {
    return qp::DataPackets{{environment, identity, queue, fault, messages, scoreboard, segments, congestion, admission,
                            timers, rnr, paths.get(), judge.get()}};
  }
  [[nodiscard]] qp::RequestPackets requests() {
    return qp::RequestPackets{{environment, identity, queue, fault, messages, scoreboard, rtt, admission, responses,
                               timers, pace(), paths.get(), judge.get()}};
  }
};

}  // namespace brdma::test
