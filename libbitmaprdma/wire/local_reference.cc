#include "wire/local_reference.h"

#include "base/check.h"

namespace brdma::wire {
namespace {

LocalPiece piece_at(const std::byte* p) { return {load_be64(p), load_be32(p + 8)}; }

}  // namespace

std::optional<LocalReference> parse_reference(ConstBytes payload) {
  if (payload.size() < reference_size(1) || payload.size() > kReferenceSizeMax) return std::nullopt;
  if ((payload.size() - kReferenceKeySize) % kReferencePieceSize != 0) return std::nullopt;
  LocalReference description;
  description.key = load_be64(payload.data());
  for (std::size_t at = kReferenceKeySize; at < payload.size(); at += kReferencePieceSize) {
    const LocalPiece piece = piece_at(payload.data() + at);
    if (piece.length == 0 || piece.length > LocalReference::kBytesMax - description.bytes) return std::nullopt;
    if (piece.address > ~std::uint64_t{0} - piece.length) return std::nullopt;
    description.bytes += piece.length;
    description.piece[description.piece_count++] = piece;
  }
  return description;
}

std::uint32_t referenced_bytes(ConstBytes payload) {
  std::uint32_t bytes = 0;
  for (std::size_t at = kReferenceKeySize; at < payload.size(); at += kReferencePieceSize) {
    bytes += piece_at(payload.data() + at).length;
  }
  return bytes;
}

std::size_t emit_reference(std::uint64_t key, std::span<const LocalPiece> pieces, std::byte* out) {
  BRDMA_CHECK(!pieces.empty() && pieces.size() <= LocalReference::kPiecesMax);
  store_be64(out, key);
  std::byte* at = out + kReferenceKeySize;
  for (const LocalPiece& piece : pieces) {
    store_be64(at, piece.address);
    store_be32(at + 8, piece.length);
    at += kReferencePieceSize;
  }
  return static_cast<std::size_t>(at - out);
}

}  // namespace brdma::wire
