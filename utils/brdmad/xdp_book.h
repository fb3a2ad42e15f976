// brdmad/xdp_book.h - the steering to AF_XDP sockets (xdp_steering.h) of each interface where a lease has one. It is
// kept by its descriptors, because finding it again by its number takes the right to administer the whole system: by
// the holder (handover.h) and in the vault (vault.h), until the last lease with such a socket has ended.
#pragma once

#include <cstdint>
#include <map>

#include "shared_state.h"
#include "xdp_steering.h"

namespace brdma::daemon {

class XdpBook {
 public:
  explicit XdpBook(int channel) : channel_(channel) {}  // to the holder
  // What that has of a worker, or a daemon, before.
  void adopt(KeptSteerings& kept) { all_ = std::move(kept); }

  // None where the interface has no program of ours any more.
  [[nodiscard]] const XdpSteering* find(std::uint32_t ifindex) const;
  // The number of the program that was last let go of; 0: none. The kernel may not be done with it, nor the holder.
  [[nodiscard]] std::uint32_t leaving(std::uint32_t ifindex) const;
  // In place of what was kept for that interface. False: the holder is gone.
  [[nodiscard]] bool keep(std::uint32_t ifindex, XdpSteering steering);
  // It is a lease's from now on.
  void begin_use(std::uint32_t ifindex) { all_.at(ifindex).orphaned = false; }
  // Lets go of what no lease uses, but for orphans. True: there was something.
  bool forget_unused(const SharedState& state);
  // Sets in the programs who has which further slots. After a failure, which is logged, packets to them may come by
  // UDP.
  void steer_extra(const SharedState& state) const;

  [[nodiscard]] const KeptSteerings& all() const { return all_; }

 private:
  int channel_;
  KeptSteerings all_;
  std::map<std::uint32_t, std::uint32_t> leaving_;  // by interface
};

}  // namespace brdma::daemon
