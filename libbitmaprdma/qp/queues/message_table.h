// qp/queues/message_table.h - the messages that a requester has begun and not done, in PSN order. A message is one on
// the wire: a WRITE, SEND, atomic or FLUSH is one; a READ is cut into chunks, each a READ request and so a message of
// its own. Each packet of a WRITE or SEND by reference (docs/explanation/local.md) is a message here. PSNs are extended
// to 64-bit sequence numbers (the QP's first PSN is 0), so that they are totally ordered.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/ring.h"

namespace brdma::qp {

using Sequence = std::uint64_t;

enum class MessageKind : std::uint8_t { kSend, kWrite, kRead, kAtomic, kConfirmed };  // last: ATOMIC WRITE, FLUSH
// Done when its own response is here, not when it is acknowledged.
[[nodiscard]] constexpr bool is_answered(MessageKind kind) { return kind >= MessageKind::kRead; }

struct Message {
  Sequence first = 0;
  std::uint64_t wqe = 0;      // its work request's number
  std::uint32_t packets = 0;  // PSNs it occupies; a READ's: one per response
  std::uint32_t offset = 0;   // of a READ chunk, or of data by reference, in its work request
  std::uint32_t length = 0;   // payload bytes
  std::uint32_t by_reference =
      0;  // bytes of data that one packet (a READ's: the response) references; 0: it has the data
  std::uint32_t msn = 0, rsn = 0;
  MessageKind kind = MessageKind::kSend;
  std::uint8_t segment_packets = 0;  // of a large command: packets of each of its segments; 0: it is none
  std::uint8_t first_operation = 0;  // its first segment's number
  bool last_of_wqe = true;
  bool request_received = false;   // answered: the peer has the request, only responses are missing
  bool copied = false;             // READ: its request has left a second time, unasked (request_copies.h)
  bool reported_dropped = false;   // READ: a switch reported a dropped request of it; another may have arrived
  bool in_flight_counted = false;  // answered: its request counts against the peer's credit

  [[nodiscard]] Sequence end() const { return first + packets; }
  [[nodiscard]] bool answered() const { return is_answered(kind); }
  // Payload bytes of its packets before `sequence`, which is one of them or end().
  [[nodiscard]] std::uint64_t payload_before(Sequence sequence, std::uint32_t mtu) const {
    return sequence == end() ? length : (sequence - first) * mtu;
  }
  // Payload bytes of the packet (or response) at `sequence`.
  [[nodiscard]] std::uint32_t payload_at(Sequence sequence, std::uint32_t mtu) const {
    return sequence + 1 == end() ? length - (packets - 1) * mtu : mtu;
  }
};

class MessageTable {
 public:
  [[nodiscard]] bool empty() const { return messages_.empty(); }
  [[nodiscard]] std::size_t size() const { return messages_.size(); }
  [[nodiscard]] std::size_t allocated_bytes() const { return messages_.allocated_bytes(); }
  [[nodiscard]] Message& operator[](std::size_t i) { return messages_[i]; }
  [[nodiscard]] const Message& operator[](std::size_t i) const { return messages_[i]; }
  [[nodiscard]] Message& front() { return messages_.front(); }
  [[nodiscard]] Message& back() { return messages_.back(); }
  Message& push_back(const Message& message) { return messages_.push_back(message); }
  void fetch_slot() const { messages_.fetch_slot(); }  // prefetches the next slot
  void pop_front() { messages_.pop_front(); }
  void clear() { messages_.clear(); }

  // Index of the message that `sequence` is part of. Precondition: front().first <= sequence < back().end().
  [[nodiscard]] std::size_t find(Sequence sequence) const {
    std::size_t low = 0, high = messages_.size();
    while (high - low > 1) {
      const std::size_t middle = (low + high) / 2;
      (messages_[middle].first <= sequence ? low : high) = middle;
    }
    return low;
  }
  // That message. Precondition: the same.
  [[nodiscard]] Message& of(Sequence sequence) { return messages_[find(sequence)]; }
  [[nodiscard]] const Message& of(Sequence sequence) const { return messages_[find(sequence)]; }
  // All of them have left: the next packet, `next`, is of a message that has not begun.
  [[nodiscard]] bool all_left(Sequence next) const {
    return messages_.empty() || messages_[messages_.size() - 1].end() == next;
  }

 private:
  Ring<Message> messages_;
};

}  // namespace brdma::qp
