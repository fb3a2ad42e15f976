// qp/unreliable/unreliable_receive.h - the receiving half of a UC or UD queue pair. Sends no responses and no
// retransmission requests.
//
// UD (receive_datagram.cc): each packet is a message. It takes the oldest receive, whose first 40 bytes hold the
// packet's IP header (GRH area). Order is that of the network; a copy made by the network is one more message. UC
// (receive_connected.cc; IBTA 9.8.2): packets come in PSN order, or their message is dropped whole: the next First or
// Only restarts. A packet behind the expected PSN by less than kLateMax is late or a duplicate and is dropped, so that
// no message is taken twice or out of order. A WRITE that is cut short has written its first part. Every other packet
// is a counted drop; nothing that a peer sends changes the queue pair's state.
#pragma once

#include <cstdint>

#include "base/datagram.h"
#include "bitmaprdma/types.h"
#include "qp/queues/receive_queue.h"
#include "qp/state/environment.h"
#include "qp/state/identity.h"
#include "wire/packet.h"

namespace brdma::qp {

class UnreliableReceiver {
 public:
  UnreliableReceiver(Environment& environment, const Identity& identity);
  ~UnreliableReceiver();
  UnreliableReceiver(const UnreliableReceiver&) = delete;
  UnreliableReceiver& operator=(const UnreliableReceiver&) = delete;

  Status post(const ReceiveRequest& request) { return receives_.post(request); }  // EINVAL, ENOMEM
  void start(Psn first);                                                          // INIT -> RTR
  void reset();
  void flush(Instant now);  // receives complete as kFlushed
  // `datagram`: of the packet.
  Outcome handle(const wire::Packet& packet, const Datagram& datagram, Instant now);
  [[nodiscard]] Psn next_psn() const { return expected_; }
  [[nodiscard]] std::size_t receives() const { return receives_.size(); }
  [[nodiscard]] std::size_t allocated_bytes() const { return receives_.allocated_bytes(); }

 private:
  // A UC message whose first packets are here.
  struct Message {
    enum class Kind : std::uint8_t { kNone, kSend, kWrite };
    Kind kind = Kind::kNone;
    std::uint64_t bytes = 0;
    wire::Reth reth;
  };
  static constexpr std::int32_t kLateMax = 65536;

  // --- receive_datagram.cc ---
  Outcome take_datagram(const wire::Packet& packet, const Datagram& datagram, Instant now);
  // --- receive_connected.cc ---
  Outcome take_connected(const wire::Packet& packet, Instant now);
  [[nodiscard]] bool admits(const wire::Packet& packet);
  Outcome take_send(const wire::Packet& packet, Instant now);
  Outcome take_write(const wire::Packet& packet, Instant now);
  [[nodiscard]] bool write_part(ConstBytes payload) const;
  void abandon();
  Outcome refuse(const wire::Packet& packet, DropReason reason);
  // --- unreliable_receive.cc ---
  // Completes the oldest receive; `completion` has its length, its sender and, on failure, the status.
  Outcome complete(const wire::Packet& packet, Completion completion, Instant now);

  Environment& env_;
  const Identity& id_;
  ReceiveQueue receives_;
  Message message_;
  Psn expected_;
  bool skipping_ = false;  // a message was dropped, and its rest may still come
};

}  // namespace brdma::qp
