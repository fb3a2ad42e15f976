// io/xdp/xdp_socket.h - the receiving side of an AF_XDP socket from brdmad (io/xdp/xdp_protocol.h).
//
// A packet is in a chunk of shared memory, or in several if it is longer; then it is assembled in a buffer. No system
// call while packets come. `bytes` of a message live until the next receive(), which returns their chunks to the
// kernel. Owns the socket, its memory and the link. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "base/result.h"
#include "bitmaprdma/context.h"
#include "io/system/file_descriptor.h"
#include "io/system/mapping.h"
#include "io/udp/receive_socket.h"
#include "io/xdp/fill_ring.h"
#include "io/xdp/xdp_protocol.h"
#include "io/xdp/xdp_rings.h"

namespace brdma::io {

struct XdpDescriptors {
  FileDescriptor socket, memory, link;
};

class XdpSocket {
 public:
  // `reply` is that of an answered request.
  static Result<XdpSocket, ContextError> open(XdpDescriptors descriptors, const XdpReply& reply);

  // Never blocks. False: nothing there.
  [[nodiscard]] bool receive(ReceivedMessage& out);

  [[nodiscard]] int fd() const { return descriptors_.socket.get(); }
  [[nodiscard]] XdpMode mode() const { return mode_; }
  [[nodiscard]] std::uint32_t queue() const { return queue_; }
  // Capacity of the chunks: the argument of xdp_receive_budget().
  [[nodiscard]] std::uint32_t receive_chunks() const { return receive_.size(); }
  // Packets dropped for lack of a chunk or a ring entry since the last call. A system call.
  [[nodiscard]] std::uint64_t take_drops();
  // Received frames that are no RoCE packets, since the last call.
  [[nodiscard]] std::uint64_t take_unreadable() { return std::exchange(unreadable_, 0); }

 private:
  XdpSocket(XdpDescriptors descriptors, const XdpReply& reply);
  [[nodiscard]] bool map_all(const XdpReply& reply);
  void publish_given();
  [[nodiscard]] std::optional<ConstBytes> next_frame();
  [[nodiscard]] ConstBytes join(std::uint32_t first, std::uint32_t last);

  static constexpr std::size_t kFrameBytesMax = 64 * 1024;
  // Number of chunks returned at a time: each return writes a cache line that the kernel reads.
  static constexpr std::uint32_t kGiveBackAt = 32;

  XdpDescriptors descriptors_;
  XdpMode mode_;
  std::uint32_t queue_;
  Mapping memory_, receive_mapping_;
  FillRing fill_;
  XdpRing<xdp_desc> receive_;
  std::uint32_t position_ = 0;         // of the next descriptor to read
  std::uint32_t produced_ = 0;         // descriptors up to here are available
  std::uint64_t offset_in_chunk_ = 0;  // of the last frame
  std::optional<std::uint64_t> lent_;  // the chunk of the last message
  std::unique_ptr<std::byte[]> joined_;
  std::uint64_t drops_seen_ = 0, unreadable_ = 0;
};

}  // namespace brdma::io
