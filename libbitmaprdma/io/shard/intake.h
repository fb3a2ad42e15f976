// io/shard/intake.h - a shard's receive side: its leased UDP socket, and an AF_XDP socket where it has one.
//
// With both, nearly all packets come by AF_XDP, and a check of UDP costs a system call. So UDP is checked less and less
// often while it is empty, and each time while it has packets: batches that a sender on this machine did not split (the
// generic hook), fragments, packets of another queue of the interface. One thread at a time.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "io/udp/receive_budget.h"
#include "io/udp/receive_socket.h"
#include "io/xdp/xdp_socket.h"

namespace brdma::io {

class Intake {
 public:
  // `why_udp`: for people, where there is no AF_XDP socket.
  explicit Intake(ReceiveSocket udp, std::optional<XdpSocket> xdp = std::nullopt, std::string why_udp = {})
      : udp_(std::move(udp)), xdp_(std::move(xdp)), why_udp_(std::move(why_udp)) {}

  // Never blocks. False: nothing found.
  [[nodiscard]] bool receive(ReceivedMessage& out) {
    if (!xdp_) return udp_.receive(out);
    if (xdp_->receive(out)) return true;
    if (++skipped_ < udp_interval_) return false;
    skipped_ = 0;
    const bool found = udp_.receive(out);
    udp_interval_ = found ? 1 : std::min(udp_interval_ * 2, kUdpIntervalMax);
    return found;
  }

  // The same; `last`: nothing is behind it, as ReceiveSocket::receive_and_look(). By AF_XDP that is not known.
  [[nodiscard]] bool receive_and_look(ReceivedMessage& out, bool& last) {
    if (!xdp_) return udp_.receive_and_look(out, last);
    last = false;
    return receive(out);
  }
  [[nodiscard]] bool has_next() const { return udp_.has_next(); }

  // Messages of one round, and after how many of them output is sent: AF_XDP brings packets singly.
  [[nodiscard]] unsigned burst() const { return xdp_ ? 64 : 16; }
  [[nodiscard]] unsigned messages_per_drain() const { return xdp_ ? 16 : 4; }

  // Maximum of checks in an empty poll: some 6 us by UDP, where a check is a system call.
  [[nodiscard]] unsigned looks_max() const { return xdp_ ? 32 : 16; }

  // Packets lost for lack of room, as far as known, since the last call.
  [[nodiscard]] std::uint64_t take_overflow() {
    std::uint64_t lost = udp_.take_overflow();
    if (xdp_ && ++messages_since_drops_ >= kMessagesPerDropCheck) lost += take_drops();
    return lost;
  }
  // Likewise, asking the kernel: before a pause.
  [[nodiscard]] std::uint64_t take_drops() {
    messages_since_drops_ = 0;
    return xdp_ ? xdp_->take_drops() : 0;
  }

  [[nodiscard]] std::uint64_t take_unreadable() { return xdp_ ? xdp_->take_unreadable() : 0; }

  void take_multicast(bool take) const { udp_.take_multicast(take); }
  // Descriptors to wait for; -1: none.
  [[nodiscard]] std::array<int, 2> fds() const { return {udp_.fd(), xdp_ ? xdp_->fd() : -1}; }
  [[nodiscard]] const XdpSocket* xdp() const { return xdp_ ? &*xdp_ : nullptr; }
  [[nodiscard]] const std::string& why_udp() const { return why_udp_; }
  // Amount that peers may have in flight.
  [[nodiscard]] ReceiveBudget budget() const {
    const ReceiveBudget udp = receive_budget(udp_.buffer_bytes());
    if (!xdp_) return udp;
    const ReceiveBudget xdp = xdp_receive_budget(xdp_->receive_chunks());
    return {std::min(udp.packets, xdp.packets), std::min(udp.bytes, xdp.bytes)};
  }

 private:
  static constexpr unsigned kUdpIntervalMax = 64;
  static constexpr unsigned kMessagesPerDropCheck = 1024;

  ReceiveSocket udp_;
  std::optional<XdpSocket> xdp_;
  std::string why_udp_;
  unsigned skipped_ = 0, udp_interval_ = 1;
  unsigned messages_since_drops_ = 0;
};

}  // namespace brdma::io
