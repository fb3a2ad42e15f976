#include "mutate.h"

#include <algorithm>
#include <array>

#include "base/bytes.h"
#include "offer.h"
#include "wire/cm/mad.h"
#include "wire/headers.h"
#include "wire/opcode.h"

namespace brdma::attacks {
namespace {

using wire::OpcodeShape;

struct Field {
  std::uint8_t offset, bytes;  // within its header
  bool guards = false;         // its destination or proof of origin: else most packets end there
};
constexpr std::array kBth{Field{1, 1}, Field{2, 2, true}, Field{4, 1}, Field{5, 3, true}, Field{8, 1}, Field{9, 3}};
constexpr std::array kBxth{Field{0, 1},  Field{1, 3, true}, Field{4, 1},  Field{5, 3},  Field{8, 1},       Field{9, 3},
                           Field{12, 1}, Field{13, 3},      Field{16, 2}, Field{18, 6}, Field{24, 8, true}};
constexpr std::array kPiggyback{Field{0, 1},  Field{1, 3},  Field{4, 1},  Field{5, 3},  Field{8, 4},
                                Field{12, 4}, Field{18, 6}, Field{24, 8}, Field{32, 4}, Field{36, 4}};
constexpr std::array kReth{Field{0, 8}, Field{8, 4, true}, Field{12, 4}};
constexpr std::array kAtomicEth{Field{0, 8}, Field{8, 4, true}, Field{12, 8}, Field{20, 8}};
constexpr std::array kAeth{Field{0, 1}, Field{1, 3}};
constexpr std::array kWord{Field{0, 4}};
constexpr std::array kLong{Field{0, 8}};

class Fields {
 public:
  Fields(std::size_t packet_size, Random& random) : size_(packet_size - wire::kIcrcSize), random_(random) {}
  template <std::size_t kCount>
  void add(const std::array<Field, kCount>& header, std::size_t header_size) {
    for (const Field& field : header) {
      if (at_ + field.offset + field.bytes > size_) continue;
      if (field.guards && random_.below(32) != 0) continue;
      found_.push_back({at_ + field.offset, field.bytes});
    }
    at_ += header_size;
  }
  // A body without known fields.
  void add_rest(std::size_t except_from, std::size_t except_to) {
    for (std::size_t offset = at_; offset + 4 <= size_; ++offset) {
      const bool guards = offset + 4 > except_from && offset < except_to;
      if (!guards || random_.below(32) == 0) found_.push_back({offset, 1 + random_.below(4)});
    }
  }
  struct Found {
    std::size_t offset, bytes;
  };
  [[nodiscard]] const std::vector<Found>& found() const { return found_; }

 private:
  std::size_t size_, at_ = 0;
  Random& random_;
  std::vector<Found> found_;
};

std::vector<Fields::Found> fields_of(const PacketBytes& packet, Random& random) {
  Fields fields{packet.size(), random};
  const OpcodeShape& shape = wire::opcode_shape(load_u8(packet.data()));
  fields.add(kBth, wire::kBthSize);
  if (shape.has(OpcodeShape::kControl)) {
    fields.add_rest(wire::kBthSize + wire::kTokenOffset, wire::kBthSize + wire::kTokenOffset + wire::kTokenSize);
    return fields.found();
  }
  if (shape.has(OpcodeShape::kBxth)) {
    const bool piggyback =
        packet.size() > wire::kBthSize && (load_u8(&packet[wire::kBthSize]) & wire::kBxthPiggyback) != 0;
    fields.add(kBxth, wire::kBxthSize);
    if (piggyback) fields.add(kPiggyback, wire::kPiggybackSize);
  }
  if (shape.has(OpcodeShape::kFeth)) fields.add(kWord, wire::kFethSize);
  if (shape.has(OpcodeShape::kReth)) fields.add(kReth, wire::kRethSize);
  if (shape.has(OpcodeShape::kAtomicEth)) fields.add(kAtomicEth, wire::kAtomicEthSize);
  if (shape.has(OpcodeShape::kAeth)) fields.add(kAeth, wire::kAethSize);
  if (shape.has(OpcodeShape::kAtomicAck)) fields.add(kLong, wire::kAtomicAckSize);
  if (shape.has(OpcodeShape::kImmediate)) fields.add(kWord, wire::kImmediateSize);
  if (shape.has(OpcodeShape::kInvalidate)) fields.add(kWord, wire::kInvalidateSize);
  return fields.found();
}

// Another operation of the same transport; seldom another transport.
void mutate_opcode(PacketBytes& packet, Random& random) {
  const std::uint8_t opcode = load_u8(packet.data());
  const auto operation = static_cast<std::uint8_t>(random.below(32));
  std::uint8_t changed = static_cast<std::uint8_t>((opcode & wire::kTransportMask) | operation);
  if ((opcode & wire::kTransportMask) == wire::kTransportControl)
    changed = static_cast<std::uint8_t>(0xE0 | operation % 9);
  if (random.below(16) == 0) changed = static_cast<std::uint8_t>(random.next());
  store_u8(packet.data(), changed);
}

void mutate_length(PacketBytes& packet, Random& random) {
  constexpr std::size_t kLeast = wire::kBthSize + wire::kIcrcSize, kMost = 8400;
  const std::size_t step = random.below(4) == 0 ? 1 + random.below(2048) : 4 * (1 + random.below(16));
  if (random.below(2) == 0) {
    packet.resize(std::max(kLeast, packet.size() - std::min(packet.size(), step)));
  } else {
    const std::size_t size = std::min(kMost, packet.size() + step);
    const auto more = static_cast<std::byte>(kHostileBit | random.below(0x80));
    if (size > packet.size()) packet.insert(packet.end() - wire::kIcrcSize, size - packet.size(), more);
  }
}

std::uint64_t load(const std::byte* at, std::size_t bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes; ++i) value = value << 8 | load_u8(at + i);
  return value;
}

void store(std::byte* at, std::size_t bytes, std::uint64_t value) {
  for (std::size_t i = bytes; i-- > 0; value >>= 8) store_u8(at + i, static_cast<std::uint8_t>(value));
}

}  // namespace

void mutate_number(std::byte* at, std::size_t bytes, Random& random) {
  std::uint64_t value = load(at, bytes);
  switch (random.below(8)) {
    case 0:
      value += 1 + random.below(4);
      break;
    case 1:
      value -= 1 + random.below(4);
      break;
    case 2:
      value += random.below(8192) - 4096;
      break;
    case 3:
      value ^= std::uint64_t{1} << random.below(8 * bytes);
      break;
    case 4:
      value = 0;
      break;
    case 5:
      value = ~std::uint64_t{0} - random.below(4);
      break;
    case 6:
      value = std::uint64_t{1} << random.below(8 * bytes);
      break;
    default:
      value = random.next();
  }
  store(at, bytes, value);
}

void mutate(PacketBytes& packet, Random& random) {
  const std::uint64_t which = random.below(10);
  if (which == 0) return mutate_opcode(packet, random);
  if (which == 1) return mutate_length(packet, random);
  const auto fields = fields_of(packet, random);
  if (fields.empty()) return;
  const auto& field = fields[random.below(fields.size())];
  mutate_number(&packet[field.offset], field.bytes, random);
}

// BTH | DETH | MAD: 0 base version, class, class version, method | 8 transaction | 16 attribute | 24 the message.
void mutate_mad(PacketBytes& packet, Random& random) {
  constexpr std::size_t kMad = wire::kBthSize + wire::kDethSize;
  if (packet.size() < wire::kGsiPacketSize) return;
  std::byte* const mad = &packet[kMad];
  switch (random.below(10)) {
    case 0:
      return store_be16(mad + 16, static_cast<std::uint16_t>(0x10 + random.below(12)));
    case 1:
      return mutate_number(mad + 8, 8, random);
    case 2:
      return mutate_number(mad + wire::kMadHeaderSize + 4 * random.below(2), 4, random);
    case 3:
      return mutate_number(mad + random.below(wire::kMadHeaderSize), 1, random);
    case 4:
      return mutate_number(&packet[random.below(kMad)], 1, random);
    case 5:
      for (std::size_t i = wire::kMadHeaderSize + 36; i < wire::kMadSize; ++i)
        store_u8(mad + i, static_cast<std::uint8_t>(random.next()));
      return;
    case 6:
      return packet.resize(random.below(2) == 0 ? wire::kGsiPacketSize - 4 * random.below(64) : 12 + random.below(400));
    default:
      return mutate_number(mad + wire::kMadHeaderSize + random.below(wire::kMadDataSize - 8), 1 + random.below(8),
                           random);
  }
}

}  // namespace brdma::attacks
