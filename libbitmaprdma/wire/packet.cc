#include "wire/packet.h"

#include <cstring>

namespace brdma::wire {
namespace {

using Shape = OpcodeShape;

// Returns the headers one after the other. parse_packet_into() has compared headers_size with the packet's size.
class Reader {
 public:
  explicit Reader(const std::byte* at) : at_(at) {}
  template <std::size_t kSize>
  Field<kSize> take() {
    const Field<kSize> field{at_, kSize};
    at_ += kSize;
    return field;
  }
  [[nodiscard]] const std::byte* here() const { return at_; }

 private:
  const std::byte* at_;
};

// The headers after BXTH. The order of the ifs is the order on the wire.
void parse_extensions(const Shape& shape, Reader& reader, Packet& packet) {
  if (shape.has(Shape::kDeth)) packet.deth = parse_deth(reader.take<kDethSize>());
  if (shape.has(Shape::kFeth)) packet.feth = parse_feth(reader.take<kFethSize>());
  if (shape.has(Shape::kReth)) packet.reth = parse_reth(reader.take<kRethSize>());
  constexpr std::uint16_t kBehindReth =
      Shape::kAtomicEth | Shape::kAeth | Shape::kAtomicAck | Shape::kImmediate | Shape::kInvalidate;
  if (!shape.has(kBehindReth)) return;
  if (shape.has(Shape::kAtomicEth)) packet.atomic = parse_atomic_eth(reader.take<kAtomicEthSize>());
  if (shape.has(Shape::kAeth)) packet.aeth = parse_aeth(reader.take<kAethSize>());
  if (shape.has(Shape::kAtomicAck)) packet.atomic_original = load_be64(reader.take<kAtomicAckSize>().data());
  if (shape.has(Shape::kImmediate)) {
    std::memcpy(&packet.immediate_be, reader.take<kImmediateSize>().data(), kImmediateSize);
  }
  if (shape.has(Shape::kInvalidate)) packet.invalidate_rkey = load_be32(reader.take<kInvalidateSize>().data());
}

// What of a packet's body has to be there, and which version.
struct Versioned {
  std::size_t bytes = 0;  // of a control packet: the word that begins with its version, or up to its token
  std::uint8_t version = kBitmapVersion;
};

Versioned versioned_control(const Shape& shape) {
  if (shape.has(Shape::kToken)) return {.bytes = kTokenOffset + kTokenSize};
  return {.bytes = 4, .version = kControlVersion};
}

// BXTH, and the piggybacked ACK that it announces. nullopt: done. `size`: of the packet.
[[gnu::always_inline]] inline std::optional<DropReason> parse_bitmap_headers(std::size_t size, Reader& reader,
                                                                             Packet& packet,
                                                                             std::size_t& headers_size) {
  packet.bxth = parse_bxth(reader.take<kBxthSize>());
  if (!packet.bxth.piggyback) return std::nullopt;
  headers_size += kPiggybackSize;
  if (size < headers_size + kIcrcSize) return DropReason::kTruncated;
  packet.piggyback = parse_piggyback(reader.take<kPiggybackSize>());
  if ((packet.piggyback.syndrome & kSyndromeKindMask) != 0) return DropReason::kBadControl;
  return std::nullopt;
}

// `padded`: bytes between headers and ICRC.
[[gnu::always_inline]] inline bool length_valid(const Shape& shape, const Packet& packet, std::size_t padded) {
  const std::size_t pad = packet.bth.pad;
  if (padded % 4 != 0 || pad > padded) return false;
  if (!shape.has(Shape::kPayload | Shape::kControl) && padded != 0) return false;
  return !packet.control || pad == 0;
}

}  // namespace

std::optional<DropReason> parse_packet_into(ConstBytes udp_payload, Packet& packet) {
  const std::size_t size = udp_payload.size();
  if (size < kBthSize + kIcrcSize) return DropReason::kTruncated;
  Reader reader{udp_payload.data()};
  const auto bth = reader.take<kBthSize>();
  if (bth_version(bth) != 0) return DropReason::kBadVersion;
  packet.bth = parse_bth(bth);
  const Shape shape = opcode_shape(packet.bth.opcode);
  if (!shape.has(Shape::kKnown)) return DropReason::kUnknownOpcode;
  // Full and limited members may communicate, and we are full: the membership bit does not matter.
  if ((packet.bth.pkey & 0x7FFF) != (kDefaultPkey & 0x7FFF)) return DropReason::kBadPkey;

  packet.bitmap = shape.has(Shape::kBxth);
  packet.control = shape.has(Shape::kControl);
  Versioned body;
  if (packet.control) [[unlikely]]
    body = versioned_control(shape);
  if (size < shape.headers_size + body.bytes + kIcrcSize) return DropReason::kTruncated;
  if ((packet.bitmap || packet.control) && bitmap_version(reader.here()) != body.version)
    return DropReason::kBadVersion;
  packet.op = packet.control ? RcOp{} : static_cast<RcOp>(packet.bth.opcode & 0x1F);
  std::size_t headers_size = shape.headers_size;
  if (packet.bitmap) {
    if (const auto reason = parse_bitmap_headers(size, reader, packet, headers_size)) return *reason;
  } else if (shape.has(Shape::kXrceth)) [[unlikely]] {
    packet.srq = load_be32(reader.take<kXrcethSize>().data()) & 0xFF'FFFF;
  }
  parse_extensions(shape, reader, packet);

  const std::size_t padded = size - headers_size - kIcrcSize;
  if (!length_valid(shape, packet, padded)) return DropReason::kBadLength;
  packet.payload = udp_payload.subspan(headers_size, padded - packet.bth.pad);
  return std::nullopt;
}

Result<Packet, DropReason> parse_packet(ConstBytes udp_payload) {
  Result<Packet, DropReason> result{Packet{}};  // one object, filled where it lies: a Packet is no small value
  if (const auto reason = parse_packet_into(udp_payload, result.value())) result = *reason;
  return result;
}

std::size_t emit_headers(const Packet& packet, std::byte* out) {
  const Shape shape = opcode_shape(packet.bth.opcode);
  BRDMA_CHECK(shape.has(Shape::kKnown));
  emit_bth(packet.bth, out);
  std::byte* at = out + kBthSize;
  if (shape.has(Shape::kBxth)) {
    emit_bxth(packet.bxth, at);
    at += kBxthSize;
    if (packet.bxth.piggyback) {
      emit_piggyback(packet.piggyback, at);
      at += kPiggybackSize;
    }
  } else if (shape.has(Shape::kXrceth)) [[unlikely]] {
    store_be32(at, packet.srq);
    at += kXrcethSize;
  }
  if (shape.has(Shape::kDeth)) {
    emit_deth(packet.deth, at);
    at += kDethSize;
  }
  if (shape.has(Shape::kFeth)) {
    emit_feth(packet.feth, at);
    at += kFethSize;
  }
  if (shape.has(Shape::kReth)) {
    emit_reth(packet.reth, at);
    at += kRethSize;
  }
  if (shape.has(Shape::kAtomicEth)) {
    emit_atomic_eth(packet.atomic, at);
    at += kAtomicEthSize;
  }
  if (shape.has(Shape::kAeth)) {
    emit_aeth(packet.aeth, at);
    at += kAethSize;
  }
  if (shape.has(Shape::kAtomicAck)) {
    store_be64(at, packet.atomic_original);
    at += kAtomicAckSize;
  }
  if (shape.has(Shape::kImmediate)) {
    std::memcpy(at, &packet.immediate_be, kImmediateSize);
    at += kImmediateSize;
  }
  if (shape.has(Shape::kInvalidate)) {
    store_be32(at, packet.invalidate_rkey);
    at += kInvalidateSize;
  }
  if (shape.has(Shape::kCnp)) {
    store_be64(at, packet.bxth.token);
    store_be64(at + kTokenSize, 0);
    at += kCnpReservedSize;
  }
  return static_cast<std::size_t>(at - out);
}

}  // namespace brdma::wire
