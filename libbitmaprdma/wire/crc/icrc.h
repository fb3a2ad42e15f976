// wire/crc/icrc.h - the invariant CRC of a RoCEv2 packet (IBTA annex A17.3; docs/reference/wire.md#icrc).
// CRC-32 (zlib's polynomial) over 8 bytes 0xff, the IP and UDP headers as the network sees them with the mutable fields
// masked, BTH with its FECN/BECN byte masked, and the rest up to the pad. Stored little endian.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/bytes.h"
#include "base/ip_address.h"

namespace brdma::wire {

// The inputs of the ICRC that are not in the UDP payload.
struct IcrcPath {
  IpAddress source;
  IpAddress destination;
  std::uint16_t source_port = 0;
  std::uint16_t destination_port = 4791;
  std::uint16_t ip_id = 0;  // IPv4 only
};

// The part of the ICRC before BTH, for all packets of one flow. The CRC over it is computed once; size and
// identification of a packet are added by table look-ups (CRC is linear). It does not store its addresses: a queue pair
// with one peer keeps one and replaces it when the peer changes.
class IcrcFlow {
 public:
  IcrcFlow() = default;
  explicit IcrcFlow(const IcrcPath& path);  // ip_id is not looked at
  [[nodiscard]] bool has_ports(std::uint16_t source, std::uint16_t destination) const {
    return source == source_port_ && destination == destination_port_;
  }
  [[nodiscard]] bool has_ports_of(const IcrcPath& path) const {
    return has_ports(path.source_port, path.destination_port);
  }
  [[nodiscard]] std::uint16_t source_port() const { return source_port_; }
  // The CRC over everything before BTH. `udp_payload_size` counts BTH up to and including the ICRC.
  [[nodiscard]] std::uint32_t before_bth(std::size_t udp_payload_size, std::uint16_t ip_id) const;
  // With identification 0; the caller may keep it while packets have the same size.
  [[nodiscard]] std::uint32_t before_bth(std::size_t udp_payload_size) const;

 private:
  std::uint32_t without_sizes_ = 0;
  std::uint16_t source_port_ = 0, destination_port_ = 0;
  bool v4_ = false;
};

// One that stores its addresses: for packets of many peers.
class AddressedIcrcFlow : public IcrcFlow {
 public:
  AddressedIcrcFlow() = default;
  explicit AddressedIcrcFlow(const IcrcPath& path)
      : IcrcFlow(path), source_(path.source), destination_(path.destination) {}
  [[nodiscard]] bool is(const IcrcPath& path) const {
    return has_ports_of(path) && path.source == source_ && path.destination == destination_;
  }

 private:
  IpAddress source_, destination_;
};

// A CRC in progress: update() over payload pieces and the pad in order, then finish().
class Icrc {
 public:
  // `udp_payload_size` counts BTH up to and including the ICRC. `headers`: BTH and what follows it up to the payload.
  Icrc(const IcrcPath& path, std::size_t udp_payload_size, ConstBytes headers);
  // The same for a known flow. The headers are masked in place during the call and restored after it.
  Icrc(const IcrcFlow& flow, std::uint16_t ip_id, std::size_t udp_payload_size, MutableBytes headers);
  void update(ConstBytes bytes);
  [[nodiscard]] std::uint32_t finish() const { return state_; }  // store with store_le32 at the packet's end

 private:
  std::uint32_t state_;
};

// Continues from the result of finish() over more of the packet.
[[nodiscard]] std::uint32_t extend_icrc(std::uint32_t running, const std::byte* data, std::size_t bytes);

// Of a packet whose headers and payload are in separate memory, the payload without pad. `before_bth` as from IcrcFlow,
// the headers as for Icrc.
[[nodiscard]] std::uint32_t icrc_of_pieces(std::uint32_t before_bth, MutableBytes headers, ConstBytes payload);

// ICRC of a whole UDP payload (at least BTH and ICRC), its last four bytes excluded; and the one it carries.
[[nodiscard]] std::uint32_t packet_icrc(const IcrcPath& path, ConstBytes udp_payload);
[[nodiscard]] std::uint32_t packet_icrc(const IcrcFlow& flow, std::uint16_t ip_id, ConstBytes udp_payload);
[[nodiscard]] std::uint32_t stored_icrc(ConstBytes udp_payload);
// True if the two are equal, with identification 0.
[[nodiscard]] bool icrc_holds(const IcrcFlow& flow, ConstBytes udp_payload);

// The change of a packet's ICRC when some of its bytes change: xor this to it. `difference`: old xor new, of bytes that
// the ICRC covers unmasked; `bytes_behind`: covered bytes after them, the pad included. The packet is not read.
[[nodiscard]] std::uint32_t icrc_change(ConstBytes difference, std::size_t bytes_behind);

// For standard packets over IPv4 through a UDP socket: the identification is unknown, and the ICRC covers it. CRC is
// linear, so some identification must explain the difference to the ICRC for identification 0 at this length. Keeps a
// basis per length (bounded number). Not thread-safe: one per engine.
class IdentificationSolver {
 public:
  IdentificationSolver();
  ~IdentificationSolver();
  IdentificationSolver(const IdentificationSolver&) = delete;
  IdentificationSolver& operator=(const IdentificationSolver&) = delete;
  // `icrc_difference`: the stored ICRC xor the one computed for identification 0. True: `ip_id` is the only
  // identification that makes the packet's ICRC right. False: there is none, the packet is damaged.
  [[nodiscard]] bool solve(std::uint32_t icrc_difference, std::size_t udp_payload_size, std::uint16_t& ip_id);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace brdma::wire
