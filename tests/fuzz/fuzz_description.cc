// Input: the descriptor in a local-reference packet, in place of its data. An accepted one obeys the limits of
// docs/reference/wire.md and encodes to the same bytes.
#include <cstdint>
#include <cstring>

#include "base/check.h"
#include "wire/local_reference.h"

using namespace brdma;  // a test's entry point, no header

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ConstBytes input{reinterpret_cast<const std::byte*>(data), size};
  const auto description = wire::parse_reference(input);
  if (!description) return 0;
  const auto pieces = description->pieces();
  BRDMA_CHECK(!pieces.empty() && pieces.size() <= wire::LocalReference::kPiecesMax);
  std::uint64_t bytes = 0;
  for (const LocalPiece& piece : pieces) {
    BRDMA_CHECK(piece.length > 0 && piece.address + piece.length > piece.address);
    bytes += piece.length;
  }
  BRDMA_CHECK(bytes == description->bytes && bytes <= wire::LocalReference::kBytesMax);
  BRDMA_CHECK(wire::referenced_bytes(input) == bytes);
  std::byte again[wire::kReferenceSizeMax];
  BRDMA_CHECK(wire::emit_reference(description->key, pieces, again) == size);
  BRDMA_CHECK(std::memcmp(again, data, size) == 0);
  return 0;
}
