// qp/send/segments.h - private: large commands that leave in segments (design RR-3). A WRITE or SEND from the
// threshold on keeps the head of the queue. Each of its segments is an operation: opened by its first packet, counted
// as its packets are acknowledged, forgotten when the window's base passes it. On the wire it stays one message: BXTH
// fields mark the segments, so that order, keys, immediates and retransmission are those of every other message.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/config.h"
#include "base/function_ref.h"
#include "base/lazy.h"
#include "qp/queues/message_table.h"
#include "qp/queues/send_queue.h"
#include "qp/state/identity.h"
#include "registry/operation_table.h"
#include "wire/control.h"

namespace brdma::qp {

class Segments {
 public:
  // --- which commands ---
  [[nodiscard]] static bool is_large(const SendWqe& wqe, const TransferConfig& config);
  // Packets of each segment. 0: it leaves undivided: it is small, large ones are not cut, or the peer does not support
  // it.
  [[nodiscard]] static std::uint8_t packets_of_each(const SendWqe& wqe, const TransferConfig& config,
                                                    const Identity& id);

  // --- in progress ---
  [[nodiscard]] std::size_t size() const { return table_->size(); }
  [[nodiscard]] bool full() const { return table_->full(); }
  [[nodiscard]] std::uint8_t next_number() const { return table_->next_number(); }
  [[nodiscard]] std::size_t allocated_bytes() const { return table_.allocated_bytes(); }

  // --- sent ---
  // Numbers have eight bits: a segment waits for a number that no other operation in progress has. `next`: the packet.
  [[nodiscard]] bool may_leave(const Message& message, Sequence next) const {
    return message.segment_packets == 0 || !full() || ((next - message.first) & (message.segment_packets - 1u)) != 0;
  }
  // That packet of a message in segments has left for the first time. True: a segment began with it.
  bool on_sent(const Message& message, Sequence sequence);

  // First packet of the segment that this one, in a message in segments, is part of.
  [[nodiscard]] static Sequence start_of(const Message& message, Sequence sequence) {
    return sequence - ((sequence - message.first) & (message.segment_packets - 1u));
  }

  // --- acknowledged ---
  void on_arrived(const Message& message, Sequence sequence);
  // That packet has arrived, and was sent more than once.
  void on_repeated(const Message& message, Sequence sequence);
  // Segments whose start has come so, each once.
  void take_started_late(FunctionRef<void(const registry::SentOperation&)> use);
  void on_reopened(const Message& message, Sequence sequence);
  std::size_t retire_before(Sequence base);  // how many are done
  // Does the acknowledgement report a segment complete that has not fully left? `next`: first packet never sent.
  [[nodiscard]] bool names_unsent(const wire::BitmapAck& ack, Sequence next) const;
  // Segments that the acknowledgement reports complete and that were not known to be: all their packets have arrived,
  // whether its bits reach that far or not. `complete` may acknowledge them here.
  void for_each_completed(const wire::BitmapAck& ack, FunctionRef<void(const registry::SentOperation&)> complete) const;

  // Nothing is in flight any more. Numbers go on, unless the connection restarts.
  void forget_flight() {
    if (auto* const table = table_.if_made()) table->clear();
  }
  void restart() {
    if (auto* const table = table_.if_made()) table->restart();
  }

 private:
  Lazy<registry::OperationTable> table_;
};

}  // namespace brdma::qp
