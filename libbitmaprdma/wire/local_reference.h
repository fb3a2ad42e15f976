// wire/local_reference.h - local transfer by reference: the descriptor that a packet (BXTH) carries in place of its
// data. It names the data's place in the memory of the sending process. Layout: docs/reference/wire.md#descriptions.
//   0 key | 8 pieces: 0 address, 8 length
// The key is the first word of the sender's nonce (CAPS), known to nobody else.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/bytes.h"
#include "base/local_memory.h"

namespace brdma::wire {

struct LocalReference {
  static constexpr std::size_t kPiecesMax = 20;
  static constexpr std::uint32_t kBytesMax = 1u << 20;  // of the data of one packet

  std::uint64_t key = 0;
  std::size_t piece_count = 0;
  std::uint32_t bytes = 0;  // of all pieces
  std::array<LocalPiece, kPiecesMax> piece;

  [[nodiscard]] std::span<const LocalPiece> pieces() const { return {piece.data(), piece_count}; }
};

inline constexpr std::size_t kReferenceKeySize = 8, kReferencePieceSize = 12;
inline constexpr std::size_t kReferenceSizeMax = kReferenceKeySize + LocalReference::kPiecesMax * kReferencePieceSize;
[[nodiscard]] constexpr std::size_t reference_size(std::size_t pieces) {
  return kReferenceKeySize + pieces * kReferencePieceSize;
}

// nullopt: no piece, too many, an empty one, more than kBytesMax, or a wrong size.
[[nodiscard]] std::optional<LocalReference> parse_reference(ConstBytes payload);
// Bytes of the data alone. Precondition: parse_reference(payload) has a value.
[[nodiscard]] std::uint32_t referenced_bytes(ConstBytes payload);
// Returns the size. Precondition: 1..kPiecesMax pieces, none empty.
std::size_t emit_reference(std::uint64_t key, std::span<const LocalPiece> pieces, std::byte* out);

}  // namespace brdma::wire
