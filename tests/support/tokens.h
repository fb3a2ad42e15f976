// tests/support/tokens.h - puts values that only the peer knows into bitmap-mode packets that a test builds by hand.
#pragma once

#include "base/bytes.h"
#include "qp/state/identity.h"
#include "wire/control.h"
#include "wire/opcode.h"

namespace brdma::test {

// Fills zero fields of the packet, which has no ICRC yet: the token that its receiver expects, and its sender's number;
// in CAPS the tokens of both, in an EDN that of the dropped packet.
inline void put_tokens(const qp::Identity& receiver, std::uint64_t sender_token, MutableBytes packet) {
  const auto put = [](std::byte* at, std::uint64_t token) {
    if (load_be64(at) == 0) store_be64(at, token);
  };
  const auto is = [&](wire::Control which) { return load_u8(packet.data()) == static_cast<std::uint8_t>(which); };
  std::byte* const body = packet.data() + wire::kBthSize;
  constexpr std::size_t kWithToken = wire::kBthSize + wire::kTokenOffset + wire::kTokenSize + wire::kIcrcSize;
  if (packet.size() < kWithToken) return;
  if (wire::opcode_shape(load_u8(packet.data())).has(wire::OpcodeShape::kToken)) {
    put(body + wire::kTokenOffset, is(wire::Control::kEdn) ? receiver.peer_token : receiver.own_token);
    if (load_be24(body + 1) == 0) store_be24(body + 1, receiver.attributes.destination_qpn);
  } else if (is(wire::Control::kCaps) && packet.size() >= wire::kBthSize + wire::kCapsSize + wire::kIcrcSize &&
             load_u8(body + 9) >= wire::kBitmapVersion) {
    put(body + 32, sender_token);
    put(body + 40, receiver.own_token);
  }
}

}  // namespace brdma::test
