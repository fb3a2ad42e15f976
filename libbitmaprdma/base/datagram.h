// base/datagram.h - the engine's boundary: received bytes in, batches to send out.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "base/ip_address.h"
#include "base/units.h"

namespace brdma {

inline constexpr std::uint16_t kRoceUdpPort = 4791;

// One received UDP datagram. `bytes` (the UDP payload: BTH .. ICRC) need only live during the call.
struct Datagram {
  IpAddress source;
  IpAddress destination;
  std::uint16_t source_port = 0;
  std::uint8_t traffic_class = 0;  // low two bits: ECN
  bool ip_id_known = false;        // AF_XDP, simulator: identification was seen
  std::uint16_t ip_id = 0;
  Duration waited{};  // time in this host before it is handed over; 0: unknown
  ConstBytes bytes;
};

// struct iovec's layout (io asserts it): poll_transmit's slices go to sendmsg as they are.
struct Slice {
  const void* data = nullptr;
  std::size_t size = 0;
};

inline constexpr std::size_t kSegmentsMax = 64;
inline constexpr std::size_t kHeaderBytesMax = 104;  // headers plus pad and ICRC of one packet
// A payload of at most this size is copied behind its headers: cheaper than two more slices, and one ICRC over all.
inline constexpr std::size_t kCopiedBytesMax = 256;
inline constexpr std::size_t kSlicesMax = 1024;  // IOV_MAX

// Scratch that the caller owns and passes to poll_transmit; its contents are valid until the next call with it.
struct TransmitBuffer {
  alignas(64) std::array<std::byte, kSegmentsMax*(kHeaderBytesMax + kCopiedBytesMax) + 1024> headers;  // + one control
                                                                                                       // packet
  std::array<Slice, kSlicesMax> slices;
};

// A batch: `segments` packets of `segment_bytes` each (the last may be shorter) to one peer, concatenated in `slices`.
struct Transmit {
  IpAddress source;
  IpAddress destination;
  std::uint8_t path = 0;  // index into EngineConfig::source_ports
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 64;
  bool standard = false;  // IPv4: must leave with identification 0 (then counting up within the batch) and DF
  std::uint16_t segments = 0;
  std::uint16_t segment_bytes = 0;
  std::uint32_t bytes = 0;
  std::span<const Slice> slices;
  bool more = true;  // false: poll_transmit() would have nothing until the next event or deadline
};

}  // namespace brdma
