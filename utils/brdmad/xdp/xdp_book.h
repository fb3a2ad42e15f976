// brdmad/xdp/xdp_book.h - the steering to AF_XDP sockets (xdp_steering.h) of each interface where a lease has one. Its
// descriptors keep it alive, because finding it by number takes the right to administer the whole system. The holder
// (handover.h) and the vault (vault.h) keep them until the last lease with such a socket has ended.
#pragma once

#include <cstdint>
#include <map>

#include "lease/shared_state.h"
#include "xdp/xdp_steering.h"

namespace brdma::daemon {

class XdpBook {
 public:
  explicit XdpBook(int channel) : channel_(channel) {}  // to the holder
  // Takes over the holder's steerings of an earlier worker or daemon.
  void adopt(KeptSteerings& kept) { all_ = std::move(kept); }

  // None if the interface has no program of ours any more.
  [[nodiscard]] const XdpSteering* find(std::uint32_t ifindex) const;
  // The number of the last program that was released; 0: none. The kernel or the holder may still have it.
  [[nodiscard]] std::uint32_t leaving(std::uint32_t ifindex) const;
  // Replaces the steering kept for that interface. False: the holder is gone.
  [[nodiscard]] bool keep(std::uint32_t ifindex, XdpSteering steering);
  // A lease uses it from now on.
  void begin_use(std::uint32_t ifindex) { all_.at(ifindex).orphaned = false; }
  // Releases steerings that no lease uses, except orphans. True: there were some.
  bool forget_unused(const SharedState& state);
  // Writes the owners of further slots into the programs. After a failure, which is logged, their packets may come by
  // UDP.
  void steer_extra(const SharedState& state) const;

  [[nodiscard]] const KeptSteerings& all() const { return all_; }

 private:
  int channel_;
  KeptSteerings all_;
  std::map<std::uint32_t, std::uint32_t> leaving_;  // by interface
};

}  // namespace brdma::daemon
