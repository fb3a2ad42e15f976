// wire/cm/mad.h - management datagrams (IBTA 13.4): 256 bytes that travel as UD SENDs from QP 1 to QP 1.
//   packet:  BTH (opcode 0x64) | DETH | MAD | ICRC           280 bytes of UDP payload, never padded
//   MAD:     0 base version | 1 class | 2 class version | 3 response, method | 4 status | 6 class specific |
//            8 transaction | 16 attribute | 18 reserved | 20 attribute modifier | 24 232 bytes of data
// Decoders return nothing for bytes that cannot be meant for us; encoders write every byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/bytes.h"
#include "base/psn.h"
#include "wire/headers.h"

namespace brdma::wire {

inline constexpr std::size_t kMadSize = 256, kMadHeaderSize = 24, kMadDataSize = kMadSize - kMadHeaderSize;
inline constexpr std::size_t kGsiPacketSize = kBthSize + kDethSize + kMadSize + kIcrcSize;
inline constexpr std::uint8_t kUdSendOnly = 0x64;
inline constexpr std::uint32_t kGsiQpn = 1, kGsiQkey = 0x8001'0000;  // the general services interface (IBTA 3.5.3.2)

using MadBytes = std::span<const std::byte, kMadSize>;
using MadBuffer = std::span<std::byte, kMadSize>;

struct MadHeader {
  std::uint8_t management_class = 0;
  std::uint8_t class_version = 0;
  std::uint8_t method = 0;
  std::uint16_t status = 0;
  std::uint64_t transaction = 0;
  std::uint16_t attribute = 0;
  std::uint32_t attribute_modifier = 0;
};
// Empty: base version other than 1.
[[nodiscard]] std::optional<MadHeader> parse_mad_header(MadBytes mad);
void emit_mad_header(const MadHeader& header, std::byte* out);

// The MAD in a UDP payload for QP 1: a single UD SEND of the right size, Q_Key and partition. The source QPN is not
// checked (nor by a kernel peer), nor the ICRC, which needs addresses (wire/crc/icrc.h).
[[nodiscard]] std::optional<MadBytes> parse_gsi_packet(ConstBytes udp_payload);
// Everything but the ICRC, which is left zero.
void emit_gsi_packet(MadBytes mad, Psn psn, std::span<std::byte, kGsiPacketSize> out);

}  // namespace brdma::wire
