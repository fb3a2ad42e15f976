// registry/operation_table.h - the sender's operations in progress (design RR-5 to RR-7): number, first packet,
// packet count, arrived packets. Each packet of an operation carries its number, and acknowledgements return it.
// Numbers have 8 bits, and at most kUnderWayMax operations are in progress, so that a number never means two of them.
// Entries are in the order of sending, which is the order of numbers: finding one costs a subtraction.
//
// Packets' timers are not here: the send window has a time per packet (bitmap/send_window.h). A packet missing at its
// deadline becomes a retransmission entry there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/ring.h"

namespace brdma::registry {

inline constexpr std::size_t kUnderWayMax = 128;

struct SentOperation {
  std::uint64_t first = 0;  // sequence of its start of operation
  std::uint8_t number = 0;
  bool last = false;  // of its command: without the status flag
  std::uint16_t packets = 0;
  std::uint16_t arrived = 0;
  bool started_late = false;  // its start has arrived, and not at the first attempt

  [[nodiscard]] std::uint64_t end() const { return first + packets; }
  [[nodiscard]] bool complete() const { return arrived == packets; }
};

class OperationTable {
 public:
  [[nodiscard]] bool full() const { return operations_.size() >= kUnderWayMax; }
  [[nodiscard]] std::size_t size() const { return operations_.size(); }
  [[nodiscard]] std::size_t allocated_bytes() const { return operations_.allocated_bytes(); }
  [[nodiscard]] const SentOperation& operator[](std::size_t i) const { return operations_[i]; }
  [[nodiscard]] std::uint8_t next_number() const { return next_; }

  // The first packet of a segment leaves. Precondition: not full(). Returns its number.
  std::uint8_t open(std::uint64_t first, std::uint32_t packets, bool last);
  // The operation of that number, if it is in progress.
  [[nodiscard]] std::optional<SentOperation> find(std::uint8_t number) const;
  // A packet of it has arrived; true: the last one missing. / Takes an arrival back.
  bool arrived(std::uint8_t number);
  void not_arrived(std::uint8_t number);
  void note_started_late(std::uint8_t number);
  // Calls use(operation) for those that have been noted since the last call.
  template <class Use>
  void take_started_late(const Use& use) {
    if (!std::exchange(any_started_late_, false)) return;
    for (std::size_t i = 0; i < operations_.size(); ++i) {
      if (std::exchange(operations_[i].started_late, false)) use(std::as_const(operations_[i]));
    }
  }
  // All packets before `base` are done: forgets the operations that end there; returns how many.
  std::size_t retire_before(std::uint64_t base);
  // Forgets all. Numbers go on, unless the connection restarts.
  void clear() { operations_.clear(); }
  void restart();

 private:
  [[nodiscard]] SentOperation* at(std::uint8_t number);

  Ring<SentOperation> operations_;
  std::uint8_t next_ = 0;
  bool any_started_late_ = false;
};

}  // namespace brdma::registry
