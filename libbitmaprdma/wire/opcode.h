// wire/opcode.h - BTH opcodes (IBTA 9.2.1 and table 38) and ours in the manufacturer-specific space
// (docs/reference/wire.md), and the one table of the headers that follow BTH for each opcode.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "wire/headers.h"

namespace brdma::wire {

// Low five bits of an opcode; bits 7..5 name the transport (000 RC, 001 UC, 011 UD, 101 XRC, 110 bitmap mode of RC). UC
// has the SENDs and WRITEs up to 0x0B, UD the two SENDs Only, XRC all of RC's.
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
  kFlush = 0x1C,        // IBTA 1.5, annex A19
  kAtomicWrite = 0x1D,  // likewise
};

enum class Control : std::uint8_t {
  kCaps = 0xE0,
  kBitmapAck = 0xE1,
  kFfm = 0xE2,
  kEdn = 0xE3,
  kLinkStateInquiry = 0xE4,
  kLinkStateFeedback = 0xE5,
  kStoppedQuery = 0xE6,
  kStoppedReply = 0xE7,
};

inline constexpr std::uint8_t kTransportMask = 0xE0, kTransportRc = 0x00, kTransportUc = 0x20, kTransportUd = 0x60,
                              kTransportXrc = 0xA0, kTransportBitmap = 0xC0, kTransportControl = 0xE0;
// Congestion notification packet (IBTA annex A17, A17.9.3): BTH with BECN, then 16 reserved bytes.
inline constexpr std::uint8_t kCnpOpcode = 0x81;

[[nodiscard]] constexpr std::uint8_t opcode_of(RcOp op, bool bitmap) {
  return static_cast<std::uint8_t>(static_cast<unsigned>(op) | (bitmap ? kTransportBitmap : kTransportRc));
}

// Reports received and missing packets: an ACK or NAK, a bitmap acknowledgement, an FFM.
[[nodiscard]] constexpr bool is_acknowledgement(std::uint8_t opcode) {
  return opcode == opcode_of(RcOp::kAcknowledge, false) ||
         opcode == (opcode_of(RcOp::kAcknowledge, false) | kTransportXrc) ||
         opcode == static_cast<std::uint8_t>(Control::kBitmapAck) || opcode == static_cast<std::uint8_t>(Control::kFfm);
}

// Layout of a packet of one opcode. The parts are on the wire in the order of these bits, except two: a token is at
// kTokenOffset after BTH, and XRCETH directly behind BTH.
struct OpcodeShape {
  static constexpr std::uint16_t kKnown = 1, kBxth = 2, kDeth = 4, kFeth = 8, kReth = 16, kAtomicEth = 32, kAeth = 64,
                                 kAtomicAck = 128, kImmediate = 256, kInvalidate = 512, kPayload = 1024,
                                 kControl = 2048, kCnp = 4096, kToken = 8192, kXrceth = 16384;
  std::uint16_t parts = 0;
  std::uint8_t headers_size = 0;  // BTH included

  [[nodiscard]] constexpr bool has(std::uint16_t part) const { return (parts & part) != 0; }
};

namespace internal {

[[nodiscard]] constexpr std::uint16_t rc_parts(RcOp op) {
  using S = OpcodeShape;
  switch (op) {
    case RcOp::kSendFirst:
    case RcOp::kSendMiddle:
    case RcOp::kSendLast:
    case RcOp::kSendOnly:
    case RcOp::kWriteMiddle:
    case RcOp::kWriteLast:
    case RcOp::kReadResponseMiddle:
      return S::kKnown | S::kPayload;
    case RcOp::kSendLastImm:
    case RcOp::kSendOnlyImm:
    case RcOp::kWriteLastImm:
      return S::kKnown | S::kPayload | S::kImmediate;
    case RcOp::kSendLastInvalidate:
    case RcOp::kSendOnlyInvalidate:
      return S::kKnown | S::kPayload | S::kInvalidate;
    case RcOp::kWriteFirst:
    case RcOp::kWriteOnly:
    case RcOp::kAtomicWrite:
      return S::kKnown | S::kPayload | S::kReth;
    case RcOp::kWriteOnlyImm:
      return S::kKnown | S::kPayload | S::kReth | S::kImmediate;
    case RcOp::kReadRequest:
      return S::kKnown | S::kReth;
    case RcOp::kReadResponseFirst:
    case RcOp::kReadResponseLast:
    case RcOp::kReadResponseOnly:
      return S::kKnown | S::kPayload | S::kAeth;
    case RcOp::kAcknowledge:
      return S::kKnown | S::kAeth;
    case RcOp::kAtomicAcknowledge:
      return S::kKnown | S::kAeth | S::kAtomicAck;
    case RcOp::kCompareSwap:
    case RcOp::kFetchAdd:
      return S::kKnown | S::kAtomicEth;
    case RcOp::kFlush:
      return S::kKnown | S::kFeth | S::kReth;
  }
  return 0;  // 0x15, 0x18..0x1B, 0x1E and 0x1F are reserved
}

[[nodiscard]] constexpr std::uint16_t bitmap_parts(RcOp op) {
  using S = OpcodeShape;
  const std::uint16_t parts = rc_parts(op);
  if (parts == 0) return 0;
  const bool write = op >= RcOp::kWriteFirst && op <= RcOp::kWriteOnlyImm;  // each WRITE packet names its own target
  // An AETH on READ response MIDDLE packets too: all full responses are of one size, so that a READ leaves in whole
  // batches.
  const bool response = op == RcOp::kReadResponseMiddle;
  return static_cast<std::uint16_t>(parts | S::kBxth | S::kToken | (write ? S::kReth : 0) | (response ? S::kAeth : 0));
}

[[nodiscard]] constexpr std::uint16_t unreliable_parts(RcOp op) {
  return op <= RcOp::kWriteOnlyImm ? rc_parts(op) : std::uint16_t{0};
}

[[nodiscard]] constexpr std::uint16_t datagram_parts(RcOp op) {
  if (op != RcOp::kSendOnly && op != RcOp::kSendOnlyImm) return 0;
  return static_cast<std::uint16_t>(rc_parts(op) | OpcodeShape::kDeth);
}

// IBTA annex A14: requests of all kinds name a shared receive queue.
[[nodiscard]] constexpr std::uint16_t xrc_parts(RcOp op) {
  const std::uint16_t parts = rc_parts(op);
  const bool answer = (op >= RcOp::kReadResponseFirst && op <= RcOp::kAtomicAcknowledge);
  return static_cast<std::uint16_t>(parts | (parts == 0 || answer ? 0 : OpcodeShape::kXrceth));
}

[[nodiscard]] constexpr OpcodeShape shape_of(std::uint8_t opcode) {
  using S = OpcodeShape;
  std::uint16_t parts = 0;
  const auto op = static_cast<RcOp>(opcode & 0x1F);
  switch (opcode & kTransportMask) {
    case kTransportRc:
      parts = rc_parts(op);
      break;
    case kTransportUc:
      parts = unreliable_parts(op);
      break;
    case kTransportUd:
      parts = datagram_parts(op);
      break;
    case kTransportXrc:
      parts = xrc_parts(op);
      break;
    case kTransportBitmap:
      parts = bitmap_parts(op);
      break;
    case kTransportControl:
      if (opcode <= static_cast<std::uint8_t>(Control::kStoppedReply)) parts = S::kKnown | S::kControl;
      if (opcode >= static_cast<std::uint8_t>(Control::kBitmapAck) &&
          opcode <= static_cast<std::uint8_t>(Control::kEdn))
        parts |= S::kToken;
      break;
    default:
      if (opcode == kCnpOpcode) parts = S::kKnown | S::kCnp;
      break;  // RD
  }
  const auto size = [parts](std::uint16_t part, std::size_t bytes) { return (parts & part) != 0 ? bytes : 0; };
  const std::size_t headers =
      kBthSize + size(S::kBxth, kBxthSize) + size(S::kDeth, kDethSize) + size(S::kFeth, kFethSize) +
      size(S::kReth, kRethSize) + size(S::kAtomicEth, kAtomicEthSize) + size(S::kAeth, kAethSize) +
      size(S::kAtomicAck, kAtomicAckSize) + size(S::kImmediate, kImmediateSize) +
      size(S::kInvalidate, kInvalidateSize) + size(S::kCnp, kCnpReservedSize) + size(S::kXrceth, kXrcethSize);
  return OpcodeShape{parts, static_cast<std::uint8_t>(headers)};
}

[[nodiscard]] constexpr std::array<OpcodeShape, 256> make_shapes() {
  std::array<OpcodeShape, 256> shapes{};
  for (std::size_t i = 0; i < shapes.size(); ++i) shapes[i] = shape_of(static_cast<std::uint8_t>(i));
  return shapes;
}

inline constexpr std::array<OpcodeShape, 256> kShapes = make_shapes();

}  // namespace internal

// parts == 0: an opcode that this version does not support.
[[nodiscard]] constexpr const OpcodeShape& opcode_shape(std::uint8_t opcode) { return internal::kShapes[opcode]; }

}  // namespace brdma::wire
