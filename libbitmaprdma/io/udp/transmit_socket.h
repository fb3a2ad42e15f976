// io/udp/transmit_socket.h - a sending socket: one UDP source port, so one path of the network, for IPv4 and IPv6
// peers.
//
// A batch leaves as one GSO message where kernel and route support it, else packet by packet; the packets are the same.
// Unconnected and with "don't fragment": then Linux writes identification 0, 1, 2, ... into a batch's IPv4 headers,
// which the ICRC of standard packets covers. One AF_INET6 socket serves both families: a second one for IPv4 would need
// the same port number and be no faster (sending to ::ffff:a.b.c.d was measured equal). Batches of bitmap mode use a
// socket connected to their peer if there is one. It receives nothing: a filter drops all input. One thread at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/datagram.h"
#include "base/result.h"
#include "bitmaprdma/context.h"
#include "io/system/file_descriptor.h"
#include "io/udp/peer_sockets.h"
#include "io/udp/split_batch.h"

namespace brdma::io {

struct TransmitSocketOptions {
  bool gso = true;            // false: never try (tests, or a kernel known to be bad)
  bool connect = true;        // to the peers with most traffic (io/udp/peer_sockets.h)
  std::uint32_t ifindex = 0;  // interface of link-local addresses
  int send_buffer_bytes = 1 << 20;
  std::uint16_t destination_port = kRoceUdpPort;
};

// Result of sending a batch.
struct SendReport {
  std::uint32_t refused = 0;  // packets that the system refused for good: lost, to be counted
  int error = 0;              // why (errno), of the last refused one
  std::uint16_t unsent = 0;   // with a fault: packets that have neither left nor been refused, in this call or earlier
  bool blocked = false;       // no room: call send() again with the same Transmit, its memory unchanged
  bool fault = false;         // its memory is missing (EFAULT): the rest of it does not leave, Engine::withdraw()
  bool unreachable = false;   // the system reported an ICMP error of earlier packets; these left all the same
};
static_assert(sizeof(SendReport) <= 16, "returned in registers");

class TransmitSocket {
 public:
  static Result<TransmitSocket, ContextError> open(const TransmitSocketOptions& options);
  ~TransmitSocket();
  TransmitSocket(TransmitSocket&& other) noexcept;
  TransmitSocket& operator=(TransmitSocket&&) = delete;

  SendReport send(const Transmit& transmit);
  // Instead of resending a blocked batch: returns the number of its packets that had not left.
  [[nodiscard]] std::uint32_t give_up(const Transmit& transmit);

  // For link-local peers: the interface from now on.
  void set_interface(std::uint32_t ifindex) { options_.ifindex = ifindex; }

  [[nodiscard]] int fd() const { return fd_; }
  // Becomes writable when a blocked batch may be sent again.
  [[nodiscard]] int blocked_fd() const { return blocked_fd_ >= 0 ? blocked_fd_ : fd_; }
  [[nodiscard]] std::uint16_t port() const { return port_; }
  [[nodiscard]] std::uint16_t destination_port() const { return options_.destination_port; }
  // False: batches leave packet by packet.
  [[nodiscard]] bool gso() const { return gso_; }
  // Peers that have a connected socket.
  [[nodiscard]] std::size_t connected() const { return peers_ == nullptr ? 0 : peers_->connected(); }

 private:
  struct Address;
  struct Scratch;
  explicit TransmitSocket(const TransmitSocketOptions& options);
  [[nodiscard]] int open_socket();
  void bind_port();
  [[nodiscard]] bool probe_gso();
  [[nodiscard]] SendReport send_whole(const Transmit& transmit, bool& retry_singly);
  [[nodiscard]] SendReport send_unconnected(const Transmit& transmit, bool whole);
  [[nodiscard]] bool send_connected(const Transmit& transmit, SendReport& report);
  void send_singly(const Transmit& transmit, SendReport& report);
  [[nodiscard]] bool correct_icrc(const Transmit& transmit, std::span<iovec> pieces, PacketPieces& packet,
                                  std::byte* copy) const;

  TransmitSocketOptions options_;
  int fd_ = -1;
  int blocked_fd_ = -1;  // the connected socket that had no room
  bool dual_stack_ = true;
  bool gso_ = false;
  std::uint16_t port_ = 0;
  FileDescriptor shield_;             // io/udp/icmp_shield.h
  std::uint32_t packets_done_ = 0;    // of the batch that was blocked half-way
  std::uint32_t gso_refusals_ = 0;    // in a row, of batches whose packets went singly
  std::unique_ptr<Scratch> scratch_;  // for sending singly
  std::unique_ptr<PeerSockets> peers_;
};

}  // namespace brdma::io
