// qp/state/environment.h - state shared by all queue pairs of an engine: its parts are in qp/shared/. Lives as long as
// the engine.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/config.h"
#include "base/units.h"
#include "bitmap/window_shape.h"
#include "memory/memory_table.h"
#include "qp/queues/completion_queue.h"
#include "qp/shared/link_findings.h"
#include "qp/shared/nonces.h"
#include "qp/shared/notices.h"
#include "qp/shared/state_pools.h"
#include "qp/shared/telemetry.h"
#include "qp/shared/xrc_queues.h"
#include "qp/state/duplicate_log.h"
#include "qp/state/identity.h"

namespace brdma::qp {

[[nodiscard]] inline bitmap::WindowShape window_shape(const RecoveryConfig& recovery) {
  return {.window = recovery.window_packets,
          .base = recovery.base_packets,
          .extension = std::max(recovery.extension_packets, recovery.segment_packets),
          .segment = recovery.segment_packets,
          .granularity = recovery.granularity,
          .slide_step = std::min(recovery.slide_step, recovery.window_packets / 2)};
}

// Packets that may be in flight towards us: the window, less the lag of its edge.
[[nodiscard]] inline std::uint32_t stated_window(const RecoveryConfig& recovery) {
  const bitmap::WindowShape shape = window_shape(recovery);
  return shape.window - (shape.slide_step - 1);
}

// An acknowledgement's RTT sample that is not applied yet: a reply that follows leaves first. At most one of an engine,
// the latest; `requester` applies it before any other access (Requester::Parts). Null: none.
struct PendingRoundTrip {
  void* requester = nullptr;  // a Requester::Impl
  Duration measured, waited;
  std::uint64_t acknowledged = 0;  // bytes
  Instant sent, acked_at;
};

struct Environment {
  // The socket that receives packets to this queue pair. `own`: at this engine's address, which may have many slots.
  [[nodiscard]] std::uint32_t steered_to(std::uint32_t qpn, bool own) const {
    const std::uint32_t slot = qpn & ((1u << config.slot_bits) - 1);
    if (slots == nullptr || !own) [[likely]]
      return slot;
    return std::ranges::find(*slots, slot) == slots->end() ? slot : slots->front();
  }

  const EngineConfig& config;
  memory::MemoryTable& memory;
  Telemetry telemetry;
  const std::vector<std::uint32_t>* slots = nullptr;  // all of this engine, if it has several
  std::uint32_t active_qps = 0;  // queue pairs that receive: the socket's credit is shared among them
  Notices notices{};
  StatePools pools{};
  Nonces nonces{config.own_seed()};
  LinkFindings links{};
  XrcQueues xrc{};
  DuplicateLog duplicates{};  // recently received
  PendingRoundTrip round_trip{};
  Duration waited{};  // time of the current packet in this host before the engine saw it; 0: not known
  // Arrival of the current packet at this host. Gaps are timed and judged by it: a host that lost its core for a while
  // would otherwise judge packets in its socket lost, behind the packet that shows the gap.
  [[nodiscard]] Instant arrived_at(Instant now) const { return now - waited; }

  void count(Counter counter, std::uint64_t n = 1) { telemetry.count(counter, n); }
  void drop(DropReason reason) { telemetry.drop(reason); }
  // For rare events: brdma event shows them.
  void note(Instant now, std::uint32_t qpn, trace::EventType type, std::uint64_t a = 0, std::uint64_t b = 0,
            std::uint64_t c = 0) {
    telemetry.note(now, qpn, type, a, b, c);
  }
  // Call after any change of a window that may have made its bitmaps longer or shorter.
  template <class Window>
  void note_length(Instant now, std::uint32_t qpn, trace::WindowSide side, Window& window) {
    const bitmap::LengthChange change = window.take_length_change();
    if (change == bitmap::LengthChange::kNone) [[likely]]
      return;
    const bool longer = change == bitmap::LengthChange::kLonger;
    note(now, qpn, longer ? trace::EventType::kWindowGrown : trace::EventType::kWindowShrunk,
         static_cast<std::uint64_t>(side), window.use().length);
  }
  void trace(Instant now, std::uint32_t qpn, const trace::Event& event) { telemetry.trace(now, qpn, event); }

  // The engine has notifications to make.
  [[nodiscard]] bool has_notices() const { return notices.pending(); }

  // Every completion goes through here: into its queue, to the trace, to the notices if the queue is armed. False: the
  // queue is overrun and the completion lost; the queue pair goes to error.
  bool complete(CompletionQueue& cq, const Completion& completion, bool solicited, Instant now) {
    trace(now, completion.qp_num,
          trace::CompletionMade{completion.wr_id, static_cast<std::uint32_t>(completion.status),
                                completion.opcode >= CompletionOpcode::kReceive});
    if (completion.status == CompletionStatus::kFlushed) count(Counter::kFlushedCompletions);
    if (cq.overwrites()) [[unlikely]]
      count(Counter::kCompletionsOverwritten);
    switch (cq.push(completion, solicited, now)) {
      case CompletionQueue::Push::kQuiet:
        return true;
      case CompletionQueue::Push::kNotify:
        notices.completions.push_back({&cq, false});
        return true;
      case CompletionQueue::Push::kOverrun:
        notices.completions.push_back({&cq, true});
        return false;
    }
    return true;
  }

  // Credit of one queue pair for data in flight to this host: its share of the socket's buffer, never so little that it
  // stalls.
  [[nodiscard]] PeerCredit credit_share() const {
    std::uint32_t packets = config.receive_packets, bytes = config.receive_bytes;
    if (const std::uint32_t sharers = active_qps; sharers > 1) {
      packets /= sharers;
      bytes /= sharers;
    }
    constexpr std::uint32_t kPacketsMin = 8;
    return {std::max(packets, kPacketsMin), std::max(bytes, kPacketsMin * 4096)};
  }
};

}  // namespace brdma::qp
