// wire/opcode.h - BTH opcodes (IBTA 9.2.1 and table 38) and ours in the manufacturer-specific space (docs/wire.md).
#pragma once

#include <cstdint>

namespace brdma::wire {

// Low five bits of an RC opcode; bits 7..5 name the transport (000 RC, 001 UC, 011 UD, 110 bitmap mode of RC).
enum class RcOp : std::uint8_t {
  kSendFirst = 0x00,
  kSendMiddle = 0x01,
  kSendLast = 0x02,
  kSendLastImm = 0x03,
  kSendOnly = 0x04,
  kSendOnlyImm = 0x05,
  kWriteFirst = 0x06,
  kWriteMiddle = 0x07,
  kWriteLast = 0x08,
  kWriteLastImm = 0x09,
  kWriteOnly = 0x0A,
  kWriteOnlyImm = 0x0B,
  kReadRequest = 0x0C,
  kReadResponseFirst = 0x0D,
  kReadResponseMiddle = 0x0E,
  kReadResponseLast = 0x0F,
  kReadResponseOnly = 0x10,
  kAcknowledge = 0x11,
  kAtomicAcknowledge = 0x12,
  kCompareSwap = 0x13,
  kFetchAdd = 0x14,
  kSendLastInvalidate = 0x16,
  kSendOnlyInvalidate = 0x17,
};

enum class Control : std::uint8_t { kCaps = 0xE0, kBitmapAck = 0xE1, kFfm = 0xE2 };

inline constexpr std::uint8_t kTransportMask = 0xE0, kTransportRc = 0x00, kTransportUc = 0x20, kTransportUd = 0x60,
                              kTransportBitmap = 0xC0, kTransportControl = 0xE0;

}  // namespace brdma::wire
