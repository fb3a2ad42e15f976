// io/shard/outlet.h - a shard's transmit side: its UDP sockets, one a path, and AF_XDP where brdmad allowed it.
//
// AF_XDP sends all batches, or single small ones of bitmap mode only (docs/explanation/datapath.md): it has no batches,
// and packets of one queue pair over both sockets may overtake each other. UDP sends what AF_XDP cannot, and that is
// counted. One thread at a time.
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
  bool all = false;              // else single small ones
  bool ids_count = true;         // EngineConfig::ip_id_counts_in_batch
  std::uint64_t unresolved = 0;  // packets for it that left by UDP, because the next hop of their peer was not known
};

class Outlet {
 public:
  // `why_udp`: for people, where there is no AF_XDP.
  Outlet(std::vector<TransmitSocket> sockets, std::optional<XdpOutlet> xdp = std::nullopt, std::string why_udp = {})
      : sockets_(std::move(sockets)), xdp_(std::move(xdp)), why_udp_(std::move(why_udp)) {}

  // Never blocks. Where the report says `blocked`, call again with the same batch, or give_up().
  [[nodiscard]] SendReport send(const Transmit& transmit) {
    if (!xdp_) [[likely]]
      return sockets_[transmit.path].send(transmit);
    return send_with_xdp(transmit);
  }
  // Number of its packets that had not left.
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

  // If not all goes by AF_XDP: a packet up to this size costs less to copy than UDP's overhead.
  static constexpr std::uint32_t kSmallBytesMax = 1024;

 private:
  [[nodiscard]] bool goes_by_xdp(const Transmit& transmit) const {
    return xdp_->all || (transmit.segments == 1 && transmit.bytes <= kSmallBytesMax && !transmit.standard);
  }
  // By AF_XDP or UDP.
  [[nodiscard]] SendReport send_with_xdp(const Transmit& transmit);
  // False: send it by UDP. The report may have refused packets all the same.
  [[nodiscard]] bool send_by_xdp(const Transmit& transmit, SendReport& report);

  std::vector<TransmitSocket> sockets_;
  std::optional<XdpOutlet> xdp_;
  std::string why_udp_;
  bool waits_ = false;  // the waiting batch waits for AF_XDP
};

}  // namespace brdma::io
