// qp/shared/telemetry.h - what the queue pairs of an engine count, trace and note as events.
#pragma once

#include <cstdint>

#include "base/units.h"
#include "bitmap/window_shape.h"
#include "trace/counters.h"
#include "trace/events.h"
#include "trace/journal.h"
#include "trace/qp_counters.h"

namespace brdma::qp {

struct Telemetry {
  Statistics& statistics;
  trace::Sink* sink = nullptr;        // null: no tracing
  trace::Journal* journal = nullptr;  // null: off
  // Counters of the current queue pair, beside the context's; null: none.
  QpStatistics* counting = nullptr;
  // Packets dropped so far. The queue pair compares it before and after a packet: a packet that was not dropped was
  // accepted, so that accepted plus all drops equals received.
  std::uint64_t dropped = 0;

  void count(Counter counter, std::uint64_t n) {
    statistics.add(counter, n);
    const QpCounter own = qp_counter(counter);
    if (own != QpCounter::kNone && counting != nullptr) counting->add(own, n);
  }
  void drop(DropReason reason) {
    statistics.add(reason);
    ++dropped;
  }
  void note(Instant now, std::uint32_t qpn, trace::EventType type, std::uint64_t a, std::uint64_t b, std::uint64_t c) {
    if (journal != nullptr) journal->record(now, qpn, type, {a, b, c});
  }
  void trace(Instant now, std::uint32_t qpn, const trace::Event& event) {
    if (sink != nullptr) [[unlikely]]
      sink->record(now, qpn, event);
  }
};

}  // namespace brdma::qp
