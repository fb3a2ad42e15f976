// io/shard/outlet.h - where a shard's packets leave: its UDP sockets, one a path, and AF_XDP where brdmad let it
// transmit so.
//
// By AF_XDP go all batches, or single small ones of bitmap mode only (docs/datapath.md): AF_XDP has no batches, and
// where one queue pair's packets go both ways they may overtake each other. What AF_XDP cannot send leaves by UDP, and
// is counted. One thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "io/netdev/neighbours.h"
#include "io/shard/clock.h"
#include "io/udp/transmit_socket.h"
#include "io/xdp/xdp_transmit.h"

namespace brdma::io {

struct XdpOutlet {
  XdpTransmit transmit;
  Neighbours neighbours;
  bool all = false;       // else single small ones
  bool ids_count = true;  // EngineConfig::ip_id_counts_in_batch
  // Packets that left by it; and that were to and left by UDP, because the way to their peer was not known.
  std::uint64_t sent = 0, unresolved = 0;
};

class Outlet {
 public:
  // `why_udp`: for people, where there is no AF_XDP.
  Outlet(std::vector<TransmitSocket> sockets, std::optional<XdpOutlet> xdp = std::nullopt, std::string why_udp = {})
      : sockets_(std::move(sockets)), xdp_(std::move(xdp)), why_udp_(std::move(why_udp)) {}

  // Never blocks. Where the report says `blocked` it is called again with the same batch, or give_up().
  [[nodiscard]] SendReport send(const Transmit& transmit) {
    SendReport report;
    if (xdp_ && (waits_ || goes_by_xdp(transmit)) && send_by_xdp(transmit, report)) return report;
    return sockets_[transmit.path].send(transmit);
  }
  // How many of its packets had not left.
  [[nodiscard]] std::uint32_t give_up(const Transmit& transmit) {
    if (std::exchange(waits_, false)) return xdp_->transmit.give_up(transmit);
    return sockets_[transmit.path].give_up(transmit);
  }
  // Becomes writable when that blocked batch may be sent again.
  [[nodiscard]] int blocked_fd(const Transmit& transmit) const {
    return waits_ ? xdp_->transmit.fd() : sockets_[transmit.path].blocked_fd();
  }

  // Null: all leaves by UDP.
  [[nodiscard]] const XdpOutlet* xdp() const { return xdp_ ? &*xdp_ : nullptr; }
  [[nodiscard]] const std::string& why_udp() const { return why_udp_; }

  // Of what goes by AF_XDP where not all does: a packet whose copies cost less than what UDP's way costs more.
  static constexpr std::uint32_t kSmallBytesMax = 1024;

 private:
  [[nodiscard]] bool goes_by_xdp(const Transmit& transmit) const {
    return xdp_->all || (transmit.segments == 1 && transmit.bytes <= kSmallBytesMax && !transmit.standard);
  }
  // False: it is to leave by UDP.
  [[nodiscard]] bool send_by_xdp(const Transmit& transmit, SendReport& report);

  std::vector<TransmitSocket> sockets_;
  std::optional<XdpOutlet> xdp_;
  std::string why_udp_;
  bool waits_ = false;  // the batch that waits, waits for AF_XDP
};

}  // namespace brdma::io
