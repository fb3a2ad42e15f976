// tests/attacks/peer_socket.h - the hostile host's UDP port: no brdmad, no steering, packets as given.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/ip_address.h"
#include "io/system/file_descriptor.h"
#include "mutate.h"

namespace brdma::attacks {

class PeerSocket {
 public:
  static constexpr std::uint16_t kSourcePort = 0xC000;

  PeerSocket(const std::string& own, const std::string& victim);  // throws std::runtime_error

  [[nodiscard]] IpAddress own() const { return own_; }
  [[nodiscard]] IpAddress victim() const { return victim_; }
  // Computes the packet's ICRC, with identification 0, which the system sends.
  void sign(PacketBytes& packet) const;
  void send(const PacketBytes& packet);
  // From the victim's host only. False: nothing there. `source_port`: the sender's.
  [[nodiscard]] bool receive(PacketBytes& packet, std::uint16_t& source_port);
  void wait(int milliseconds) const;

 private:
  IpAddress own_, victim_;
  io::FileDescriptor receiver_, sender_;
};

}  // namespace brdma::attacks
