// qp/environment.h - what every queue pair of an engine shares. Plain references; lives as long as the engine.
#pragma once

#include "base/random.h"
#include "base/units.h"
#include "device/config.h"
#include "memory/memory_table.h"
#include "trace/counters.h"
#include "trace/events.h"

namespace brdma::qp {

struct Environment {
  const EngineConfig& config;
  memory::MemoryTable& memory;
  Statistics& statistics;
  trace::Sink* sink = nullptr;
  std::uint32_t active_qps = 1;  // queue pairs that receive: the socket's credit is shared among them

  void count(Counter counter, std::uint64_t n = 1) const { statistics.add(counter, n); }
  void drop(DropReason reason) const { statistics.add(reason); }
  void trace(Instant now, std::uint32_t qpn, const trace::Event& event) const {
    if (sink != nullptr) [[unlikely]]
      sink->record(now, qpn, event);
  }
};

}  // namespace brdma::qp
