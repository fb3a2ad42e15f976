// tests docs/reference/wire.md#descriptions: a local-reference packet's descriptor in place of its data, to the bit,
// and refusals.
#include <gtest/gtest.h>

#include <vector>

#include "support/bytes.h"
#include "wire/control.h"
#include "wire/local_reference.h"

namespace brdma::test {
namespace {

using wire::LocalReference;

std::vector<std::byte> made(std::uint64_t key, std::span<const LocalPiece> pieces) {
  std::vector<std::byte> bytes(wire::kReferenceSizeMax);
  bytes.resize(wire::emit_reference(key, pieces, bytes.data()));
  return bytes;
}

TEST(LocalReference, IsWrittenAndReadToTheBit) {
  const std::vector<LocalPiece> pieces{{0x00007f12'3456'7000, 0x10000}, {0x00007f12'4000'0010, 100}};
  const auto bytes = made(0x0102'0304'0506'0708, pieces);
  EXPECT_EQ(bytes, hex("0102030405060708 00007f1234567000 00010000 00007f1240000010 00000064"));
  const auto read = wire::parse_reference(bytes);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->key, 0x0102'0304'0506'0708u);
  EXPECT_EQ(read->bytes, 0x10064u);
  EXPECT_EQ(wire::referenced_bytes(bytes), 0x10064u);
  ASSERT_EQ(read->pieces().size(), 2u);
  EXPECT_EQ(read->pieces()[0], pieces[0]);
  EXPECT_EQ(read->pieces()[1], pieces[1]);
}

TEST(LocalReference, RefusesWhatCannotBe) {
  EXPECT_TRUE(wire::parse_reference(made(1, std::vector<LocalPiece>(LocalReference::kPiecesMax, {4096, 1}))));
  EXPECT_FALSE(wire::parse_reference(made(1, std::vector<LocalPiece>{{4096, 0}})));
  EXPECT_TRUE(wire::parse_reference(made(1, std::vector<LocalPiece>{{4096, LocalReference::kBytesMax}})));
  EXPECT_FALSE(wire::parse_reference(made(1, std::vector<LocalPiece>{{4096, LocalReference::kBytesMax + 1}})));
  EXPECT_FALSE(wire::parse_reference(made(1, std::vector<LocalPiece>{{4096, LocalReference::kBytesMax}, {4096, 1}})));
  EXPECT_FALSE(wire::parse_reference(made(1, std::vector<LocalPiece>{{~std::uint64_t{0} - 10, 100}})));
  auto bytes = made(1, std::vector<LocalPiece>{{4096, 1}, {8192, 1}});
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_EQ(wire::parse_reference(ConstBytes{bytes}.first(size)).has_value(), size == wire::reference_size(1));
  }
  bytes.resize(wire::kReferenceSizeMax + wire::kReferencePieceSize);
  EXPECT_FALSE(wire::parse_reference(bytes));
}

TEST(Caps, OfProcessesOfOneHostAreWrittenAndReadToTheBit) {
  wire::Caps caps;
  caps.source_qpn = 0x2203;
  caps.capabilities = wire::kCapabilityBitmap | wire::kCapabilityLocal;
  caps.window_packets = 4096;
  caps.local = {.pid = 4711, .pid_namespace = 0xF000'0001, .beacon = 0x7f12'3456'7000, .nonce = {0x11, 0x22}};
  caps.local_fetches = true;
  std::vector<std::byte> bytes(wire::kCapsSize + wire::kCapsLocalSize);
  ASSERT_EQ(wire::emit_caps(caps, bytes.data()), bytes.size());
  EXPECT_EQ(std::vector<std::byte>(bytes.begin() + 48, bytes.end()),
            hex("01000000 00001267 00000000f0000001 00007f1234567000 0000000000000011 0000000000000022"));
  const auto read = wire::parse_caps(bytes);
  ASSERT_TRUE(read);
  EXPECT_TRUE(read->local_fetches);
  EXPECT_FALSE(read->local_confirmed);
  EXPECT_EQ(read->local.pid, 4711u);
  EXPECT_EQ(read->local.beacon, 0x7f12'3456'7000u);
  EXPECT_EQ(read->local.nonce[1], 0x22u);
  EXPECT_FALSE(wire::parse_caps(ConstBytes{bytes}.first(bytes.size() - 4)));
}

}  // namespace
}  // namespace brdma::test
