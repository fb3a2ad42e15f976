// io/udp/receive_socket.h - the receiving side of a leased socket on UDP port 4791.
//
// One receive() is one recvmsg: a datagram, or with UDP_GRO many datagrams of one flow and one size behind each other
// (the last may be shorter), at most 64 KiB. The caller cuts them at segment_bytes. `bytes` lives until the next call.
// Owns nothing: the lease owns the descriptor. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "base/datagram.h"

namespace brdma::io {

struct ReceiveSocketOptions {
  bool gro = true;
  // If permitted (root), beyond the system's limit; else as much of it as the limit allows.
  int buffer_bytes = 32 << 20;
};

struct ReceivedMessage {
  Datagram datagram;  // everything but `bytes`
  ConstBytes bytes;
  std::size_t segment_bytes = 0;  // > 0; the whole size where nothing was merged
  bool by_xdp = false;
  std::uint32_t scope = 0;  // the interface that it came by, if sent to a link-local address
  // Arrival time, CLOCK_REALTIME in ns; 0: unknown. For packets that arrive before the kernel begins to stamp for the
  // machine's first such socket (a work item), the time of reading.
  std::int64_t stamp = 0;
};

class ReceiveSocket {
 public:
  // `dual_stack`: AF_INET6 taking IPv4 too; else AF_INET.
  ReceiveSocket(int fd, bool dual_stack, const ReceiveSocketOptions& options = {});
  ~ReceiveSocket();
  ReceiveSocket(ReceiveSocket&& other) noexcept;

  // Never blocks. False: nothing there.
  [[nodiscard]] bool receive(ReceivedMessage& out);
  // The same, and looks behind the message by the same system call. `last`: nothing was there. Else it may have taken
  // the next message, too, of which the kernel reports nothing any more: call until `last`, or while has_next().
  [[nodiscard]] bool receive_and_look(ReceivedMessage& out, bool& last);
  [[nodiscard]] bool has_next() const;

  // True: packets to multicast groups come too; initially false.
  void take_multicast(bool take) const;

  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] bool gro() const { return gro_; }
  // Size granted by the kernel, in its own measure (twice the requested size): the argument of receive_budget().
  [[nodiscard]] std::uint32_t buffer_bytes() const { return buffer_bytes_; }
  // Datagrams dropped at a full buffer since the last call. Known only once a later one came through.
  [[nodiscard]] std::uint32_t take_overflow();

 private:
  static constexpr std::size_t kMessageBytesMax = 64 * 1024;
  struct Slot;
  struct Next;
  void enable_metadata();
  void enlarge_buffer(int wanted);
  void read_message(const Slot& slot, std::size_t size, ReceivedMessage& out);

  int fd_;
  bool dual_stack_;
  bool gro_ = false;
  std::uint32_t buffer_bytes_ = 0;
  std::uint32_t overflow_seen_ = 0;  // the kernel's running count; starts where the previous leaseholder left it
  std::uint32_t overflow_ = 0;
  std::unique_ptr<std::byte[]> buffer_;
  std::unique_ptr<Next> next_;  // made by the first receive_and_look()
};

}  // namespace brdma::io
